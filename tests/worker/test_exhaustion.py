"""An app that meets a limit of its manifest: its call is failed, and its process ends with a code that says so."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from miniapp_worker.exhaustion import Limit, limit_met
from miniapp_worker.main import ExitCode
from tests.worker.runtime_end import RuntimeEnd, Worker, spec_of

App = Callable[[str], Path]

RAISED = {
    "MemoryError()": ExitCode.OUT_OF_MEMORY,
    "OSError(12, 'Cannot allocate memory')": ExitCode.OUT_OF_MEMORY,
    "OSError(24, 'Too many open files')": ExitCode.OUT_OF_FILES,
    """RuntimeError("can't start new thread")""": ExitCode.OUT_OF_THREADS,
}
ROOT = Path(__file__).parents[2]
MEETS_LIMITS = """
import mmap, os, resource, threading
from miniapp_worker.exhaustion import limit_met

def meet(what):
    try:
        what()
    except Exception as error:
        print(limit_met(error))

resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
held = []
meet(lambda: held.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(64)))
meet(lambda: bytearray(2**31))
meet(lambda: mmap.mmap(-1, 2**31))
threading.stack_size(2**31)
meet(threading.Thread(target=print).start)
"""
every_limit = pytest.mark.parametrize(("raised", "code"), RAISED.items(), ids=["heap", "mapping", "files", "threads"])


def caused_by(cause: Exception) -> Exception:
    """As after `raise ValueError from cause`."""
    error = ValueError("of the app")
    error.__cause__ = cause
    return error


# --- what counts ---


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (MemoryError(), Limit.MEMORY),
        (OSError(errno.ENOMEM, "no room to map"), Limit.MEMORY),
        (OSError(errno.EMFILE, "too many"), Limit.FILES),
        (RuntimeError("can't start new thread"), Limit.THREADS),
        (caused_by(MemoryError()), Limit.MEMORY),
        (caused_by(caused_by(OSError(errno.EMFILE, "too many"))), Limit.FILES),
        (ExceptionGroup("two", [ValueError(), MemoryError()]), Limit.MEMORY),
        (ExceptionGroup("nested", [ExceptionGroup("inner", [caused_by(MemoryError())])]), Limit.MEMORY),
        (caused_by(ExceptionGroup("one", [OSError(errno.EMFILE, "too many")])), Limit.FILES),
    ],
)
def test_a_limit_is_seen_in_an_error_in_its_causes_and_in_its_group(error: BaseException, limit: Limit) -> None:
    assert limit_met(error) is limit


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("memory"),
        OSError(errno.ENFILE, "of the whole system"),
        OSError("without a number"),
        FileNotFoundError(errno.ENOENT, "no such file"),
        RuntimeError("can't start new thread, says the app"),
        RuntimeError(),
        ExceptionGroup("two", [ValueError(), KeyError()]),
        caused_by(ValueError()),
    ],
)
def test_an_error_of_another_kind_is_no_limit(error: BaseException | None) -> None:
    assert limit_met(error) is None


def test_an_error_that_came_while_a_limit_was_handled_is_the_apps_own() -> None:
    """It handled the limit, and then did something wrong."""
    mistake = ValueError("the app's own mistake")
    mistake.__context__ = MemoryError()

    assert limit_met(mistake) is None


def test_a_circle_of_causes_has_an_end() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first

    assert limit_met(first) is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere addresses are not limited")
def test_what_python_raises_for_each_limit_is_recognised() -> None:
    """The real thing, in a process whose limits are its own: for threads there is no class and no number to rely on."""
    command = [sys.executable, "-c", MEETS_LIMITS]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)

    assert asked.stdout.split() == ["files", "memory", "memory", "threads"], asked.stderr


# --- what becomes of the worker ---


@every_limit
def test_a_main_that_meets_a_limit_says_bye_and_ends_with_its_code(
    runtime: RuntimeEnd, app: App, raised: str, code: ExitCode
) -> None:
    folder = app(f"""
        async def main(sdk: MiniAppSDK) -> None:
            raise {raised}
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()

        assert runtime.hear("session.bye").body["reason"].startswith("main raised ")
        assert worker.wait_exit_code() == code


@every_limit
def test_an_app_that_meets_a_limit_while_it_is_imported_ends_with_its_code(
    runtime: RuntimeEnd, app: App, raised: str, code: ExitCode
) -> None:
    with Worker(spec_of(runtime, app(f"raise {raised}"))) as worker:
        runtime.welcome()

        assert worker.wait_exit_code() == code


SYNC = """
    async def main(sdk: MiniAppSDK) -> None:
        @sdk.tools.handler("echo.say")
        def say(call: MiniAppToolCall) -> JsonObject:
            raise {raised}

        await sdk.run_until_stopped()
"""
ASYNC = """
    async def main(sdk: MiniAppSDK) -> None:
        @sdk.tools.handler("echo.say")
        async def say(call: MiniAppToolCall) -> JsonObject:
            await asyncio.sleep(0)
            raise {raised}

        await sdk.run_until_stopped()
"""


@every_limit
@pytest.mark.parametrize("source", [SYNC, ASYNC], ids=["function", "coroutine"])
def test_a_handler_that_meets_a_limit_fails_its_call_and_then_the_process_ends_with_its_code(
    runtime: RuntimeEnd, app: App, source: str, raised: str, code: ExitCode
) -> None:
    with Worker(spec_of(runtime, app(source.format(raised=raised)))) as worker:
        runtime.start_app()
        runtime.call(1)

        failed = runtime.hear("tools.fail")
        assert (failed.body["call_id"], failed.body["failure"]["code"]) == ("call-1", "app.unhandled_exception")
        assert worker.wait_exit_code() == code


def test_a_listener_for_texts_that_meets_a_limit_ends_the_process(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.inbox.subscribe
            def read(message: MiniAppMessage) -> None:
                raise MemoryError

            await sdk.run_until_stopped()
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        runtime.text(1, "hello")

        assert worker.wait_exit_code() == ExitCode.OUT_OF_MEMORY


def test_an_app_that_handles_the_limit_itself_goes_on(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            @sdk.tools.handler("echo.say")
            def say(call: MiniAppToolCall) -> JsonObject:
                try:
                    bytearray(2**62)
                except MemoryError:
                    return {"said": "too much"}
                return {}

            await sdk.run_until_stopped()
    """)
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        runtime.call(1)

        completed = runtime.hear("tools.complete")
        assert completed.body["result"] == {"said": "too much"}
        runtime.accept(completed, call_status="completed")
        runtime.say("session.stop", reason="test", grace_ms=500)
        assert worker.wait_exit_code() == ExitCode.DONE
