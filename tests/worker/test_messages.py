from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.runtime_end import RuntimeEnd, Worker, served, spec_of

App = Callable[[str], Path]


def test_calls_and_texts_from_before_a_subscription_go_to_the_first_one_in_order(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            await sdk.inbox.acknowledge("go")
            seen = []
            sdk.tools.subscribe(lambda call: seen.append(call.call_id))
            sdk.tools.subscribe(lambda call: seen.append("late"))
            sdk.inbox.subscribe(lambda message: seen.append(message.message.text))
            await sdk.tools.complete("call-1", {"seen": seen})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        go = runtime.hear("inbox.acknowledge")
        runtime.call(1)
        runtime.text(2, "text")
        runtime.call(3)
        runtime.accept(go)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert completed.body["result"] == {"seen": ["call-1", "call-3", "text"]}


def test_a_tool_without_a_listener_waits_while_others_are_served(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.tools.handler("echo.say")
            async def say(call):
                sdk.tools.handler("echo.other")(lambda call: {"served": call.tool_id})
                return {"served": call.tool_id}

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1, "echo.other")
        runtime.call(2, "echo.say")
        ended = [runtime.hear("tools.complete") for _ in range(2)]
        for one in ended:
            runtime.accept(one, call_status="completed")

    assert {one.body["call_id"]: one.body["result"]["served"] for one in ended} == {
        "call-1": "echo.other",
        "call-2": "echo.say",
    }


def test_an_unsubscribed_listener_hears_nothing_more(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            seen = []
            unsubscribe = sdk.inbox.subscribe(lambda message: (seen.append(message.message.text), unsubscribe()))
            await sdk.inbox.acknowledge("go")
            unsubscribe()
            await sdk.tools.complete("call-1", {"seen": seen})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        go = runtime.hear("inbox.acknowledge")
        runtime.text(1, "one")
        runtime.text(2, "two")
        runtime.accept(go)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert completed.body["result"] == {"seen": ["one"]}


@pytest.mark.parametrize("word", ["", "async "])
def test_a_listener_that_raises_fails_its_call_and_nothing_else(
    runtime: RuntimeEnd, app: App, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    folder = app(f"""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.tools.subscribe
            {word}def raises(call):
                raise KeyError("secret")

            @sdk.inbox.subscribe
            {word}def raises_too(message):
                raise LookupError("of a text")

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.text(1, "text")
        runtime.call(2)
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    log = capsys.readouterr().err
    assert failed.body == {
        "call_id": "call-2",
        "failure": {
            "code": "app.unhandled_exception",
            "message": "the MiniApp raised KeyError",
            "retryable": False,
        },
    }
    assert "KeyError: 'secret'" in log
    assert "LookupError: of a text" in log


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ('CallFailed("app.no_such_thing", "none", retryable=True, data={"id": 1})', "app.no_such_thing"),
        ('CallFailed("not.an.apps.code", "forged")', "app.unhandled_exception"),
        ('CallFailed("app.no_json", "", data={"a set": {1}})', "app.unhandled_exception"),
    ],
)
def test_an_app_fails_a_call_in_its_own_words_as_far_as_the_contract_lets_it(
    runtime: RuntimeEnd, app: App, raised: str, code: str
) -> None:
    folder = app(f"""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.tools.handler("echo.say")
            async def say(call):
                raise {raised}

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1)
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    assert failed.body["failure"]["code"] == code


def test_a_handler_whose_result_is_refused_fails_its_call(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            sdk.tools.handler("echo.say")(lambda call: {"wrong": True})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1)
        runtime.refuse(runtime.hear("tools.complete"), "tool_output_invalid")
        failed = runtime.hear("tools.fail")
        runtime.accept(failed, call_status="failed")

    assert failed.body["failure"]["code"] == "app.unhandled_exception"


def test_a_message_that_comes_again_after_a_reconnect_is_not_handed_twice(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            seen = []
            sdk.inbox.subscribe(lambda message: seen.append(message.message_id))

            @sdk.tools.subscribe
            async def count(call):
                seen.append(call.message_id)
                if call.tool_id == "echo.last":
                    await sdk.tools.complete(call.call_id, {"seen": seen})

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.text(1, "text")
        runtime.call(2)
        assert runtime.stays_quiet()
        runtime.drop_connection()
        runtime.welcome()
        runtime.text(1, "text")
        runtime.call(2, repeated=True)
        runtime.call(3, "echo.last")
        runtime.say("tools.call", request_id=runtime.hear("tools.get").id)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed, call_status="completed")

    assert completed.body["result"] == {"seen": ["m1", "m2", "m3"]}


def test_a_message_that_was_on_its_way_when_it_was_settled_is_not_handed_again(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            sdk.tools.handler("echo.say")(lambda call: {})
            sdk.inbox.subscribe(lambda message: sdk.inbox.acknowledge(message.message_id))
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1)
        runtime.accept(runtime.hear("tools.complete"), call_status="completed")
        runtime.text(2, "text")
        runtime.accept(runtime.hear("inbox.acknowledge"))
        runtime.call(1, repeated=True)
        runtime.text(2, "text")

        assert runtime.stays_quiet()


def test_a_call_that_ended_before_anybody_listened_is_not_handed_out(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            await sdk.inbox.acknowledge("go")
            sdk.tools.handler("echo.say")(lambda call: {})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        go = runtime.hear("inbox.acknowledge")
        runtime.call(1)
        runtime.say("call.changed", call_id="call-1", status="expired", cancel_requested=False)
        runtime.call(2)
        runtime.accept(go)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed, call_status="completed")

    assert completed.body["call_id"] == "call-2"


def test_an_app_is_told_when_a_call_is_wanted_no_longer_and_when_it_was_ended(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            seen = []
            sdk.tools.subscribe(lambda call: seen.append([call.call_id, call.cancel_requested, call.status]))

            @sdk.tools.subscribe_changes
            def changed(call):
                seen.append([call.call_id, call.cancel_requested, call.status, call.is_final])
                return sdk.tools.complete("call-9", {"seen": seen}) if call.is_final else None

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1)
        assert runtime.stays_quiet()
        runtime.say("call.changed", call_id="call-1", status="running", cancel_requested=True)
        runtime.say("call.changed", call_id="call-1", status="running", cancel_requested=True)
        runtime.say("call.changed", call_id="call-unknown", status="expired", cancel_requested=False)
        runtime.say("call.changed", call_id="call-1", status="cancelled", cancel_requested=True)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert completed.body["result"]["seen"] == [
        ["call-1", False, "waiting_for_app"],
        ["call-1", True, "running", False],
        ["call-1", True, "cancelled", True],
    ]


def test_news_that_was_lost_with_a_connection_is_looked_up_after_it(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            sdk.tools.subscribe(lambda call: None)

            @sdk.tools.subscribe_changes
            async def changed(call):
                await sdk.tools.cancel(call.call_id)

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1)
        assert runtime.stays_quiet()
        runtime.drop_connection()
        runtime.welcome()
        get = runtime.hear("tools.get")
        runtime.say(
            "tools.call",
            request_id=get.id,
            call={
                "call_id": "call-1",
                "tool_id": "echo.say",
                "input": {},
                "status": "running",
                "cancel_requested": True,
                "created_at": get.sent_at,
            },
        )
        cancelled = runtime.hear("tools.cancel")
        runtime.accept(cancelled, call_status="cancelled")

    assert cancelled.body == {"call_id": "call-1"}


def test_an_app_reads_its_context_live_and_cannot_write_it(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            before = sdk.context.state
            await sdk.inbox.acknowledge("go")
            seen = [before, sdk.context.state, sdk.context.app_scope, sdk.context.instance_id]
            seen += [sdk.context.conversation_id, sdk.context.app_version]
            names = ("app_scope", "instance_id", "conversation_id", "state", "another")
            for owner, name in [*((sdk.context, name) for name in names), (sdk, "context"), (sdk, "tools")]:
                try:
                    setattr(owner, name, "forged")
                    seen.append(name)
                except AttributeError:
                    pass
            await sdk.tools.complete("call-1", {"seen": seen})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        go = runtime.hear("inbox.acknowledge")
        runtime.say("context.changed", state="background")
        runtime.accept(go)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert completed.body["result"]["seen"] == ["foreground", "background", "echo", "ins-1", "c-1", "1.0.0"]


def test_a_tool_has_one_handler(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            sdk.tools.handler("echo.say")(lambda call: None)
            try:
                sdk.tools.handler("echo.say")(lambda call: None)
            except ValueError:
                await sdk.tools.complete("call-1", {})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.accept(runtime.hear("tools.complete"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise asyncio.CancelledError", "the MiniApp raised CancelledError"),
        ("one = asyncio.create_task(asyncio.sleep(9)); one.cancel(); await one", "the MiniApp raised CancelledError"),
        ("raise GeneratorExit", "the MiniApp raised GeneratorExit"),
        ('return {"pair": (1, 2)}', "what the MiniApp wanted to send was refused: tuple is not a JSON type"),
        (
            "raise RequestRefused('interaction_denied', 'policy says no')",
            "the runtime refused what the MiniApp asked for: interaction_denied: policy says no",
        ),
        ("raise OSError(24, 'no more')", "the MiniApp raised OSError: its process met its limit of files"),
    ],
)
def test_whatever_a_handler_ends_with_its_call_is_failed_and_the_agent_told_why(
    runtime: RuntimeEnd, app: App, body: str, message: str
) -> None:
    folder = app(f"""
        import asyncio

        async def main(sdk: MiniAppSDK) -> None:
            @sdk.tools.handler("echo.say")
            async def say(call):
                {body}

            await sdk.run_until_stopped()
    """)
    with Worker(spec_of(runtime, folder)):
        runtime.start_app()
        runtime.call(1)
        failed = runtime.hear("tools.fail")
        runtime.hang_up()

    assert failed.body["failure"]["message"] == message
