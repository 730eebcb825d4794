"""An agent door with a memory that outlives it: it is stopped without a word, and started again in its place."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

import zmq

from runtime_actors.client.times import now_text
from runtime_actors.contract import envelope
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.envelope import Envelope

WAIT_S = 5.0
TOKEN = "right"
MARK = {"audit_seq": 1, "head_hash": "0" * 64}
_SETTLED_BY_FIRST_ACK = "lineup.v1.delivery.ack"


class Memory:
    """What a daemon would find in its store."""

    def __init__(self) -> None:
        self.calls: dict[str, JsonObject] = {}
        self.unsettled: dict[int, tuple[str, JsonObject]] = {}
        self.last_number = 0
        self.stream = "one"
        self.revision = "r1"
        self.heard: list[Envelope] = []
        self.acked: list[int] = []

    def count(self, kind: str) -> int:
        return Counter(message.type for message in self.heard)[kind]

    def deliver(self, kind: str, body: JsonObject) -> None:
        self.last_number += 1
        self.unsettled[self.last_number] = (kind, {"number": self.last_number, **body})


class Peer(threading.Thread):
    """One run of the door. `react` sees each frame first, and says whether the door goes on with it as usual."""

    def __init__(
        self, state: Path, memory: Memory, *, react: Callable[[Peer, Envelope], bool] = lambda _peer, _message: True
    ) -> None:
        super().__init__(daemon=True)
        (state / "run").mkdir(mode=0o700, exist_ok=True)
        self.memory = memory
        self.window = 64
        self._path = state / "run" / "agent.sock"
        self._react = react
        self._stopped = threading.Event()
        self._serving = threading.Event()
        self._attached: set[bytes] = set()
        self._identity = b""

    def __enter__(self) -> Self:
        self.start()
        assert self._serving.wait(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        self.join(WAIT_S)
        assert not self.is_alive()

    def die(self) -> None:
        """From inside: no frame that is not out yet leaves."""
        self._stopped.set()

    def run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.bind(f"ipc://{self._path}")
        self._serving.set()
        while not self._stopped.is_set():
            if not self._socket.poll(10):
                self._send_new()
                continue
            self._identity, frame = self._socket.recv_multipart()
            message = envelope.decode(frame)
            self.memory.heard.append(message)
            if self._react(self, message):
                self._handle(message)
        self._socket.close(linger=0)
        context.term()

    def answer(self, kind: str, body: JsonObject) -> None:
        frame = envelope.encode(kind, body, id="daemon-1", sent_at=now_text(), conversation_id="main")
        self._socket.send_multipart([self._identity, frame])

    def refuse(self, message: Envelope, code: str, **more: str) -> None:
        self.answer("lineup.v1.rejected", {"request_id": message.id, "code": code, "detail": f"it is {code}", **more})

    def _handle(self, message: Envelope) -> None:
        if message.type == "lineup.v1.agent.attach":
            self._attach(message)
        elif self._identity not in self._attached:
            self.refuse(message, "not_attached")
        elif message.type == _SETTLED_BY_FIRST_ACK:
            for number in message.body["numbers"]:
                self.memory.acked.append(number)
                self.memory.unsettled.pop(number, None)
        elif message.type == "lineup.v1.ping":
            self.answer("lineup.v1.pong", {"request_id": message.id})
        elif message.type == "lineup.v1.tool.invoke":
            self._invoke(message)
        elif message.type == "lineup.v1.tool.get":
            self._state(message, repeated=False)
        elif message.type == "lineup.v1.message":
            body = {"request_id": message.id, "message_id": message.body["message_id"], "repeated": False}
            self.answer("lineup.v1.message.receipt", body | {"audit": MARK})

    def _attach(self, message: Envelope) -> None:
        if message.body.get("token") != TOKEN:
            self.refuse(message, "attach_denied")
            return
        self._attached.add(self._identity)
        memory = self.memory
        attached = {
            "request_id": message.id,
            "agent": message.body["agent"],
            "window": self.window,
            "stream": memory.stream,
            "last_number": memory.last_number,
            "inventory_revision": memory.revision,
            "a_field_of_a_newer_version": 1,
        }
        self.answer("lineup.v1.agent.attached", attached)
        inventory = {"revision": memory.revision, "apps": [], "tools": [], "capabilities": []}
        self.answer("lineup.v1.client.inventory", inventory)
        self._sent: set[int] = set()
        self._send_new()

    def _send_new(self) -> None:
        if self._identity not in self._attached:
            return
        for number, (kind, body) in sorted(self.memory.unsettled.items())[: self.window]:
            if number not in self._sent:
                self._sent.add(number)
                self.answer(kind, body)

    def _invoke(self, message: Envelope) -> None:
        call_id, repeated = message.body["call_id"], message.body["call_id"] in self.memory.calls
        if not repeated and message.body["inventory_revision"] != self.memory.revision:
            self.refuse(message, "inventory_revision_mismatch", inventory_revision=self.memory.revision)
            return
        self.memory.calls.setdefault(call_id, a_call(call_id, "running"))
        self._state(message, repeated=repeated)

    def _state(self, message: Envelope, *, repeated: bool) -> None:
        call = self.memory.calls.get(message.body["call_id"])
        if call is None:
            self.refuse(message, "call_not_found")
        else:
            self.answer("lineup.v1.tool.state", {"request_id": message.id, "repeated": repeated, "call": call})


def a_call(call_id: str, status: str, **more: object) -> JsonObject:
    return {
        "call_id": call_id,
        "tool_id": "echo.say",
        "inventory_revision": "r1",
        "app_scope": "echo",
        "conversation_id": "main",
        "status": status,
        "cancel_requested": False,
        "created_at": now_text(),
        "updated_at": now_text(),
    } | more


def end(memory: Memory, call_id: str, status: str = "completed", **more: object) -> None:
    """End a call and put its result into the outbox, as one commit does."""
    memory.calls[call_id] = a_call(call_id, status, **more)
    memory.deliver("lineup.v1.tool.result", {"call": memory.calls[call_id], "audit": MARK})
