"""Between the welcome and the app: a worker seals itself, says so, and imports nothing before it is let go."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from miniapp_worker import main, session
from miniapp_worker.layers import Applied, Confinement
from miniapp_worker.main import ExitCode
from tests.worker.runtime_end import LIMIT_S, RuntimeEnd, Worker, spec_of

App = Callable[[str], Path]

LEAVES_A_MARK: Final = """
    from pathlib import Path
    Path(__file__).with_name("imported").touch()

    async def main(sdk: MiniAppSDK) -> None:
        await sdk.run_until_stopped()
"""


class Sealed(Confinement):
    """Says that it is in everything; what really is, is tested with real processes."""

    def __init__(self) -> None:
        super().__init__(None, Applied(frozenset({"net", "mnt"}), own_uid=True, landlock_abi=6, filters=1))

    def seal(self) -> tuple[Applied, dict[str, bool]]:
        return self.applied, {"landlock": True, "filter": True, "seal": False}

    @property
    def is_sealed(self) -> bool:
        return True


class Failing(Sealed):
    """The kernel refuses the last step."""

    def seal(self) -> tuple[Applied, dict[str, bool]]:
        raise OSError(errno.EINVAL, "the planted fault")


@pytest.fixture
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for another connection waits longer than a test."""
    monkeypatch.setattr(session, "RECONNECT_WITHIN_S", 20 * LIMIT_S)


def stop(runtime: RuntimeEnd, worker: Worker) -> None:
    runtime.say("session.stop", reason="test", grace_ms=500)
    assert worker.wait_exit_code() == ExitCode.DONE


def welcomed(runtime: RuntimeEnd) -> None:
    runtime.hear("session.hello")
    runtime.say_welcome()


def test_the_app_is_imported_only_after_the_runtime_said_go(runtime: RuntimeEnd, app: App) -> None:
    mark = app(LEAVES_A_MARK) / "imported"
    with Worker(spec_of(runtime, mark.parent), Sealed()) as worker:
        welcomed(runtime)
        runtime.hear("session.confined")
        assert runtime.stays_quiet()
        assert not mark.exists()

        runtime.say("session.go", level="sealed")

        runtime.hear("session.ready")
        assert mark.exists()
        stop(runtime, worker)


def test_a_worker_says_what_it_is_confined_by_and_how_its_canaries_fared(runtime: RuntimeEnd, app: App) -> None:
    with Worker(spec_of(runtime, app(LEAVES_A_MARK)), Sealed()) as worker:
        welcomed(runtime)
        confined = runtime.hear("session.confined")
        runtime.say("session.go", level="partial")
        runtime.hear("session.ready")
        stop(runtime, worker)

    assert confined.body == {
        "namespaces": ["mnt", "net"],
        "landlock_abi": 6,
        "canaries": {"landlock": True, "filter": True, "seal": False},
    }


def test_a_worker_that_nothing_confines_says_that(runtime: RuntimeEnd, app: App) -> None:
    with Worker(spec_of(runtime, app(LEAVES_A_MARK))) as worker:
        welcomed(runtime)
        confined = runtime.hear("session.confined")
        runtime.say("session.go", level="process")
        runtime.hear("session.ready")
        stop(runtime, worker)

    assert confined.body == {"namespaces": [], "landlock_abi": 0, "canaries": {}}


def test_a_worker_whose_connection_broke_before_the_go_says_again_how_it_is_confined(
    runtime: RuntimeEnd, app: App
) -> None:
    mark = app(LEAVES_A_MARK) / "imported"
    with Worker(spec_of(runtime, mark.parent)) as worker:
        welcomed(runtime)
        first = runtime.hear("session.confined")
        runtime.drop_connection()
        welcomed(runtime)

        again = runtime.hear("session.confined")

        assert again.body == first.body
        assert runtime.stays_quiet()
        assert not mark.exists()
        runtime.say("session.go", level="process")
        runtime.hear("session.ready")
        stop(runtime, worker)


def test_after_the_go_it_is_said_no_more(runtime: RuntimeEnd, app: App) -> None:
    with Worker(spec_of(runtime, app(LEAVES_A_MARK))) as worker:
        runtime.start_app()
        runtime.drop_connection()
        hello = runtime.hear("session.hello")
        runtime.say_welcome()

        assert hello.body["ready"] is True
        assert runtime.stays_quiet()
        stop(runtime, worker)


def test_a_go_that_is_said_twice_imports_the_app_once(runtime: RuntimeEnd, app: App) -> None:
    with Worker(spec_of(runtime, app(LEAVES_A_MARK))) as worker:
        welcomed(runtime)
        runtime.hear("session.confined")
        runtime.say("session.go", level="process")
        runtime.say("session.go", level="process")

        runtime.hear("session.ready")
        assert runtime.stays_quiet()
        stop(runtime, worker)


def test_a_go_that_means_nothing_lets_nobody_go(runtime: RuntimeEnd, app: App) -> None:
    mark = app(LEAVES_A_MARK) / "imported"
    with Worker(spec_of(runtime, mark.parent)) as worker:
        welcomed(runtime)
        runtime.hear("session.confined")
        runtime.say("session.go", level="whatever")
        assert runtime.stays_quiet()
        assert not mark.exists()

        runtime.say("session.go", level="process")
        runtime.hear("session.ready")
        stop(runtime, worker)


@pytest.mark.usefixtures("_no_wait")
def test_a_sealed_worker_whose_connection_breaks_ends_at_once(
    runtime: RuntimeEnd, app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    with Worker(spec_of(runtime, app(LEAVES_A_MARK)), Sealed()) as worker:
        runtime.start_app()

        runtime.drop_connection()

        assert worker.wait_exit_code() == ExitCode.CONNECTION_LOST
    assert "cannot make another" in capsys.readouterr().err


@pytest.mark.usefixtures("_no_wait")
def test_a_sealed_worker_whose_connection_breaks_before_the_go_ends_without_its_app(
    runtime: RuntimeEnd, app: App
) -> None:
    mark = app(LEAVES_A_MARK) / "imported"
    with Worker(spec_of(runtime, mark.parent), Sealed()) as worker:
        welcomed(runtime)
        runtime.hear("session.confined")

        runtime.drop_connection()

        assert worker.wait_exit_code() == ExitCode.CONNECTION_LOST
    assert not mark.exists()


def test_a_worker_that_cannot_be_sealed_ends_and_says_nothing_of_it(runtime: RuntimeEnd, app: App) -> None:
    """There is no going on with less."""
    mark = app(LEAVES_A_MARK) / "imported"
    refused: list[OSError] = []

    def live() -> None:
        try:
            main.run(spec_of(runtime, mark.parent), Failing())
        except OSError as error:
            refused.append(error)

    worker = threading.Thread(target=live, daemon=True)
    worker.start()
    welcomed(runtime)
    worker.join(2 * LIMIT_S)

    assert [error.errno for error in refused] == [errno.EINVAL]
    assert not mark.exists()


def test_a_worker_that_is_to_stop_before_the_go_ends_by_itself_without_its_app(runtime: RuntimeEnd, app: App) -> None:
    mark = app(LEAVES_A_MARK) / "imported"
    with Worker(spec_of(runtime, mark.parent)) as worker:
        welcomed(runtime)
        runtime.hear("session.confined")

        runtime.say("session.stop", reason="closed", grace_ms=1000)

        assert runtime.hear("session.bye").body == {"reason": "stopped"}
        assert worker.wait_exit_code() == ExitCode.DONE
    assert not mark.exists()
