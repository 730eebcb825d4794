"""The gateway actor: what agents, hosts and operators say at the doors, and what they are answered."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from runtime_actors.actor import RuntimeActor
from runtime_actors.channel.events import PeerClosed, PeerMessage, PeerOpened, PeerOversized
from runtime_actors.channel.seldom import Seldom
from runtime_actors.commands import agents, calls, hosts, inbox
from runtime_actors.commands.follow_ups import InventoryChanged
from runtime_actors.contract import agent as a
from runtime_actors.contract import codec, envelope, tools
from runtime_actors.contract import host as h
from runtime_actors.contract.interactions import OldToolCall
from runtime_actors.contract.rejection import Rejected, Rejection, RejectionCode
from runtime_actors.contract.surfaces import ArtifactGet, ArtifactRead
from runtime_actors.gateway import messages as m
from runtime_actors.gateway.artifacts import read_artifact
from runtime_actors.gateway.peers import (
    BEFORE_ATTACH,
    HOST_WRITES,
    LARGE_BYTES,
    NEEDS_CONVERSATION,
    ROLES,
    SENSELESS,
    TOO_EARLY,
    Misuse,
    Peer,
)
from runtime_actors.outbox import messages as outbox
from runtime_actors.records.transaction import rfc3339
from runtime_actors.router import messages as router
from runtime_actors.rules.calls import CallKey
from runtime_actors.rules.delivery import AGENT_WINDOW
from runtime_actors.rules.rates import AGENT_RATE, Rate, Rates
from runtime_actors.shell import messages as shell
from runtime_actors.shell.feed import WINDOW as HOST_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.actor import Care
    from runtime_actors.channel.socket import SocketThread
    from runtime_actors.contract.base import WireModel
    from runtime_actors.contract.envelope import Envelope
    from runtime_actors.gateway.control import Control
    from runtime_actors.mailbox import Clock, Mailbox
    from runtime_actors.rules.inventory import Inventory
    from runtime_actors.store.client import Store

seldom = Seldom(logging.getLogger(__name__))

_MAX_ID: Final = 128
_RATED: Final = frozenset(
    {
        "lineup.v1.tool.invoke",
        "lineup.v1.tool.call",
        "lineup.v1.message",
        "lineup.v1.artifact.get",
        "lineup.v1.artifact.read",
    }
)
_GROWING: Final = frozenset(
    {
        "lineup.v1.tool.invoke",
        "lineup.v1.message",
        "lineup.v1.host.act",
        "lineup.v1.host.draft",
        "lineup.v1.host.surface",
        "lineup.v1.host.text",
    }
)


class GatewayActor(RuntimeActor):
    """Owns the doors. Keeps who is connected; a rebuild keeps that too, for connections are this process's alone."""

    def __init__(
        self,
        care: Care,
        *,
        store: Store,
        store_backlog: Callable[[], int],
        most_backlog: int,
        sockets: SocketThread,
        router: Mailbox[object],
        outbox: Mailbox[object],
        shell: Mailbox[object],
        me: Mailbox[object],
        control: Control,
        clock: Clock,
        inventory: Inventory,
        relay_secret: str,
        rate: Rate = AGENT_RATE,
    ) -> None:
        super().__init__(care)
        self._store, self._store_backlog, self._most_backlog = store, store_backlog, most_backlog
        self._sockets, self._router, self._outbox, self._shell, self._me = sockets, router, outbox, shell, me
        self._control, self._clock, self._inventory = control, clock, inventory
        self._relay_secret = relay_secret
        self._peers: dict[int, Peer] = {}
        self._misuse = Misuse()
        self._rates = Rates(rate)
        self._frames = itertools.count(1)

    def rebuild(self) -> None:
        """Nothing is kept that could be wrong: who is connected is what the socket thread said."""

    def receive(self, message: object) -> None:  # noqa: C901 - one line a message
        """Handle one message."""
        match message:
            case PeerMessage(_, number, frame):
                self._on_frame(number, frame)
            case m.Finish(send):
                send()
            case PeerOversized(_, number, length):
                self._on_oversized(number, length)
            case PeerOpened(door, number, pid):
                self._peers[number] = Peer(number, door, pid)  # type: ignore[arg-type]  # doors are named after roles
            case PeerClosed(_, number):
                self._forget(number)
            case m.IdentityChecked():
                self._attached(message)
            case m.HostNoted():
                self._host_attached(message)
            case InventoryChanged(inventory):
                self._inventory = inventory
                for peer in self._peers.values():
                    if peer.agent_id is not None:
                        self._send(peer, "lineup.v1.client.inventory", inventory.wire)
            case _:
                detail = f"the gateway cannot take {type(message).__name__}"
                raise TypeError(detail)

    @property
    def connected(self) -> int:
        """How many peers are connected."""
        return len(self._peers)

    # --- intake ---

    def _on_frame(self, number: int, frame: bytes) -> None:
        peer = self._peers.get(number)
        if peer is None:
            return
        said = self._read(peer, frame)
        if said is None:
            self._misused(peer, len(frame))
            return
        model = ROLES[peer.role].get(said.type)
        if model is None:
            self._refuse(peer, said, *_why_not(said.type))
            self._misused(peer, len(frame))
        elif not peer.attached and peer.role != "control" and said.type not in BEFORE_ATTACH:
            self._refuse(peer, said, RejectionCode.NOT_ATTACHED, "attach first, then repeat")
            self._misused(peer, len(frame), TOO_EARLY)
        elif said.type in NEEDS_CONVERSATION and said.conversation_id is None:
            self._refuse(peer, said, RejectionCode.MESSAGE_INVALID, "conversation_id: it is needed here")
        elif self._has_room(peer, said):
            try:
                body = model.model_validate(said.body)
            except ValidationError as error:
                self._refuse(peer, said, RejectionCode.MESSAGE_INVALID, envelope.describe(error))
                self._misused(peer, len(frame))
            else:
                self._handle(peer, said, body)
                if not peer.attached and peer.role != "control":
                    self._misused(peer, 0, TOO_EARLY)  # of many agents in one process each attaches

    def _has_room(self, peer: Peer, said: Envelope) -> bool:
        """Whether this may be asked now; if not, the peer is told."""
        if said.type in _RATED and not self._rates.allows(peer.who, time.monotonic()):
            self._refuse_for_rate(peer, said)
        elif said.type in _GROWING and self._store_backlog() > self._most_backlog:
            self._refuse(peer, said, RejectionCode.BUSY, "too much is waiting; try again")
        else:
            return True
        return False

    def _refuse_for_rate(self, peer: Peer, said: Envelope) -> None:
        refused = Rejection(code=RejectionCode.RATE_EXCEEDED, detail="this agent asks too often; wait a second")
        if self._rates.is_news(peer.who, time.monotonic()):
            self._refuse(peer, said, refused.code, refused.detail)
        else:  # no transaction for each of them
            self._reject(peer, said.id, refused, _named_call(said))

    def _read(self, peer: Peer, frame: bytes) -> Envelope | None:
        """What was said; None if that was refused."""
        if len(frame) > LARGE_BYTES and not peer.attached and peer.role != "control":
            self._refuse_frame(peer, None, RejectionCode.NOT_ATTACHED, "attach first, then repeat")
            return None
        try:
            return envelope.decode(frame)
        except codec.IntakeError as error:
            self._refuse_frame(peer, error.request_id, RejectionCode(error.code), error.detail)
            return None

    def _on_oversized(self, number: int, length: int) -> None:
        peer = self._peers.get(number)
        if peer is not None:
            self._refuse_frame(peer, None, RejectionCode.MESSAGE_TOO_LARGE, codec.too_large(length))
            self._misused(peer, 4 * LARGE_BYTES)

    def _misused(self, peer: Peer, size: int, points: int = SENSELESS) -> None:
        """A peer that goes on like this takes time that belongs to others: its connection ends."""
        if self._misuse.is_too_much(peer, points * (1 + size // LARGE_BYTES), time.monotonic()):
            seldom.warning("a peer is closed: it says nothing that anybody needs", peer.role, who=peer.who)
            self._forget(peer.number)
            self._sockets.close(peer.number)

    def _forget(self, number: int) -> None:
        peer = self._peers.pop(number, None)
        if peer is not None and peer.agent_id is not None:
            self._outbox.tell(outbox.Detach(number))
        if peer is not None and peer.host is not None:
            self._shell.tell(shell.Detach(number))

    def _handle(self, peer: Peer, said: Envelope, body: Any) -> None:  # noqa: ANN401, C901, PLR0912 - a line for each of ROLES
        match body:
            case tools.ToolInvoke():
                self._router.tell(
                    router.Invoke(self._key(peer, said, body.call_id), body, self._call_answer(peer, said))
                )
            case OldToolCall():
                key, answer = self._key(peer, said, body.call_id), self._call_answer(peer, said)
                self._router.tell(router.OldCall(key, body, answer))
            case a.DeliveryAck(numbers=numbers):
                self._outbox.tell(outbox.Acked(str(peer.agent_id), numbers))
            case tools.ToolCancel():
                key, answer = self._key(peer, said, body.call_id), self._call_answer(peer, said)
                self._router.tell(router.CancelCall(key, body.reason, answer))
            case tools.ToolGet():
                self._router.tell(router.GetCall(self._key(peer, said, body.call_id), self._call_answer(peer, said)))
            case a.AgentMessage():
                self._put_text(peer, said, body)
            case ArtifactGet() | ArtifactRead():
                read_artifact(self._store, peer, said, body, self._answer(peer, said))
            case a.AgentAttach():
                self._attach(peer, said, body)
            case a.AgentRelay():
                self._relay(peer, said, body)
            case h.HostAttach():
                self._attach_host(peer, said, body)
            case h.HostAck(number=number):
                self._shell.tell(shell.Acked(peer.number, number))
            case h.HostShow(on_screen=on_screen):
                self._shell.tell(shell.Showing(peer.number, on_screen))
            case _ if type(body) in HOST_WRITES:
                self._host_writes(peer, said, body)
            case a.InventoryGet():
                self._send_inventory(peer, said.id)
            case a.AuditGet():
                self._control.audit_mark(said.id, body.audit_seq, self._answer(peer, said))
            case a.Ping():
                self._send(peer, "lineup.v1.pong", a.Pong(request_id=said.id))
            case _:
                self._control.handle(peer, said.id, body, self._inventory, self._answer(peer, said))

    # --- agents ---

    def _attach(self, peer: Peer, said: Envelope, body: a.AgentAttach) -> None:
        proven = peer.proven == body.agent and peer.proven is not None
        if body.token is None and not proven:
            self._refuse(peer, said, RejectionCode.ATTACH_DENIED, "a token is needed here")
            return
        shown = agents.Credentials(body.agent, None if proven else hashlib.sha256((body.token or "").encode()).digest())
        conversations = None if body.conversations is None else frozenset(body.conversations)
        number, request_id = peer.number, said.id
        self._store.run(
            agents.identify,
            shown,
            lambda outcome: self._me.tell(m.IdentityChecked(number, request_id, conversations, outcome)),
        )

    def _attached(self, checked: m.IdentityChecked) -> None:
        peer = self._peers.get(checked.peer)
        if peer is None:
            return
        outcome = checked.outcome
        if isinstance(outcome, Rejection):
            self._reject(peer, checked.request_id, outcome)
            self._misused(peer, 0)
            return
        peer.agent_id, peer.attached = outcome.name, True
        attached = a.AgentAttached(
            request_id=checked.request_id,
            agent=outcome.name,
            window=AGENT_WINDOW,
            stream=outcome.stream,
            last_number=outcome.last_number,
            inventory_revision=self._inventory.revision,
        )
        self._send(peer, "lineup.v1.agent.attached", attached)
        self._send_inventory(peer, None)
        self._outbox.tell(outbox.Attach(peer.number, outcome.name, checked.conversations))

    def _relay(self, peer: Peer, said: Envelope, body: a.AgentRelay) -> None:
        if self._relay_secret and hmac.compare_digest(body.secret.encode(), self._relay_secret.encode()):
            peer.proven = body.agent
        else:
            self._refuse(peer, said, RejectionCode.ATTACH_DENIED, "only the relay may say this")

    def _send_inventory(self, peer: Peer, request_id: str | None) -> None:
        wire = self._inventory.wire
        self._send(peer, "lineup.v1.client.inventory", wire.model_copy(update={"request_id": request_id}))

    def _put_text(self, peer: Peer, said: Envelope, body: a.AgentMessage) -> None:
        put = inbox.PutText(
            agent_id=str(peer.agent_id),
            conversation_id=str(said.conversation_id),
            message_id=body.message_id,
            app_scope=body.app_scope,
            text=body.text,
            data=body.data,
            digest=codec.digest(body.to_wire()),
        )

        def answer(outcome: inbox.TextReceived | Rejection) -> WireModel | Rejection:
            if isinstance(outcome, Rejection):
                return outcome
            return a.MessageReceipt(
                request_id=said.id, message_id=body.message_id, repeated=outcome.repeated, audit=outcome.audit
            )

        send = self._answer(peer, said)
        self._store.run(inbox.put_text, put, lambda outcome: send("lineup.v1.message.receipt", answer(outcome)))

    def _key(self, peer: Peer, said: Envelope, call_id: str) -> CallKey:
        return CallKey(str(peer.agent_id), str(said.conversation_id), call_id)

    def _call_answer(self, peer: Peer, said: Envelope) -> Callable[[calls.CallAnswer | Rejection], None]:
        """How a decision about a call is told to the agent; called on the store's thread."""
        send = self._answer(peer, said)

        def told(outcome: calls.CallAnswer | Rejection) -> None:
            if isinstance(outcome, Rejection):
                send("", outcome)
                return
            state = tools.ToolState(
                request_id=said.id, repeated=outcome.repeated, call=outcome.call, audit=outcome.audit
            )
            send("lineup.v1.tool.state", state)

        return told

    # --- hosts ---

    def _attach_host(self, peer: Peer, said: Envelope, body: h.HostAttach) -> None:
        number, request_id = peer.number, said.id
        asked = hosts.Attaching(
            peer=number,
            host=body.host,
            nonce=body.nonce,
            surfaces=body.surfaces,
            on_screen=body.on_screen,
            stream=body.stream,
            after_number=body.after_number,
        )
        self._store.run(
            hosts.attach_host, asked, lambda outcome: self._me.tell(m.HostNoted(number, request_id, body, outcome))
        )

    def _host_attached(self, noted: m.HostNoted) -> None:
        peer, outcome, wanted = self._peers.get(noted.peer), noted.outcome, noted.wanted
        if peer is None:  # it left before its record was made
            self._shell.tell(shell.Detach(noted.peer))
            return
        if isinstance(outcome, Rejection):
            self._reject(peer, noted.request_id, outcome)
            return
        peer.host, peer.nonce, peer.attached = wanted.host, wanted.nonce, True
        attached = h.HostAttached(
            request_id=noted.request_id,
            stream=outcome.stream,
            last_number=outcome.last_number,
            complete=outcome.complete,
            window=HOST_WINDOW,
        )
        self._send(peer, "lineup.v1.host.attached", attached)
        conversations = None if wanted.conversations is None else frozenset(wanted.conversations)
        self._shell.tell(shell.Attach(peer.number, wanted.host, wanted.nonce, conversations, outcome.after))

    def _host_writes(self, peer: Peer, said: Envelope, body: WireModel) -> None:
        meant = {"type": said.type, "conversation_id": said.conversation_id or "", "body": body.to_wire()}
        by = hosts.HostAsker(str(peer.host), peer.nonce, said.id, codec.digest(meant))
        self._shell.tell(shell.Write(by, said.conversation_id, body, self._answer(peer, said)))

    # --- answers ---

    def _answer(self, peer: Peer, said: Envelope) -> Callable[[str, WireModel | Rejection], None]:
        """A function that answers one request, from any thread."""
        number, request_id, call_id = peer.number, said.id, _named_call(said)

        def send(kind: str, body: WireModel | Rejection) -> None:
            self._me.tell(m.Finish(lambda: finish(kind, body)))

        def finish(kind: str, body: WireModel | Rejection) -> None:
            known = self._peers.get(number)
            if known is None:
                return
            if isinstance(body, Rejection):
                self._reject(known, request_id, body, call_id)
            else:
                self._send(known, kind, body, said.conversation_id)

        return send

    def _refuse(self, peer: Peer, said: Envelope, code: RejectionCode, detail: str) -> None:
        """Refuse what needed no record to be refused: audited, and answered."""
        self._refuse_frame(peer, said.id, code, detail, _named_call(said))

    def _refuse_frame(
        self, peer: Peer, request_id: str | None, code: RejectionCode, detail: str, call_id: str | None = None
    ) -> None:
        self._store.run(agents.note_event, agents.Event("request.refused", {"who": peer.who, "door": peer.role}, code))
        self._reject(peer, request_id, Rejection(code=code, detail=detail), call_id)

    def _reject(self, peer: Peer, request_id: str | None, refused: Rejection, call_id: str | None = None) -> None:
        stale = refused.code is RejectionCode.INVENTORY_REVISION_MISMATCH
        body = Rejected(
            request_id=request_id,
            code=refused.code,
            detail=refused.detail,
            call_id=call_id,
            inventory_revision=self._inventory.revision if stale else None,
        )
        self._send(peer, "lineup.v1.rejected", body)

    def _send(self, peer: Peer, kind: str, body: WireModel, conversation_id: str | None = None) -> None:
        frame = envelope.encode(
            kind,
            body,
            id=f"g{next(self._frames)}",
            sent_at=rfc3339(self._clock.now().wall),
            conversation_id=conversation_id,
        )
        self._sockets.send(peer.number, frame)


def _named_call(said: Envelope) -> str | None:
    """The call that a request is about. What is too long for an id is not said again: the answer must fit a frame."""
    call_id = said.body.get("call_id")
    return call_id if isinstance(call_id, str) and len(call_id) <= _MAX_ID else None


def _why_not(kind: str) -> tuple[RejectionCode, str]:
    """Why this door does not take a type."""
    if any(kind in allowed for allowed in ROLES.values()):
        return RejectionCode.ROLE_DENIED, f"{kind} is for another door"
    return RejectionCode.MESSAGE_INVALID, "no such type at this door"
