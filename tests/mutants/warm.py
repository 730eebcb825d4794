"""Tests that are collected once and asked about many faults: loaded into pytest, it waits for orders.

To start an interpreter and collect tests takes a second or more; to run the few that matter, often a hundredth. So the
process that has collected them forks for each fault, and the child takes over the faulty code of the functions that
differ (`function.__code__`), runs the chosen tests and says which one failed. What differs outside of functions (a
table, a constant, an import) cannot be taken over like that: then it says so, and the fault is tried in a process of
its own.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

ORDERS: Final = "MUTANT_ORDERS"
ANSWERS: Final = "MUTANT_ANSWERS"
COLD: Final = "cold"
_FOUND, _SURVIVED, _BROKEN = "found", "survived", "broken"


@dataclass(frozen=True, slots=True)
class Order:
    """Ask these tests about this fault."""

    texts: Mapping[str, str]
    """Each file that is different, with what it holds."""
    tests: Sequence[str]
    """Node ids, or what node ids begin with: a file, or a test with all its cases. In this order."""
    limit_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of it: found, survived, broken, or cold."""

    end: str
    test: str = ""
    error: str = ""
    says: str = ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Instead of running all tests: serve until the orders end."""
    if ORDERS not in os.environ:
        return None
    with os.fdopen(int(os.environ[ORDERS])) as orders, os.fdopen(int(os.environ[ANSWERS]), "w") as answers:
        while line := orders.readline():
            answer = _serve(session, Order(**json.loads(line)))
            answers.write(json.dumps(asdict(answer)) + "\n")
            answers.flush()
    return True


def _serve(session: pytest.Session, order: Order) -> Answer:
    changed = _changed(order.texts)
    if changed is None:
        return Answer(COLD)
    chosen = _chosen(session.items, order.tests)
    if not chosen:
        return Answer(_BROKEN, error="no such test")
    with tempfile.TemporaryDirectory(prefix="warm-", ignore_cleanup_errors=True) as folder:
        said = Path(folder, "said")
        child = os.fork()
        if not child:
            _run(session, chosen, changed, said)
        return _outcome(child, said, order.limit_s)


def _chosen(items: Sequence[pytest.Item], tests: Sequence[str]) -> list[pytest.Item]:
    chosen: dict[pytest.Item, None] = {}
    exact = {item.nodeid: item for item in items}
    for test in tests:
        one = exact.get(test)
        begins = (f"{test}::", f"{test}[", f"{test}/")
        chosen |= dict.fromkeys([one] if one else [item for item in items if item.nodeid.startswith(begins)])
    return list(chosen)


# --- in the child ---


def _run(
    session: pytest.Session, chosen: Sequence[pytest.Item], changed: Mapping[FunctionType, CodeType], said: Path
) -> None:
    """Never returns."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        # A folder of its own, that the parent removes.
        session.config._tmp_path_factory._basetemp = said.parent  # type: ignore[attr-defined]
        session.config.pluginmanager.register(_Said(said))
        for function, code in changed.items():
            function.__code__ = code
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        said.write_text(json.dumps(asdict(Answer(_SURVIVED))), encoding="utf-8")
    finally:
        os._exit(0)


class _Said:
    """Ends the child at the first failure."""

    def __init__(self, said: Path) -> None:
        self._said = said

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:  # noqa: ANN401 - pytest's report
        """The first failure, and the class of what was raised."""
        report = yield
        if report.failed and call.excinfo is not None:
            says = str(call.excinfo.value)[:300]
            answer = Answer(_FOUND, item.nodeid, call.excinfo.type.__name__, says)
            self._said.write_text(json.dumps(asdict(answer)), encoding="utf-8")
            os._exit(0)
        return report


# --- in the parent ---


def _outcome(child: int, said: Path, limit_s: float) -> Answer:
    """Wait for the child, and let nothing of it live on."""
    timer = threading.Timer(limit_s, _end, (child,))
    timer.start()
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    finally:
        timer.cancel()
        timer.join()
        _end(child)
        os.waitpid(child, 0)
    if not said.exists():
        return Answer(_BROKEN, error="the process ended, or its time was over")
    return Answer(**json.loads(said.read_text(encoding="utf-8")))


def _end(child: int) -> None:
    """It is not reaped yet, so its number is its own."""
    with suppress(ProcessLookupError):  # before it has a group of its own
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)


def _changed(texts: Mapping[str, str]) -> dict[FunctionType, CodeType] | None:
    """The live functions whose code differs, with their new code; None if more than functions does."""
    wanted: dict[tuple[str, str], CodeType] = {}
    for file, text in texts.items():
        path = Path.cwd() / file
        before, after = _Parts.of(path), _Parts.of(path, text)
        if before.outside != after.outside or before.functions.keys() != after.functions.keys():
            return None
        for name, code in after.functions.items():
            if _deep(code) != _deep(before.functions[name]):
                wanted[str(path), name] = code
    live = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
    changed = {one: wanted[key] for one in live if (key := _key(one.__code__)) in wanted}
    fits = all(one.__code__.co_freevars == code.co_freevars for one, code in changed.items())
    return changed if fits and {_key(one.__code__) for one in changed} == wanted.keys() else None


def _key(code: CodeType) -> tuple[str, str]:
    return code.co_filename, code.co_qualname


@dataclass(frozen=True, slots=True)
class _Parts:
    """A module's outermost functions, and what it does at its import."""

    functions: Mapping[str, CodeType]
    outside: object

    @classmethod
    def of(cls, path: Path, text: str | None = None) -> _Parts:
        source = path.read_text(encoding="utf-8") if text is None else text
        bodies, found = _split(compile(source, str(path), "exec", dont_inherit=True))
        names = Counter(code.co_qualname for code in found)
        apart = [code for code in found if names[code.co_qualname] > 1 or code.co_name.startswith("<")]
        functions = {code.co_qualname: code for code in found if code not in apart}
        return cls(functions, [_shallow(code) for code in bodies] + [_deep(code) for code in apart])


def _split(code: CodeType) -> tuple[list[CodeType], list[CodeType]]:
    """The bodies of a module and of its classes, and the functions in them."""
    bodies, functions = [code], []
    for one in _inner(code):
        if one.co_flags & inspect.CO_OPTIMIZED:  # set for functions alone
            functions.append(one)
        else:
            inner = _split(one)
            bodies += inner[0]
            functions += inner[1]
    return bodies, functions


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _shallow(code: CodeType) -> object:
    """What a body does, without the functions in it and without its lines."""
    consts = tuple(one.co_qualname if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts)
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable


def _deep(code: CodeType) -> object:
    """As `_shallow`, with the functions in it."""
    return _shallow(code), tuple(_deep(one) for one in _inner(code))
