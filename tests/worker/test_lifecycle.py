"""An app's wishes about its own place, at the worker's end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.worker.runtime_end import RuntimeEnd, served

App = Callable[[str], Path]


def test_each_wish_is_a_request_and_its_receipt_is_the_apps(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            front = await sdk.lifecycle.request_foreground()
            behind = await sdk.lifecycle.request_background()
            end = await sdk.lifecycle.request_close("nothing left to do")
            await sdk.tools.complete("call-1", {"seen": [front.accepted, behind.code, end.accepted]})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        runtime.accept(runtime.hear("lifecycle.request_foreground"))
        runtime.refuse(runtime.hear("lifecycle.request_background"), "lifecycle_denied")
        close = runtime.hear("lifecycle.request_close")
        runtime.accept(close)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert close.body == {"reason": "nothing left to do"}
    assert completed.body["result"] == {"seen": [True, "lifecycle_denied", True]}


def test_a_reason_that_is_too_long_is_refused_before_it_is_sent(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            try:
                await sdk.lifecycle.request_close("x" * 100_000)
            except PayloadRefused as refused:
                await sdk.tools.complete("call-1", {"code": refused.code})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert completed.body["result"] == {"code": "message_invalid"}


def test_listeners_hear_each_change_of_the_state_once(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            seen = []
            unsubscribe = sdk.lifecycle.subscribe(lambda state: seen.append([state, sdk.context.state]))
            await sdk.inbox.acknowledge("go")
            unsubscribe()
            await sdk.inbox.acknowledge("on")
            await sdk.tools.complete("call-1", {"seen": seen})
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        go = runtime.hear("inbox.acknowledge")
        for state in ("foreground", "background", "background"):
            runtime.say("context.changed", state=state)
        runtime.accept(go)
        on = runtime.hear("inbox.acknowledge")
        runtime.say("context.changed", state="suspended")
        runtime.accept(on)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

    assert completed.body["result"] == {"seen": [["background", "background"]]}
