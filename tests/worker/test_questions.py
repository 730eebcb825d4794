"""`sdk.ui` at the worker's end: who is told how a question ended, and when that counts as taken over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.contract import envelope
from tests.worker.runtime_end import SENT_AT, RuntimeEnd, served

App = Callable[[str], Path]

SURE: Final = {"kind": "confirm", "title": "Sure?", "prompt": "It cannot be undone"}
ASKS: Final = """
    async def main(sdk: MiniAppSDK) -> None:
        said = await sdk.ui.confirm("Sure?", "It cannot be undone", key="sure")
        await sdk.tools.complete("call-1", {"said": said})
        await sdk.run_until_stopped()
"""


def a_record(status: str = "pending", interaction_id: str = "int-1", **more: object) -> dict[str, Any]:
    owner = {"app_scope": "echo", "instance_id": "ins-1", "conversation_id": "c-1", "source": "miniapp_tool"}
    fields = {"interaction_id": interaction_id, "owner": owner, "kind": "confirm", "request": SURE, "status": status}
    return fields | {"created_at": SENT_AT, "updated_at": SENT_AT} | more


def completed(*, approved: bool = True) -> dict[str, Any]:
    return a_record("completed", result={"approved": approved})


def ends(runtime: RuntimeEnd, number: int, record: dict[str, Any]) -> None:
    runtime.say(
        "inbox.message",
        message_id=f"m{number}",
        number=number,
        kind="interaction",
        created_at=SENT_AT,
        interaction=record,
    )


def asked(runtime: RuntimeEnd, record: dict[str, Any] | None = None) -> dict[str, Any]:
    """Hear a question and answer it with a receipt; what was asked."""
    request = runtime.hear("ui.request")
    runtime.say("ui.receipt", request_id=request.id, accepted=True, interaction=record or a_record())
    return dict(request.body)


def test_who_asks_waits_for_the_end_and_takes_it_over(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(ASKS)):
        runtime.start_app()
        assert asked(runtime) == {"request": SURE, "presentation": "default", "key": "sure"}
        assert runtime.stays_quiet()
        ends(runtime, 1, completed())
        said = {one.type.removeprefix("lineup.v1."): one for one in _two(runtime)}
        for one in said.values():
            runtime.accept(one)

    assert said["inbox.acknowledge"].body == {"message_id": "m1"}
    assert said["tools.complete"].body["result"] == {"said": True}


def _two(runtime: RuntimeEnd) -> list[envelope.Envelope]:
    return [envelope.decode(runtime.hear_frame()) for _ in range(2)]


def test_an_end_is_taken_over_also_if_it_comes_behind_its_receipt(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(ASKS)):
        runtime.start_app()
        asked(runtime, completed(approved=False))
        complete = runtime.hear("tools.complete")
        runtime.accept(complete)
        ends(runtime, 1, completed(approved=False))
        acknowledged = runtime.hear("inbox.acknowledge")
        runtime.accept(acknowledged)

    assert complete.body["result"] == {"said": False}
    assert acknowledged.body == {"message_id": "m1"}


def test_a_question_that_ended_with_its_call_is_waited_for_no_longer(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(ASKS)):
        runtime.start_app()
        asked(runtime)
        runtime.say("ui.changed", interaction=a_record("presented"))
        runtime.say("ui.changed", interaction=a_record("cancelled"))
        complete = runtime.hear("tools.complete")
        runtime.accept(complete)

    assert complete.body["result"] == {"said": False}


def test_an_end_that_was_lost_with_a_connection_is_looked_up(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(ASKS)):
        runtime.start_app()
        asked(runtime)
        assert runtime.stays_quiet()
        runtime.drop_connection()
        runtime.welcome()
        look = runtime.hear("ui.get")
        runtime.say("ui.interaction", request_id=look.id, interaction=a_record("cancelled"))
        complete = runtime.hear("tools.complete")
        runtime.accept(complete)

    assert look.body == {"interaction_id": "int-1"}


def test_without_a_listener_an_end_is_kept_and_not_acknowledged(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            await sdk.tools.complete("call-1", {})
            seen = asyncio.Queue()
            sdk.ui.subscribe(lambda record: seen.put_nowait(record.status.value))
            await sdk.tools.complete("call-2", {"seen": await seen.get()})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        first = runtime.hear("tools.complete")
        ends(runtime, 1, completed())
        assert runtime.stays_quiet()
        runtime.accept(first)
        said = {one.type.removeprefix("lineup.v1."): one for one in _two(runtime)}
        for one in said.values():
            runtime.accept(one)

    assert said["inbox.acknowledge"].body == {"message_id": "m1"}
    assert said["tools.complete"].body["result"] == {"seen": "completed"}


def test_what_a_listener_raises_leaves_the_end_to_the_next_process(
    runtime: RuntimeEnd, app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            sdk.ui.subscribe(lambda record: 1 / 0)
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        ends(runtime, 1, completed())
        assert runtime.stays_quiet()

    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_refusal_is_raised_by_ask_and_is_a_value_of_request(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            question = {"kind": "confirm", "title": "Sure?", "prompt": ""}
            codes = [(await sdk.ui.request(question)).code]
            try:
                await sdk.ui.ask(question)
            except RequestRefused as error:
                codes.append(error.code)
            try:
                await sdk.ui.request(question | {"owner": "me"})
            except PayloadRefused as error:
                codes.append(error.code)
            await sdk.tools.complete("call-1", {"codes": codes})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        for code in ("busy", "presentation_denied"):
            request = runtime.hear("ui.request")
            runtime.say("ui.receipt", request_id=request.id, accepted=False, code=code, detail="no")
        complete = runtime.hear("tools.complete")
        runtime.accept(complete)

    assert complete.body["result"] == {"codes": ["busy", "presentation_denied", "message_invalid"]}


def test_all_pages_of_a_list_are_asked_for(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            found = [one.interaction_id for one in await sdk.ui.list()]
            await sdk.tools.complete("call-1", {"found": found})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        first = runtime.hear("ui.list")
        runtime.say("ui.interactions", request_id=first.id, interactions=[a_record()], more=True)
        second = runtime.hear("ui.list")
        runtime.say("ui.interactions", request_id=second.id, interactions=[a_record(interaction_id="int-2")])
        complete = runtime.hear("tools.complete")
        runtime.accept(complete)

    assert second.body == {"after_interaction_id": "int-1"}
    assert complete.body["result"] == {"found": ["int-1", "int-2"]}
