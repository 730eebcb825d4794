"""Writes down what agents and hosts say and hear, as docs/history.md wants it: from the frames, on their way."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Final

from runtime_actors.client import Connect, Connection
from runtime_actors.contract import envelope
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.rejection import RejectionCode

Row = dict[str, Any]

_PREFIX: Final = "lineup.v1."
_ATTACH, _ACK, _HOST_ATTACH = "agent.attach", "delivery.ack", "host.attach"
_NOT_ASKED: Final = frozenset({"ping", "host.ack", "host.show", "control.query"})
"""What changes nothing, or has no answer."""
_UNDECIDED: Final = frozenset(
    {
        RejectionCode.BUSY,
        RejectionCode.STORE_UNAVAILABLE,
        RejectionCode.INTERNAL_ERROR,
        RejectionCode.NOT_ATTACHED,
    }
)
"""Refusals upon which the same id is to be repeated: nobody knows yet."""


class Recorder:
    """The histories of all agents of a run. `observe` hears of each progress and each result as it comes."""

    def __init__(self, observe: Callable[[str], object] = lambda _: None) -> None:
        self.rows: list[Row] = []
        self.observe = observe
        self._asked: dict[str, str] = {}
        """Requests by id, and what kind they are."""

    @property
    def connect(self) -> Connect:
        """Opens connections that are written down."""
        return lambda context, endpoint: _Overheard(self, context, endpoint)

    def note(self, what: str, by: str, **fields: object) -> None:
        self.rows.append({"what": what, "at": time.monotonic(), "by": by, **fields})

    def asked(self, said: Envelope, kind: str, by: str, who: Row) -> None:
        """A request is about to leave. Once more with the same id, it is the same."""
        if said.id not in self._asked:
            self._asked[said.id] = kind
            self.note("invoke", by, **who, id=said.id, kind=kind, conversation=said.conversation_id, body=said.body)

    def answered(self, request_id: str, kind: str, body: Row, by: str, who: Row) -> None:
        """It has come back. What nobody asked for here is not written down."""
        if request_id not in self._asked:
            return
        if kind != "rejected":
            self.note("ok", by, **who, id=request_id, body=body)
        elif body.get("code") in _UNDECIDED:
            self.note("info", by, **who, id=request_id, code=body.get("code"))
        else:
            self.note("fail", by, **who, id=request_id, code=body.get("code"), body=body)


class _Overheard(Connection):
    """A connection of one agent, or of one host."""

    def __init__(self, recorder: Recorder, context: Any, endpoint: str) -> None:  # noqa: ANN401 - ZeroMQ is the client's
        super().__init__(context, endpoint)
        self._recorder = recorder
        self._by = self._stream = self._attach_id = ""
        self._who: Row = {}
        """`agent` or `host`, and its name."""

    def send(self, frame: bytes) -> None:
        said = envelope.decode(frame)
        kind = said.type.removeprefix(_PREFIX)
        if kind in {_ATTACH, _HOST_ATTACH}:
            role = kind.partition(".")[0]
            self._by, self._attach_id = said.body[role], said.id
            self._who = {role: self._by}
        elif kind == _ACK:
            self._note("settled", stream=self._stream, numbers=said.body["numbers"])
        elif kind not in _NOT_ASKED:
            self._recorder.asked(said, kind, self._by, self._who)
        super().send(frame)

    def receive(self, timeout_s: float) -> bytes | None:
        frame = super().receive(timeout_s)
        if frame is not None:
            self._heard(frame, envelope.decode(frame))
        return frame

    def _heard(self, frame: bytes, said: Envelope) -> None:
        kind, body = said.type.removeprefix(_PREFIX), said.body
        request_id = body.get("request_id")
        if request_id is not None and request_id == self._attach_id:
            self._stream = body.get("stream", "")
            if "agent" in self._who and kind != "rejected":
                self._note("attached", stream=self._stream)
        elif request_id is not None:
            self._recorder.answered(request_id, kind, body, self._by, self._who)
        elif "number" in body and "agent" in self._who:
            self._delivered(kind, said, frame)

    def _delivered(self, kind: str, said: Envelope, frame: bytes) -> None:
        body = said.body
        self._note(
            "delivered",
            stream=self._stream,
            number=body["number"],
            kind=kind,
            conversation=said.conversation_id,
            frame=hashlib.sha256(frame).hexdigest(),
            body=body,
        )
        if kind.startswith("tool."):
            self._recorder.observe(kind.removeprefix("tool."))  # progress or result

    def _note(self, what: str, **fields: object) -> None:
        self._recorder.note(what, self._by, **self._who, **fields)
