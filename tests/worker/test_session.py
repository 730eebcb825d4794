from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from miniapp_worker import session
from miniapp_worker.main import ExitCode
from runtime_actors.contract import envelope
from tests.worker.runtime_end import ATTEMPT, CAPABILITIES, LIMIT_S, TOKEN, RuntimeEnd, Worker, served, spec_of

App = Callable[[str], Path]

ROOT = Path(__file__).parent.parent.parent

WAITS = """
    async def main(sdk: MiniAppSDK) -> None:
        await sdk.run_until_stopped()
"""
COMPLETES_CALLS = """
    async def main(sdk: MiniAppSDK) -> None:
        @sdk.tools.handler("echo.say")
        async def say(call: MiniAppToolCall) -> JsonObject:
            return {"said": call.call_id}

        await sdk.run_until_stopped()
"""


def test_a_worker_says_hello_then_loads_its_app_then_says_ready(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(WAITS)):
        hello = runtime.welcome()
        runtime.hear("session.ready")

    assert hello.body == {
        "attempt_id": ATTEMPT,
        "token": TOKEN,
        "sdk_version": "1.0.0",
        "sdkCapabilities": CAPABILITIES,
        "ready": False,
    }


def test_pings_are_answered_by_the_event_loop(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(WAITS)):
        runtime.start_app()
        runtime.say("session.ping", beat=7)

        assert runtime.hear("session.pong").body == {"beat": 7}


def test_a_refused_worker_ends_with_its_own_code(
    runtime: RuntimeEnd, app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    with Worker(spec_of(runtime, app(WAITS))) as worker:
        runtime.hear("session.hello")
        runtime.say("session.refused", code="attach_denied", detail="no such attempt")
        runtime.hang_up()

        assert worker.wait_exit_code() == ExitCode.REFUSED
    assert "attach_denied" in capsys.readouterr().err


def test_a_worker_in_a_process_of_its_own_shows_why_an_app_does_not_import(runtime: RuntimeEnd, app: App) -> None:
    folder = app("import no_such_library")
    code = (
        "import json, sys; from miniapp_worker import layers, main; "
        "sys.exit(main.run(json.loads(sys.argv[1]), layers.NOTHING))"
    )
    arguments = [sys.executable, "-c", code, json.dumps(spec_of(runtime, folder))]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        runtime.welcome()
        _, log = process.communicate(timeout=2 * LIMIT_S)

    assert process.returncode == ExitCode.NOT_LOADED
    assert "No module named 'no_such_library'" in log
    assert str(folder / "app.py") in log


@pytest.mark.parametrize("source", ["pass", "def main(sdk): ...", "raise SystemExit(0)"])
def test_an_app_without_an_async_main_is_not_loaded(runtime: RuntimeEnd, app: App, source: str) -> None:
    with Worker(spec_of(runtime, app(source))) as worker:
        runtime.welcome()

        assert worker.wait_exit_code() == ExitCode.NOT_LOADED


def test_an_app_imports_its_neighbours_relatively(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        from .neighbour import ANSWER

        async def main(sdk: MiniAppSDK) -> None:
            await sdk.tools.fail("call-1", code="app.answer", message=ANSWER)
    """)
    (folder / "neighbour.py").write_text("ANSWER = 'here'\n", encoding="utf-8")
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        failed = runtime.hear("tools.fail")
        runtime.accept(failed)
        worker.wait_exit_code()

    assert failed.body["failure"]["message"] == "here"


def test_a_main_that_raises_says_bye_without_the_words_of_the_exception(
    runtime: RuntimeEnd, app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            raise RuntimeError("secret")
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()

        assert runtime.hear("session.bye").body == {"reason": "main raised RuntimeError"}
        assert worker.wait_exit_code() == ExitCode.APP_FAILED
    assert "RuntimeError: secret" in capsys.readouterr().err


def test_a_main_that_returns_ends_the_attempt_after_its_requests_are_answered(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            global unanswered
            unanswered = asyncio.create_task(sdk.tools.complete("call-1", {}))
            await asyncio.sleep(0)
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        completed = runtime.hear("tools.complete")
        assert runtime.stays_quiet()
        runtime.accept(completed)

        assert runtime.hear("session.bye").body == {"reason": "main returned"}
        assert worker.wait_exit_code() == ExitCode.DONE


def test_a_stop_lets_what_is_under_way_end(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.tools.handler("echo.say")
            async def say(call: MiniAppToolCall) -> JsonObject:
                await sdk.tools.report_progress(call.call_id, percent=1)
                return {"stopping": sdk.stopping}

            await sdk.run_until_stopped()
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        runtime.call(1)
        progress = runtime.hear("tools.report_progress")
        runtime.say("session.stop", reason="closing", grace_ms=3000)
        assert runtime.stays_quiet()
        runtime.accept(progress)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed)

        assert completed.body["result"] == {"stopping": True}
        assert runtime.hear("session.bye").body == {"reason": "stopped"}
        assert worker.wait_exit_code() == ExitCode.DONE


def test_what_comes_after_main_returned_is_left_to_the_next_process(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            sdk.tools.handler("echo.say")(lambda call: {})
            global unanswered
            unanswered = asyncio.create_task(sdk.inbox.acknowledge("m1"))
            await asyncio.sleep(0)
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        acknowledge = runtime.hear("inbox.acknowledge")
        assert runtime.stays_quiet()
        runtime.call(2)
        assert runtime.stays_quiet()
        runtime.accept(acknowledge)

        runtime.hear("session.bye")
        assert worker.wait_exit_code() == ExitCode.DONE


def test_a_main_that_does_not_stop_is_cancelled_within_the_grace(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                global last
                last = asyncio.create_task(sdk.tools.fail("call-1", code="app.cut_short", message="no time"))
                await asyncio.sleep(0)
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        runtime.say("session.stop", reason="closing", grace_ms=300)

        assert runtime.hear("tools.fail").body["failure"]["code"] == "app.cut_short"
        assert runtime.hear("session.bye").body == {"reason": "stopped"}
        assert worker.wait_exit_code() == ExitCode.DONE


def test_an_app_that_calls_exit_has_failed(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            raise SystemExit(0)
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()

        assert runtime.hear("session.bye").body == {"reason": "main raised AppExited"}
        assert worker.wait_exit_code() == ExitCode.APP_FAILED


def test_after_a_broken_connection_a_request_without_receipt_is_repeated_byte_for_byte(
    runtime: RuntimeEnd, app: App
) -> None:
    with served(runtime, app(COMPLETES_CALLS)):
        runtime.start_app()
        runtime.call(1)
        first = runtime.hear_frame()

        runtime.drop_connection()
        hello = runtime.welcome()
        again = runtime.hear_frame()

        assert envelope.decode(first).type == "lineup.v1.tools.complete"
        assert hello.body["ready"] is True
        assert again == first
        get = runtime.hear("tools.get")  # news of an open call may have been lost
        assert get.body == {"call_id": "call-1"}
        runtime.accept(envelope.decode(again), call_status="completed")
        runtime.say("tools.call", request_id=get.id)


def test_a_request_made_without_a_connection_is_sent_after_the_next_welcome(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.inbox.subscribe
            async def answer(message: MiniAppMessage) -> None:
                while not sdk.stopping:
                    await sdk.inbox.acknowledge(message.message_id)

            await sdk.run_until_stopped()
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        runtime.text(1, "go")
        for _ in range(10):
            runtime.accept(runtime.hear("inbox.acknowledge"))
            runtime.drop_connection()
            runtime.welcome()
        runtime.say("session.stop", reason="test", grace_ms=1000)
        runtime.accept(runtime.hear("inbox.acknowledge"))

        assert runtime.hear("session.bye").body == {"reason": "stopped"}
        assert worker.wait_exit_code() == ExitCode.DONE


def test_a_reset_is_answered_on_the_same_stream_and_then_everything_open_is_repeated(
    runtime: RuntimeEnd, app: App
) -> None:
    with served(runtime, app(COMPLETES_CALLS)):
        runtime.start_app()
        runtime.call(3)
        first = runtime.hear_frame()

        runtime.say("session.reset", attempt_id=ATTEMPT, session=1, snapshot_digest="digest")
        resume = runtime.hear("session.resume")
        quiet = runtime.stays_quiet()
        runtime.say_welcome()
        again = runtime.hear_frame()

        assert resume.body == {
            "attempt_id": ATTEMPT,
            "session": 1,
            "snapshot_digest": "digest",
            "sdkCapabilities": CAPABILITIES,
            "last_number": 3,
            "ready": True,
        }
        assert quiet
        assert again == first
        runtime.accept(envelope.decode(again), call_status="completed")
        runtime.say("tools.call", request_id=runtime.hear("tools.get").id)


CANCELS_ON_WISH = """
    async def main(sdk: MiniAppSDK) -> None:
        sdk.tools.subscribe(lambda call: None)
        sdk.tools.subscribe_changes(lambda call: sdk.tools.cancel(call.call_id))
        await sdk.run_until_stopped()
"""


def test_nothing_is_asked_between_a_hello_and_its_welcome(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(CANCELS_ON_WISH)):
        runtime.start_app()
        runtime.call(1)
        assert runtime.stays_quiet()
        runtime.drop_connection()
        runtime.hear("session.hello")
        runtime.say("call.changed", call_id="call-1", status="running", cancel_requested=True)

        assert runtime.stays_quiet()
        runtime.say_welcome()
        runtime.accept(runtime.hear("tools.cancel"), call_status="cancelled")
        runtime.say("tools.call", request_id=runtime.hear("tools.get").id)


def test_nothing_is_asked_between_a_resume_and_its_welcome(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(CANCELS_ON_WISH)):
        runtime.start_app()
        runtime.call(1)
        assert runtime.stays_quiet()
        runtime.say("session.reset", attempt_id=ATTEMPT, session=1, snapshot_digest="digest")
        runtime.hear("session.resume")
        runtime.say("call.changed", call_id="call-1", status="running", cancel_requested=True)

        assert runtime.stays_quiet()
        runtime.say_welcome()
        runtime.accept(runtime.hear("tools.cancel"), call_status="cancelled")
        runtime.say("tools.call", request_id=runtime.hear("tools.get").id)


def test_without_a_connection_for_too_long_a_worker_ends(
    runtime: RuntimeEnd, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RECONNECT_WITHIN_S", 0.2)
    spec = spec_of(runtime, app(WAITS)) | {"socket_path": f"{runtime.path}-nobody"}
    with Worker(spec) as worker:
        assert worker.wait_exit_code() == ExitCode.CONNECTION_LOST


def test_frames_that_mean_nothing_are_ignored(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(WAITS)):
        runtime.start_app()
        runtime.say_raw(b"\xc1")
        runtime.say("unheard.of")
        runtime.say("call.changed", wrong=True)

        assert runtime.stays_quiet()
