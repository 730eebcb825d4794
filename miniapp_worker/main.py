"""A worker's life: connect, seal, load, serve, say goodbye. Called in a process that is confined already."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from miniapp_worker import memory
from miniapp_worker.exhaustion import Limit, limit_met
from miniapp_worker.layers import Confinement
from miniapp_worker.listeners import print_error
from miniapp_worker.loader import Main, load_main
from miniapp_worker.provided import sdk_of
from miniapp_worker.sdk import MiniAppSDK
from miniapp_worker.session import Identity, Session, SessionEnded, SessionRefused

_FINISH_S: Final = 5.0
"""After an app's `main` returned by itself: for its handlers to end and its requests to be answered."""
_USED_BY_APP: Final = 0.8
"""Share of the grace of a stop that the app has; the rest is for its `finally` blocks and the goodbye."""
_LAST_WORD_MS: Final = 500


class ExitCode(IntEnum):
    """How a worker ends by itself. A signal means that it was ended."""

    DONE = 0
    """It was asked to stop, or `main` returned."""
    APP_FAILED = 1
    """`main` raised; the traceback is in the log."""
    NOT_LOADED = 3
    """`app.py` could not be imported, or has no `async def main`; the traceback is in the log."""
    REFUSED = 4
    """The runtime refused the session; its code is in the log."""
    CONNECTION_LOST = 5
    OUT_OF_MEMORY = 6
    """The app met a limit of its manifest, and did not handle what Python raised for it."""
    OUT_OF_FILES = 7
    OUT_OF_THREADS = 8


_OUT_OF: Final = {
    Limit.MEMORY: ExitCode.OUT_OF_MEMORY,
    Limit.FILES: ExitCode.OUT_OF_FILES,
    Limit.THREADS: ExitCode.OUT_OF_THREADS,
}


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker is told about itself."""

    attempt_id: str
    token: str
    socket_path: str
    app_folder: str
    app_scope: str


class AppExited(Exception):
    """An app's `main` called `sys.exit`."""


MakeSession = Callable[[Identity, str], Session]


def run(spec: dict[str, Any], confinement: Confinement, make_session: MakeSession = Session) -> int:
    """Serve one attempt on this thread; the exit code of the process is returned (`ExitCode`).

    `spec` has the fields of `Spec`. MiniApp code runs in here.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_attempt(Spec(**spec), confinement, make_session))
    except SystemExit:  # of a task that the app started by itself
        traceback.print_exc()
        return ExitCode.APP_FAILED
    finally:
        # Not asyncio.run: it would wait for threads that the app left behind.
        loop.close()


async def _attempt(spec: Spec, confinement: Confinement, make_session: MakeSession) -> ExitCode:
    session = make_session(Identity(spec.attempt_id, spec.token), spec.socket_path)
    life = asyncio.create_task(_live(session, spec, confinement))
    any_of: set[asyncio.Future[Any]] = {life, session.ended, session.work.exhausted}
    try:
        await asyncio.wait(any_of, return_when=asyncio.FIRST_COMPLETED)
        if session.work.exhausted.done():
            return _OUT_OF[session.work.exhausted.result()]
        return life.result() if life.done() else _explain(session.ended.result())
    finally:
        await _end_all_tasks()
        session.close(linger_ms=_LAST_WORD_MS)


def _explain(ended: SessionEnded) -> ExitCode:
    print(f"lineup: {ended}", file=sys.stderr)  # noqa: T201 - the worker's log
    return ExitCode.REFUSED if isinstance(ended, SessionRefused) else ExitCode.CONNECTION_LOST


async def _live(session: Session, spec: Spec, confinement: Confinement) -> ExitCode:
    await session.open()
    await session.report(*confinement.seal(), sealed=confinement.is_sealed)
    if session.stopping.is_set():
        session.say_bye("stopped")
        return ExitCode.DONE
    try:
        main = load_main(Path(spec.app_folder), spec.app_scope)
    except BaseException as error:  # noqa: BLE001 - an import may raise anything, SystemExit included
        print_error(error)
        return _code_of(error, ExitCode.NOT_LOADED)
    sdk = sdk_of(session)
    memory.give_back()
    session.say_ready()
    return await _run_app(main, sdk, session)


async def _run_app(main: Main, sdk: MiniAppSDK, session: Session) -> ExitCode:
    running = asyncio.create_task(_run_main(main, sdk))
    stop = asyncio.create_task(session.stopping.wait())
    await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
    limit_s = session.grace_s * _USED_BY_APP if session.stopping.is_set() else _FINISH_S
    deadline = asyncio.get_running_loop().time() + limit_s
    await _wait_until(deadline, running)
    if not running.done():
        running.cancel()
        await asyncio.wait({running}, timeout=session.grace_s * (1 - _USED_BY_APP) / 2)
    if running.done() and not running.cancelled() and (error := running.exception()) is not None:
        print_error(error)
        session.say_bye(f"main raised {type(error).__name__}")
        return _code_of(error, ExitCode.APP_FAILED)
    session.hand_out_no_more()
    await _wait_until(deadline, asyncio.create_task(session.work.wait()))
    session.work.cancel()
    await _wait_until(deadline, asyncio.create_task(session.pending.wait_empty()))
    session.say_bye("stopped" if session.stopping.is_set() else "main returned")
    return ExitCode.DONE


def _code_of(error: BaseException, usual: ExitCode) -> ExitCode:
    met = limit_met(error)
    return usual if met is None else _OUT_OF[met]


async def _run_main(main: Main, sdk: MiniAppSDK) -> None:
    try:
        await main(sdk)
    except SystemExit as left:
        raise AppExited from left  # an app does not choose what its end means


async def _wait_until(deadline: float, task: asyncio.Future[None]) -> None:
    await asyncio.wait({task}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))


async def _end_all_tasks() -> None:
    """Give every task that is left one chance to end; what ignores it ends with the process."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_WORD_MS / 1000)
