"""An agent that follows section 8 of docs/protocol.md to the letter and writes its history (docs/history.md).

It is not the product's `AgentSession`: a fault that both ends share would go unseen. Only the socket is the same.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgpack
import zmq

from runtime_actors.client import ClientError, Connection, ConnectionLost, door_of, read_token
from tests.e2e.daemon import TooLong

FINAL: Final = frozenset({"completed", "failed", "cancelled", "expired", "rejected"})
AGAIN: Final = frozenset({"busy", "store_unavailable", "internal_error"})
_CONNECT_S: Final = 1.0
_REPEAT_S: Final = 1.0
"""A request without an answer for so long is sent again on the same connection."""
_QUIET_S: Final = 3.0
"""A connection on which nothing came for so long, although something is awaited, is given up."""
_AT: Final = "2026-01-01T00:00:00Z"

History = list[dict[str, Any]]
T = TypeVar("T")


class Agent:
    """For one thread. Things happen in `pump` and in what waits by it."""

    def __init__(self, state: Path, name: str = "local", *, history: History | None = None) -> None:
        self.state = state
        self.name = name
        self.history: History = [] if history is None else history
        self.tend: Callable[[], None] = lambda: None
        """Called at each turn of a wait, for whoever looks after the daemon."""
        self.acknowledges = True
        self.revision = ""
        self.inventory: dict[str, Any] = {}
        self.stream = ""
        self.finals: dict[tuple[str, str], dict[str, Any]] = {}
        """By (conversation, call id): the state that was delivered as final."""
        self.progress: dict[str, list[dict[str, Any]]] = {}
        self.texts: list[tuple[str, str]] = []
        """What the person wrote: (conversation, text)."""
        self.answers: dict[str, tuple[str, dict[str, Any]]] = {}
        """By request id: type and body of the answer."""
        self.calls: dict[tuple[str, str], str] = {}
        """Invoked: the id of the request."""
        self.deliveries: list[tuple[int, str, bytes]] = []
        """(number, type, frame) of every copy that came."""
        self.handled: set[tuple[str, int]] = set()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._connection: Connection | None = None
        self._attached = False
        self._attach_id = ""
        self._unanswered: dict[str, tuple[bytes, float]] = {}
        self._heard_s = 0.0
        self._prefix = f"{name}-{secrets.token_hex(4)}"
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.disconnect()
        self._context.term()

    # --- asking ---

    def invoke(
        self, tool: str, text: str = "", *, conversation: str = "c1", call_id: str | None = None, **more: object
    ) -> tuple[str, str]:
        """Invoke a tool whose input has a `text`; the call's key."""
        return self.invoke_with(tool, {"text": text, **more}, conversation=conversation, call_id=call_id)

    def invoke_with(
        self,
        tool: str,
        given: dict[str, Any],
        *,
        conversation: str = "c1",
        call_id: str | None = None,
        revision: str | None = None,
    ) -> tuple[str, str]:
        call_id = call_id or f"{self._prefix}-{next(self._ids)}"
        if not self.revision and revision is None:
            self.wait("the inventory", lambda: self.revision)
        body = {"call_id": call_id, "tool_id": tool, "inventory_revision": revision or self.revision, "input": given}
        self.calls[conversation, call_id] = self.send("tool.invoke", body, conversation=conversation)
        return conversation, call_id

    def cancel(self, key: tuple[str, str]) -> str:
        return self.send("tool.cancel", {"call_id": key[1]}, conversation=key[0])

    def get(self, key: tuple[str, str]) -> tuple[str, dict[str, Any]]:
        return self.ask("tool.get", {"call_id": key[1]}, conversation=key[0])

    def say(
        self, text: str, *, conversation: str = "c1", to: str = "probe", message_id: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        body = {"message_id": message_id or f"{self._prefix}-{next(self._ids)}", "app_scope": to, "text": text}
        return self.ask("message", body, conversation=conversation)

    def ask(
        self, kind: str, body: dict[str, Any], *, conversation: str | None = None, within_s: float = 20.0
    ) -> tuple[str, dict[str, Any]]:
        """Type (without its prefix) and body of the answer."""
        request_id = self.send(kind, body, conversation=conversation)
        return self.answer(request_id, within_s)

    def send(self, kind: str, body: dict[str, Any], *, conversation: str | None = None) -> str:
        """Send a request that is repeated until it is answered; its id."""
        request_id = f"{self._prefix}/{next(self._ids)}"
        tree: dict[str, Any] = {
            "v": 1,
            "id": request_id,
            "type": f"lineup.v1.{kind}",
            "sent_at": _AT,
            "body": body,
        }
        if conversation is not None:
            tree["conversation_id"] = conversation
        frame: bytes = msgpack.packb(tree)
        self._note("invoke", id=request_id, kind=kind, conversation=conversation, body=body)
        self._unanswered[request_id] = (frame, time.monotonic())
        if self._attached:
            self._send(frame)
        return request_id

    def accepted(self, key: tuple[str, str], within_s: float = 20.0) -> dict[str, Any]:
        """Wait for the answer to an invoke."""
        return self.answer(self.calls[key], within_s)[1]

    def answer(self, request_id: str, within_s: float = 20.0) -> tuple[str, dict[str, Any]]:
        """Wait for the answer to what `send` or `cancel` sent."""
        return self.wait(f"an answer to {request_id}", lambda: self.answers.get(request_id), within_s)

    def until_running(self, key: tuple[str, str]) -> None:
        """Wait until the app has taken a call over."""
        self.wait(f"{key} runs", lambda: self.get(key)[1]["call"]["status"] == "running")

    def code_of(self, key: tuple[str, str]) -> str | None:
        """The code with which an invoke was refused."""
        return self.accepted(key).get("code")

    # --- waiting ---

    def wait(self, what: str, look: Callable[[], T | None], within_s: float = 20.0) -> T:
        deadline = time.monotonic() + within_s
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                raise TooLong(f"{what}: not within {within_s:g} s")
            self.pump(0.05)

    def final(self, key: tuple[str, str], within_s: float = 20.0) -> dict[str, Any]:
        """Wait for the delivered final state of a call."""
        return self.wait(f"the end of {key}", lambda: self.finals.get(key), within_s)

    def adopt(self, history: History) -> None:
        """Go on with what an earlier agent of this name had open."""
        self.history += history
        done = {
            (one["conversation"], one["body"]["call"]["call_id"])
            for one in history
            if one["what"] == "delivered" and "call" in one["body"]
        }
        for one in history:
            if one["what"] == "invoke" and one["kind"] == "tool.invoke":
                key = one["conversation"], one["body"]["call_id"]
                if key not in done:
                    self.calls[key] = ""

    def open_calls(self) -> list[tuple[str, str]]:
        """Invoked, not refused, and no final state was delivered."""
        refused = {key for key, request in self.calls.items() if "code" in self.answers.get(request, ("", {}))[1]}
        return [key for key in self.calls if key not in self.finals and key not in refused]

    def attached(self, within_s: float = 20.0) -> None:
        self.wait("the attach", lambda: self._attached and self.revision, within_s)

    def pump(self, timeout_s: float) -> None:
        """Connect if need be, repeat what is overdue, and handle what arrives within `timeout_s`."""
        self.tend()
        try:
            connection = self._connected()
            if connection is None:
                return
            deadline = time.monotonic() + timeout_s
            while True:
                frame = connection.receive(max(0.0, deadline - time.monotonic()))
                if frame is None:
                    break
                self._heard_s = time.monotonic()
                self._handle(frame)
                if self._connection is None:
                    return
                deadline = min(deadline, time.monotonic() + 0.001)
            self._repeat()
        except ConnectionLost:
            self.disconnect()

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            for request_id in self._unanswered:
                self._note("info", id=request_id, code="connection_lost")
        self._attached = False

    # --- the connection ---

    def _connected(self) -> Connection | None:
        if self._connection is not None:
            return self._connection
        connection = Connection(self._context, door_of(self.state, "agent"))
        try:
            connection.wait_open(_CONNECT_S)
        except ClientError:
            connection.close()
            time.sleep(0.01)  # nobody is there: the wait of `pump` is spent here
            return None
        self._connection = connection
        self._heard_s = time.monotonic()
        self._attach_id = f"{self._prefix}/{next(self._ids)}"
        body = {"agent": self.name, "token": read_token(self.state, self.name)}
        tree = {"v": 1, "id": self._attach_id, "type": "lineup.v1.agent.attach", "sent_at": _AT, "body": body}
        self._send(msgpack.packb(tree))
        return self._connection

    def _send(self, frame: bytes) -> None:
        if self._connection is not None:
            try:
                self._connection.send(frame)
            except ConnectionLost:
                self.disconnect()

    def _repeat(self) -> None:
        now = time.monotonic()
        if (self._unanswered or not self._attached) and now - self._heard_s > _QUIET_S:
            raise ConnectionLost("quiet")
        if not self._attached:
            return
        overdue = [one for one, (_, sent) in self._unanswered.items() if now - sent > _REPEAT_S]
        for request_id in overdue:
            frame, _ = self._unanswered[request_id]
            self._unanswered[request_id] = (frame, now)
            self._send(frame)

    # --- what arrives ---

    def _handle(self, frame: bytes) -> None:
        said = msgpack.unpackb(frame)
        kind, body = said["type"].removeprefix("lineup.v1."), said["body"]
        request_id = body.get("request_id")
        if kind in {"tool.progress", "tool.result", "text"}:
            self._delivered(kind, body, said["conversation_id"], frame)
        elif request_id == self._attach_id:
            self._on_attached(kind, body)
        elif kind == "client.inventory" and request_id not in self._unanswered:
            self.inventory, self.revision = body, body["revision"]
        elif request_id in self._unanswered:
            self._answered(request_id, kind, body)

    def _on_attached(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "rejected":
            if body["code"] in AGAIN:
                self.disconnect()
                return
            raise AssertionError(f"the attach was refused: {body['code']}")
        self._attached = True
        self.stream = body["stream"]
        self._note("attached", stream=self.stream, last_number=body["last_number"])
        now = time.monotonic()
        for request_id, (frame, _) in tuple(self._unanswered.items()):
            self._unanswered[request_id] = (frame, now)
            self._send(frame)
        for conversation, call_id in self.open_calls():
            if self.calls[conversation, call_id] not in self._unanswered:
                self.send("tool.get", {"call_id": call_id}, conversation=conversation)

    def _answered(self, request_id: str, kind: str, body: dict[str, Any]) -> None:
        if body.get("code") in AGAIN | {"not_attached"}:
            self._note("info", id=request_id, code=body["code"])
            return  # repeated when it is overdue
        del self._unanswered[request_id]
        self.answers[request_id] = (kind, body)
        if kind == "rejected":
            self._note("fail", id=request_id, code=body["code"], body=body)
        else:
            self._note("ok", id=request_id, kind=kind, body=body)

    def _delivered(self, kind: str, body: dict[str, Any], conversation: str, frame: bytes) -> None:
        number = body["number"]
        self.deliveries.append((number, kind, frame))
        digest = hashlib.sha256(frame).hexdigest()
        is_new = (self.stream, number) not in self.handled
        self._note(
            "delivered",
            stream=self.stream,
            number=number,
            kind=kind,
            conversation=conversation,
            frame=digest,
            body=body,
        )
        self.handled.add((self.stream, number))
        if is_new and kind == "tool.result":
            self.finals[conversation, body["call"]["call_id"]] = body["call"]
        elif is_new and kind == "text":
            self.texts.append((conversation, body["text"]))
        elif is_new:
            self.progress.setdefault(body["call_id"], []).append(body["progress"])
        if self.acknowledges:
            self.acknowledge(number)

    def acknowledge(self, *numbers: int) -> None:
        tree = {
            "v": 1,
            "id": f"{self._prefix}/{next(self._ids)}",
            "type": "lineup.v1.delivery.ack",
            "sent_at": _AT,
            "body": {"numbers": list(numbers)},
        }
        self._note("settled", stream=self.stream, numbers=list(numbers))
        self._send(msgpack.packb(tree))

    def _note(self, what: str, **fields: object) -> None:
        self.history.append({"what": what, "at": time.monotonic(), "by": self._prefix, "agent": self.name, **fields})
