from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.runtime_end import SENT_AT, RuntimeEnd, served

App = Callable[[str], Path]


def test_what_a_handler_returns_completes_its_call(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.tools.handler("echo.say")
            def say(call: MiniAppToolCall) -> JsonObject:
                return {"text": call.input["text"], "nothing": None}

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1, input={"text": "hello"})
        completed = runtime.hear("tools.complete")
        runtime.accept(completed, call_status="completed")

    assert completed.body == {"call_id": "call-1", "result": {"text": "hello", "nothing": None}}


def test_receipts_in_another_order_reach_those_who_asked(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            receipts = await asyncio.gather(
                sdk.tools.report_progress("call-1", percent=12.5, note="half", data={"a": 1}),
                sdk.tools.cancel("call-2", "no use"),
                sdk.inbox.acknowledge("m3"),
            )
            await sdk.tools.complete("call-4", {"codes": [receipt.code for receipt in receipts]})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        progress, cancel = runtime.hear("tools.report_progress"), runtime.hear("tools.cancel")
        acknowledge = runtime.hear("inbox.acknowledge")
        runtime.refuse(acknowledge, "message_not_found")
        runtime.refuse(progress, "call_not_found")
        runtime.accept(cancel)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert progress.body == {"call_id": "call-1", "progress": {"percent": 12.5, "note": "half", "data": {"a": 1}}}
    assert cancel.body == {"call_id": "call-2", "reason": "no use"}
    assert acknowledge.body == {"message_id": "m3"}
    assert completed.body["result"] == {"codes": ["call_not_found", None, "message_not_found"]}


def test_never_more_requests_than_the_window_are_without_an_answer(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            await asyncio.gather(*(sdk.tools.complete(f"call-{n}", {}) for n in range(5)))
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app(window=2)
        open_requests = [runtime.hear("tools.complete"), runtime.hear("tools.complete")]
        heard = 2
        while open_requests:
            assert runtime.stays_quiet()
            runtime.accept(open_requests.pop())
            if heard < 5:
                open_requests.append(runtime.hear("tools.complete"))
                heard += 1

    assert heard == 5


def test_credit_of_a_cancelled_asker_comes_back_with_the_receipt_only(
    runtime: RuntimeEnd, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            first = asyncio.create_task(sdk.tools.complete("call-1", {}))
            await asyncio.sleep(0)
            first.cancel()
            await sdk.tools.complete("call-2", {})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app(window=1)
        first = runtime.hear("tools.complete")
        quiet = runtime.stays_quiet()
        runtime.accept(first)
        second = runtime.hear("tools.complete")
        runtime.accept(second)

    assert quiet
    assert second.body["call_id"] == "call-2"
    assert not caplog.records, "the event loop reports what went wrong in a callback"


def test_what_breaks_the_contract_is_refused_before_anything_is_sent(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def refused(request):
            try:
                await request
            except PayloadRefused as error:
                return error.code

        async def main(sdk: MiniAppSDK) -> None:
            deep = {}
            for _ in range(25):
                deep = {"deeper": deep}
            tools, codes = sdk.tools, []
            for request in (
                tools.complete("call-1", {"text": "x" * 262_144}),
                tools.complete("call-1", {"text": "x" * 196_608}),
                tools.complete("call-1", {"a set": {1}}),
                tools.complete("call-1", {"number": float("nan")}),
                tools.complete("call-1", deep),
                tools.complete("call-1", "no object"),
                tools.complete("not an id", {}),
                tools.report_progress("call-1", percent=101),
                tools.report_progress("call-1", data={"text": "x" * 16_384}),
                tools.fail("call-1", code="app_crashed", message="forged"),
                tools.fail("not an id", code="app.wrong", message=""),
                tools.get("not an id"),
                sdk.inbox.acknowledge("not an id"),
                sdk.inbox.list("not an id"),
            ):
                codes.append(await refused(request))
            await sdk.tools.complete("call-1", {"codes": codes})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    invalid, too_large = "message_invalid", "message_too_large"
    assert completed.body["result"]["codes"] == [
        *[too_large, too_large],
        *[invalid] * 6,
        too_large,
        *[invalid] * 5,
    ]


def test_a_request_is_as_it_was_made_whatever_becomes_of_its_payload(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            result = {"text": "before"}
            first = asyncio.create_task(sdk.tools.complete("call-1", {}))
            second = asyncio.create_task(sdk.tools.complete("call-2", result))
            await asyncio.sleep(0)
            result["text"] = "after"
            await asyncio.gather(first, second)
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app(window=1)
        runtime.accept(runtime.hear("tools.complete"))
        second = runtime.hear("tools.complete")
        runtime.accept(second)

    assert second.body["result"] == {"text": "before"}


def test_what_the_runtime_cannot_decide_is_asked_again_with_the_same_id(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            await sdk.tools.complete("call-1", {})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        first = runtime.hear("tools.complete")
        runtime.refuse(first, "store_unavailable")
        second = runtime.hear("tools.complete")
        runtime.accept(second)

    assert second == first


def test_the_inbox_is_listed_page_by_page(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            messages = await sdk.inbox.list("m1")
            await sdk.tools.complete("call-1", {"texts": [one.message.text for one in messages]})
            await sdk.run_until_stopped()
    """)
    message = {"kind": "message", "created_at": SENT_AT}
    with served(runtime, folder):
        runtime.start_app()
        pages = []
        for number, more in ((2, True), (3, False)):
            asked = runtime.hear("inbox.list")
            pages.append(asked.body)
            one = message | {"message_id": f"m{number}", "number": number, "message": {"text": f"t{number}"}}
            runtime.say("inbox.page", request_id=asked.id, messages=[one], more=more)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert pages == [{"after_message_id": "m1"}, {"after_message_id": "m2"}]
    assert completed.body["result"] == {"texts": ["t2", "t3"]}


def test_a_question_that_is_refused_raises(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            codes = []
            for question in (sdk.tools.get("call-9"), sdk.inbox.list()):
                try:
                    await question
                except RequestRefused as error:
                    codes.append(error.code)
            unknown = await sdk.tools.get("call-9")
            await sdk.tools.complete("call-1", {"codes": codes, "unknown": unknown is None})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.refuse(runtime.hear("tools.get"), "app_disabled")
        listed = runtime.hear("inbox.list")
        runtime.say("rejected", request_id=listed.id, code="store_unavailable", detail="the disk is full")
        runtime.say("tools.call", request_id=runtime.hear("tools.get").id)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert completed.body["result"] == {"codes": ["app_disabled", "store_unavailable"], "unknown": True}
