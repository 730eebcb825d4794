"""Requests to a door that needs no attach: one question, one answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar

import zmq
from pydantic import TypeAdapter, ValidationError

from runtime_actors.client.connection import Connection
from runtime_actors.client.errors import (
    ClientError,
    ConnectionLost,
    DaemonNotRunning,
    NoAnswer,
    Refused,
    UnreadableAnswer,
)
from runtime_actors.client.times import now_text
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.base import ConversationId, JsonObject, WireModel
from runtime_actors.contract.codec import IntakeError
from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.rejection import Rejected, RejectionCode

_M = TypeVar("_M", bound=WireModel)

REJECTED: Final = "lineup.v1.rejected"
_CONVERSATION: Final = TypeAdapter[str | None](ConversationId | None)
_AGAIN_S: Final = 0.1
"""Wait between two tries to connect again."""


class DoorClient:
    """A blocking client for one thread. It connects at the first request, and again when the connection was lost."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._drop()
        self._context.term()

    def request(
        self,
        kind: str,
        body: WireModel | Mapping[str, Any],
        *,
        conversation_id: str | None = None,
        timeout_s: float = 10.0,
        repeat: bool = True,
    ) -> tuple[str, JsonObject]:
        """Ask and wait for the answer's type and body. A lost connection is opened again and the request repeated.

        `repeat=False` is for what must not be done twice: then a lost connection ends the wait.

        Raises:
            Refused: The daemon answered `lineup.v1.rejected`.
            DaemonNotRunning: Nobody accepts on the door; nothing was sent.
            ConnectionLost: With `repeat=False`; it may have been done.
            NoAnswer: The time is over; it may have been done.
            UnreadableAnswer: What came is no envelope.

        """
        request_id = str(uuid.uuid4())
        frame = request_frame(kind, body, request_id, conversation_id)
        deadline = time.monotonic() + timeout_s
        sent = False
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                connection = self._connected(left_s)
                connection.send(frame)
                sent = True
                return self._answer(connection, request_id, deadline)
            except DaemonNotRunning:
                self._drop()
                if not sent:
                    raise
                time.sleep(min(_AGAIN_S, left_s))
            except ConnectionLost:
                self._drop()
                if not repeat:
                    raise
            except ClientError:
                self._drop()  # an answer that comes too late must not meet the next request
                raise
        raise NoAnswer(kind, timeout_s)

    def _answer(self, connection: Connection, request_id: str, deadline: float) -> tuple[str, JsonObject]:
        waited_from = time.monotonic()
        while (left_s := deadline - time.monotonic()) > 0:
            frame = connection.receive(left_s)
            if frame is None:
                break
            answer = read(frame)
            if answer.body.get("request_id", request_id) != request_id:
                continue
            if answer.type == REJECTED:
                raise Refused(rejected(answer.body))
            return answer.type, answer.body
        raise NoAnswer("the request", time.monotonic() - waited_from)

    def _connected(self, timeout_s: float) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._context, self._endpoint)
            self._connection.wait_open(timeout_s)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def request_frame(
    kind: str, body: WireModel | Mapping[str, Any], request_id: str, conversation_id: str | None
) -> bytes:
    """A request's frame, checked as the daemon will: what is no envelope is refused there without saying which one.

    Raises:
        Refused: `message_invalid` or `message_too_large`; it was not sent.

    """
    tree = body.to_wire() if isinstance(body, WireModel) else dict(body)
    try:
        _CONVERSATION.validate_python(conversation_id)
        codec.check(tree)
        return envelope.encode(kind, tree, id=request_id, sent_at=now_text(), conversation_id=conversation_id)
    except IntakeError as error:
        raise Refused(Rejected(code=error.code, detail=f"not sent: {error.detail}")) from None
    except ValidationError as error:
        detail = f"not sent: conversation_id: {envelope.describe(error)}"
        raise Refused(Rejected(code=RejectionCode.MESSAGE_INVALID, detail=detail)) from None


def read(frame: bytes) -> Envelope:
    """Read what the daemon sent.

    Raises:
        UnreadableAnswer: It is no envelope.

    """
    try:
        return envelope.decode(frame)
    except IntakeError as error:
        raise UnreadableAnswer(error.detail) from None


def parsed(model: type[_M], body: JsonObject) -> _M:
    """Read a body. Fields of a newer version are ignored (docs/protocol.md, section 2).

    Raises:
        UnreadableAnswer: It does not hold what it must.

    """
    try:
        return model.model_validate(body, extra="ignore")
    except ValidationError as error:
        raise UnreadableAnswer(envelope.describe(error)) from None


def rejected(body: JsonObject) -> Rejected:
    """Read the body of `lineup.v1.rejected`.

    Raises:
        UnreadableAnswer: It is none.

    """
    return parsed(Rejected, body)
