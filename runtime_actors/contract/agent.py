"""What agents, hosts and operators say on their doors, apart from tool calls."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from runtime_actors.contract.base import (
    AgentName,
    AppScope,
    AuditMark,
    ConversationId,
    JsonObject,
    MessageId,
    WireModel,
)
from runtime_actors.contract.payload import SideData

MAX_TEXT_BYTES: Final = 65_536


def _check_text(text: str) -> str:
    if len(text.encode()) > MAX_TEXT_BYTES:
        detail = f"it takes more than {MAX_TEXT_BYTES} bytes"
        raise ValueError(detail)
    return text


class AgentAttach(WireModel):
    """`lineup.v1.agent.attach`: first word on the agent door."""

    agent: AgentName
    token: str | None = Field(default=None, max_length=128)
    """Absent only where the connection itself proves the agent (CURVE)."""
    conversations: Annotated[tuple[ConversationId, ...], Field(strict=False, max_length=64)] | None = None
    """Only deliveries of these; absent for all of the agent's."""


class AgentRelay(WireModel):
    """`lineup.v1.agent.relay`: the CURVE relay says whose key this connection proved. Not for clients."""

    agent: AgentName
    secret: str = Field(max_length=128)


class AgentAttached(WireModel):
    """`lineup.v1.agent.attached`, followed by `lineup.v1.client.inventory` and what is unsettled."""

    request_id: str
    agent: str
    window: int = Field(ge=1)
    """The most deliveries that are sent on this connection ahead of their acknowledgement."""
    stream: str
    """Names the series of delivery and audit numbers; a new or restored store has another."""
    last_number: int = Field(ge=0)
    """The highest delivery number given so far."""
    inventory_revision: str


class DeliveryAck(WireModel):
    """`lineup.v1.delivery.ack`: settles deliveries. It has no answer; unknown numbers are ignored."""

    numbers: Annotated[tuple[int, ...], Field(strict=False, min_length=1, max_length=256)]


class AgentMessage(WireModel):
    """`lineup.v1.message`: a text for a MiniApp's inbox."""

    message_id: MessageId
    app_scope: AppScope = "chat"
    text: Annotated[str, Field(max_length=65_536), AfterValidator(_check_text)]
    data: SideData | None = None


class MessageReceipt(WireModel):
    """`lineup.v1.message.receipt`: the text is committed to the inbox of its scope."""

    request_id: str
    message_id: MessageId
    repeated: bool = False
    audit: AuditMark


class PersonText(WireModel):
    """`lineup.v1.text`, a numbered delivery: what the person wrote, to every attachment of the conversation's agent."""

    number: int = Field(ge=1)
    text: str
    sent_at: str


class InventoryGet(WireModel):
    """`lineup.v1.inventory.get`, answered with `lineup.v1.client.inventory`."""


class AdvertisedTool(WireModel):
    """A tool as agents see it."""

    id: str
    version: int
    title: str
    description: str
    app_scope: str
    handling: str
    input_schema: JsonObject
    output_schema: JsonObject
    timeout_ms: int


class AdvertisedApp(WireModel):
    """A MiniApp as agents see it."""

    app_scope: str
    version: str
    kind: str


class ClientInventory(WireModel):
    """`lineup.v1.client.inventory`: everything an agent may use now."""

    request_id: str | None = None
    revision: str
    apps: Annotated[tuple[AdvertisedApp, ...], Field(strict=False)]
    tools: Annotated[tuple[AdvertisedTool, ...], Field(strict=False)]
    capabilities: Annotated[tuple[str, ...], Field(strict=False)]


class AuditGet(WireModel):
    """`lineup.v1.audit.get`: what the chain says at a place, for an agent that kept a mark."""

    audit_seq: int = Field(ge=1)


class AuditAnswer(WireModel):
    """`lineup.v1.audit.mark`."""

    request_id: str
    audit: AuditMark


class Ping(WireModel):
    """`lineup.v1.ping`."""


class Pong(WireModel):
    """`lineup.v1.pong`."""

    request_id: str


# --- the control door ---

Listing = Literal[
    "apps",
    "inventory",
    "ps",
    "calls",
    "call",
    "inbox",
    "outbox",
    "focus",
    "audit",
    "logs",
    "status",
    "interactions",
    "surfaces",
    "grants",
    "policy",
    "timeline",
    "artifacts",
]


class Query(WireModel):
    """`lineup.v1.control.query`: read one page of a listing. Hosts may read what they show."""

    what: Listing
    filter: JsonObject = Field(default_factory=dict)
    after: str | None = None
    """The `next` of the page before."""
    limit: int = Field(default=200, ge=1, le=200)


class Rows(WireModel):
    """`lineup.v1.control.rows`."""

    request_id: str
    rows: Annotated[tuple[JsonObject, ...], Field(strict=False)]
    next: str | None = None


class Kill(WireModel):
    """`lineup.v1.control.kill`: send a signal to an instance's process."""

    instance_id: str = Field(max_length=128)
    attempt_id: str | None = Field(default=None, max_length=128)
    """Only if it is still this process."""
    signal: str = Field(default="SIGKILL", max_length=16)


class Switch(WireModel):
    """`lineup.v1.control.switch`: enable or disable an app or a tool."""

    kind: Literal["app", "tool"]
    name: str = Field(max_length=130)
    enabled: bool


class AddAgent(WireModel):
    """`lineup.v1.control.add_agent`: a new agent identity."""

    name: AgentName
    token_hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hex SHA-256 of the secret, which its maker keeps. Asking again with the same one is harmless."""
    public_key: str | None = Field(default=None, min_length=40, max_length=40)
    """CURVE public key (Z85) by which it is known on TCP."""


class ReloadPolicy(WireModel):
    """`lineup.v1.control.reload_policy`: read the policy file again. If it has a mistake the old one stays."""


class RevokeGrant(WireModel):
    """`lineup.v1.control.revoke_grant`: what a person permitted is permitted no longer."""

    grant_id: str = Field(min_length=1, max_length=128)


class Backup(WireModel):
    """`lineup.v1.control.backup`: copy the store while it runs, then verify the copy."""

    path: str = Field(min_length=1, max_length=4096)


class VerifyAudit(WireModel):
    """`lineup.v1.control.verify_audit`: walk the whole chain."""


class ExportAudit(WireModel):
    """`lineup.v1.control.export_audit`: move all audit entries but the newest `keep` to a new file."""

    path: str = Field(min_length=1, max_length=4096)
    keep: int = Field(ge=0)


class Shutdown(WireModel):
    """`lineup.v1.control.shutdown`: stop the daemon cleanly."""


class Done(WireModel):
    """`lineup.v1.control.done`: an order was carried out."""

    request_id: str
    data: JsonObject = Field(default_factory=dict)
