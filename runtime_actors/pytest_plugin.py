"""A pytest plugin: a MiniApp in a confined process of a real runtime, which is killed on purpose.

    def test_it_survives(lineup_app):
        call = lineup_app.call("my-app.start", {"steps": ["one"]})
        lineup_app.survives(call)

`lineup_app` serves the nearest folder above the test that has a `manifest.json`, or the one of the ini option
`lineup_app`, or of `@pytest.mark.lineup_app(FOLDER)`. One runtime serves all tests of an app, each in a conversation of
its own. `lineup_faults` runs the test once for each of `FAULTS`, each time in a runtime that has one kill planted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    # Loading the runtime takes a moment, which test runs that do not use it are spared.
    from runtime_actors.authoring.calls import Call
    from runtime_actors.authoring.runtime import PrivateRuntime
    from runtime_actors.contract.base import JsonObject

FAULTS: Final = {
    "before delivery": "admit:after:kill-daemon",
    "after ack": "acknowledge:after:kill-worker",
    "during the work": "report_progress:after:kill-worker",
    "after the result": "finish:after:kill-daemon",
}
"""Where `lineup_faults` kills: each once, behind the COMMIT of that step and before anyone was told of it."""

_MARK: Final = "lineup_app"
_LINES: Final = 40
_apps = pytest.StashKey[list["LineupApp"]]()
_unconfined = pytest.StashKey[str]()


class LineupApp:
    """What the fixtures give: the app under test, in a conversation of this test's own."""

    def __init__(self, runtime: PrivateRuntime, fault: str | None = None) -> None:
        self.runtime = runtime
        self.conversation: Final = runtime.new_conversation()
        self.fault: Final = fault
        """The one of `FAULTS` that is planted."""

    @property
    def app_scope(self) -> str:
        return self.runtime.scope

    def call(
        self,
        tool_id: str,
        input: JsonObject | None = None,  # noqa: A002 - as the wire calls it
        call_id: str | None = None,
        conversation: str | None = None,
    ) -> Call:
        """Invoke a tool as an agent does. The call is recorded then; it survives whatever is killed.

        Raises:
            Refused: It was not let in: `code` says why.

        """
        return self.runtime.call(tool_id, input or {}, conversation or self.conversation, call_id)

    def survives(self, call: Call) -> Call:
        """Kill the app's process, then the daemon; each time the call must come into the app's hands again, or end.

        Raises:
            NotAsWanted: It did not.
            TooLong: No process came up again.

        """
        call.survives()
        return call

    def answer(self, **given: object) -> JsonObject:
        """Answer the oldest open question of this conversation, as the person does; what was asked.

        One of `approved=True`, `action_ids=[...]`, `values={...}` and `acknowledged=True`, as the question wants.

        Raises:
            TooLong: Nothing is asked.
            Refused: The answer does not fit the question.

        """
        return self.runtime.answer(self.conversation, given)

    def close(self) -> None:
        """Wish that the app is closed in this conversation, as the person does; the app decides.

        Raises:
            TooLong: It has no process here.

        """
        self.runtime.wish_close(self.conversation)

    def lines(self) -> list[str]:
        """What the app's processes printed in this conversation."""
        return self.runtime.lines(self.conversation)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_MARK, "folder of the MiniApp under test, relative to the rootdir (lineup-runtime)", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lineup_app(folder): folder of the MiniApp under test (lineup-runtime)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "lineup_faults" in metafunc.fixturenames:
        metafunc.parametrize("lineup_faults", FAULTS, indirect=True)


@pytest.fixture(scope="session")
def _lineup_runtimes() -> Iterator[_Runtimes]:
    runtimes = _Runtimes()
    yield runtimes
    runtimes.close()


@pytest.fixture
def lineup_app(request: pytest.FixtureRequest, _lineup_runtimes: _Runtimes) -> LineupApp:
    """The MiniApp under test, served by a real runtime."""
    return _watched(request, LineupApp(_lineup_runtimes.of(_folder_of(request))))


@pytest.fixture
def lineup_faults(request: pytest.FixtureRequest) -> Iterator[LineupApp]:
    """As `lineup_app`, with one kill planted: the test runs once for each of `FAULTS`."""
    fault: str = request.param
    with _started(_folder_of(request), [FAULTS[fault]]) as runtime:
        app = _watched(request, LineupApp(runtime, fault))
        yield app
        hit = any("failpoint" in line for line in runtime.daemon.log.read_text(errors="replace").splitlines())
    if not hit:
        pytest.skip(f"no kill {fault}: the app never got there")


class _Runtimes:
    """One for each app that was asked for."""

    def __init__(self) -> None:
        self._kept = contextlib.ExitStack()
        self._known: dict[Path, PrivateRuntime] = {}

    def of(self, folder: Path) -> PrivateRuntime:
        if folder not in self._known:
            self._known[folder] = self._kept.enter_context(_started(folder))
        return self._known[folder]

    def close(self) -> None:
        self._kept.close()


def _started(folder: Path, planted: Sequence[str] = ()) -> PrivateRuntime:
    from runtime_actors.authoring.runtime import PrivateRuntime  # noqa: PLC0415 - see above

    return PrivateRuntime(folder, planted=planted)


def _folder_of(request: pytest.FixtureRequest) -> Path:
    mark = request.node.get_closest_marker(_MARK)
    asked = str(mark.args[0]) if mark is not None and mark.args else str(request.config.getini(_MARK))
    if asked:
        return (request.config.rootpath / asked).resolve()
    for folder in Path(request.node.path).parents:
        if (folder / "manifest.json").is_file():
            return folder
    pytest.fail(
        "no folder above this test has a manifest.json; name the app's by the ini option lineup_app,"
        " or by @pytest.mark.lineup_app(FOLDER)",
        pytrace=False,
    )


def _watched(request: pytest.FixtureRequest, app: LineupApp) -> LineupApp:
    """So that a failure shows what the app printed, and an unconfined run is told of."""
    from runtime_actors.authoring.daemon import PROCESS, UNCONFINED  # noqa: PLC0415 - see above

    request.node.stash.setdefault(_apps, []).append(app)
    if app.runtime.daemon.isolation == PROCESS:
        request.config.stash[_unconfined] = UNCONFINED
    return app


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.when == "call" and call.excinfo is not None:
        for app in item.stash.get(_apps, []):
            item.add_report_section("call", f"{app.app_scope} printed", "\n".join(app.lines()[-_LINES:]))
    return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    told = session.config.stash.get(_unconfined, None)
    output = getattr(session.config, "workeroutput", None)  # of pytest-xdist, to the process that reports
    if told is not None and output is not None:
        output[_MARK] = told


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ANN401, ARG001 - pytest-xdist's
    told = getattr(node, "workeroutput", {}).get(_MARK)
    if told is not None:
        node.config.stash[_unconfined] = told


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    told = config.stash.get(_unconfined, None)
    if told is not None:
        terminalreporter.write_line(f"lineup: {told}")
