"""The worker's session, told anything by the other end: it reads on, answers what it must, and its app is not hurt."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import Any, Final

from miniapp_worker.inbox import MiniAppInbox
from miniapp_worker.sdk import MiniAppToolCall
from miniapp_worker.session import Identity, Session
from miniapp_worker.tools import MiniAppTools
from runtime_actors.contract import envelope
from runtime_actors.contract.protocol import KINDS, types_at
from tests.fuzz.shapes import Shape, spoil
from tests.fuzz.source import Source, packed
from tests.fuzz.target import ACCEPTED, Cost, Input, expect
from tests.golden_files import WORKER_TOKEN, every_case

IGNORED: Final = "ignored"
_AT: Final = "2026-01-01T12:00:00Z"
_HEARD: Final = sorted(types_at("worker", "out"))
_POOLS: Final[dict[str, Any]] = {
    "request_id": ("never", None),
    "call_id": ("c1", "c2", "c3"),
    "tool_id": ("desk.write", "desk.hold", "desk.none"),
    "number": (1, 2, 3, 9, 2**53 - 1),
    "kind": ("tool.call", "message"),
    "window": (1, 2, 32, 2**53 - 1),
    "session": (1, 2, 3),
    "accepted": (True, False),
    "code": (None, "call_not_found", "store_unavailable", "app.x"),
}
_ANSWERING: Final = _POOLS | {"request_id": ("att-1/1", "att-1/2", "att-1/3", "never")}
_ANSWERS: Final = frozenset({"lineup.v1.receipt", "lineup.v1.rejected"})
"""Whoever asked gets these as they are: the runtime is trusted to say what it means, so they are never spoilt."""


class WorkerTarget:
    """`miniapp_worker.session.Session`, with an app on it. `to` is `welcomed` or `early`."""

    name = "worker side"
    life = 40
    allowance = 8 * 1024 * 1024

    def __init__(self) -> None:
        self.cost = Cost()
        self.worn = False
        self._shapes = {name: Shape(KINDS[name].body) for name in _HEARD}
        said = (one for one in every_case() if one.door == "worker" and one.direction == "out")
        self._golden = [one.sent for one in said if "request_id" not in one.body]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session | None = None
        self._sent: list[bytes] = []
        self._raised: list[str] = []
        self._log = io.StringIO()

    def renew(self) -> None:
        self._leave()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self._raised.append(repr(context.get("exception"))))
        self._sent.clear()
        self._raised.clear()
        self._session = self._loop.run_until_complete(self._begin())
        self.worn = False

    async def _begin(self) -> Session:
        session = Session(Identity("att-1", WORKER_TOKEN), "/nowhere")
        session._link.send = self._sent.append  # type: ignore[method-assign, assignment]  # the wire ends here
        tools = MiniAppTools(session.pending, session.calls)
        inbox = MiniAppInbox(session.pending, session.handed, session.texts)

        @tools.handler("desk.write")
        async def write(call: MiniAppToolCall) -> dict[str, bool]:
            await asyncio.sleep(0)
            return {"ok": len(call.input) < 3}

        @tools.handler("desk.hold")
        def hold(_call: MiniAppToolCall) -> None:
            return None

        inbox.subscribe(lambda _message: None)
        return session

    def make(self, source: Source) -> Input:
        to = "early" if source.chance(0.03) else "welcomed"
        if source.chance(0.15):
            return Input(source.broken(source.pick(self._golden), source.below(3)), to)
        kind = source.pick(_HEARD)
        tree: dict[str, Any] = {"v": 1, "id": f"r{source.below(100)}", "type": kind, "sent_at": _AT}
        is_answer = kind in _ANSWERS and source.chance(0.5)
        tree["body"] = self._shapes[kind].body(source, _ANSWERING if is_answer else _POOLS)
        for _ in range(0 if is_answer else source.below(4)):
            spoil(source, tree["body"] if tree.get("body") and isinstance(tree["body"], dict) else tree, _POOLS)
        return Input(packed(tree), to)

    def feed(self, one: Input) -> str:
        if self._session is None:
            self.renew()
        assert self._session is not None
        assert self._loop is not None
        if one.to == "welcomed" and self._session._welcome is None:
            self._session._on_welcome(_welcome())
        with contextlib.redirect_stderr(self._log):
            self.cost.of(self._loop.run_until_complete, self._read(one.data))
        ignored = "was ignored" in self._log.getvalue()
        self._log = io.StringIO()
        expect(not self._raised, f"an exception escaped: {self._raised[:1]}")
        self._what_it_said_holds()
        self.worn = self._session.ended.done() or self._session.stopping.is_set()
        return IGNORED if ignored else ACCEPTED

    async def _read(self, frame: bytes) -> None:
        assert self._session is not None
        self._session._read(frame)
        for _ in range(4):
            await asyncio.sleep(0)

    def _what_it_said_holds(self) -> None:
        for frame in self._sent:
            said = envelope.decode(frame)
            kind = KINDS[said.type]
            kind.body.model_validate(said.body)
            expect(kind.direction == "in" and "worker" in kind.doors, f"a worker said {said.type}")
        self._sent.clear()

    def _leave(self) -> None:
        if self._loop is None or self._session is None:
            return
        session, self._session = self._session, None
        self._loop.run_until_complete(_end_all_tasks())
        session.close(linger_ms=0)
        self._loop.close()

    def close(self) -> None:
        self._leave()


async def _end_all_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _welcome() -> envelope.Envelope:
    body = {
        "context": {
            "app_scope": "desk",
            "instance_id": "ins-1",
            "conversation_id": "talk",
            "app_version": "1.0.0",
            "state": "background",
        },
        "session": 1,
        "window": 8,
        "ping_ms": 1000,
        "effectiveSdkCapabilities": [],
        "snapshot_digest": "x",
    }
    return envelope.Envelope(v=1, id="r1", type="lineup.v1.session.welcome", sent_at=_AT, body=body)
