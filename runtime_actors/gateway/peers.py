"""Who is connected to which door, and what they may say there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from runtime_actors.contract import agent as a
from runtime_actors.contract import host as h
from runtime_actors.contract import interactions, surfaces, tools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.contract.base import WireModel

Role = Literal["agent", "host", "control"]

AGENT: Final[Mapping[str, type[WireModel]]] = {
    "lineup.v1.agent.attach": a.AgentAttach,
    "lineup.v1.agent.relay": a.AgentRelay,
    "lineup.v1.tool.invoke": tools.ToolInvoke,
    "lineup.v1.tool.cancel": tools.ToolCancel,
    "lineup.v1.tool.get": tools.ToolGet,
    "lineup.v1.tool.call": interactions.OldToolCall,
    "lineup.v1.message": a.AgentMessage,
    "lineup.v1.artifact.get": surfaces.ArtifactGet,
    "lineup.v1.artifact.read": surfaces.ArtifactRead,
    "lineup.v1.delivery.ack": a.DeliveryAck,
    "lineup.v1.inventory.get": a.InventoryGet,
    "lineup.v1.audit.get": a.AuditGet,
    "lineup.v1.ping": a.Ping,
}
HOST: Final[Mapping[str, type[WireModel]]] = {
    "lineup.v1.host.attach": h.HostAttach,
    "lineup.v1.host.ack": h.HostAck,
    "lineup.v1.host.show": h.HostShow,
    "lineup.v1.host.presented": h.HostPresented,
    "lineup.v1.host.answer": h.HostAnswer,
    "lineup.v1.host.dismiss": h.HostDismiss,
    "lineup.v1.host.draft": h.HostDraft,
    "lineup.v1.host.act": h.HostAct,
    "lineup.v1.host.text": h.HostText,
    "lineup.v1.host.surface": h.HostSurface,
    "lineup.v1.control.query": a.Query,
    "lineup.v1.ping": a.Ping,
}
CONTROL: Final[Mapping[str, type[WireModel]]] = {
    "lineup.v1.control.query": a.Query,
    "lineup.v1.control.kill": a.Kill,
    "lineup.v1.control.switch": a.Switch,
    "lineup.v1.control.add_agent": a.AddAgent,
    "lineup.v1.control.reload_policy": a.ReloadPolicy,
    "lineup.v1.control.revoke_grant": a.RevokeGrant,
    "lineup.v1.control.backup": a.Backup,
    "lineup.v1.control.verify_audit": a.VerifyAudit,
    "lineup.v1.control.export_audit": a.ExportAudit,
    "lineup.v1.control.shutdown": a.Shutdown,
    "lineup.v1.ping": a.Ping,
}
HOST_WRITES: Final = frozenset(
    {h.HostPresented, h.HostAnswer, h.HostDismiss, h.HostDraft, h.HostAct, h.HostText, h.HostSurface}
)
"""What a host says for its person; the shell has it recorded."""
ROLES: Final[Mapping[str, Mapping[str, type[WireModel]]]] = {"agent": AGENT, "host": HOST, "control": CONTROL}
NEEDS_CONVERSATION: Final = frozenset(
    {
        "lineup.v1.tool.invoke",
        "lineup.v1.tool.call",
        "lineup.v1.tool.cancel",
        "lineup.v1.tool.get",
        "lineup.v1.message",
        "lineup.v1.artifact.get",
        "lineup.v1.artifact.read",
        "lineup.v1.host.text",
    }
)
BEFORE_ATTACH: Final = frozenset(
    {"lineup.v1.agent.attach", "lineup.v1.agent.relay", "lineup.v1.host.attach", "lineup.v1.ping"}
)
MAX_MISUSE: Final = 1024
"""Points of one process within `MISUSE_PERIOD_S`; the frame that brings more ends its connection."""
TOO_EARLY: Final = 1
"""Points of a frame before the attach: ZeroMQ may send what it had queued."""
SENSELESS: Final = 16
"""Points of a frame that could not be read or is not for its door, and of one that needs no attach."""
MISUSE_PERIOD_S: Final = 10.0
LARGE_BYTES: Final = 16 * 1024
"""As many points again for each. An attach is never so large, and before it nothing else is read."""
_MAX_PROCESSES: Final = 1024
HOST_LISTINGS: Final = frozenset({"focus", "ps", "apps", "interactions", "surfaces", "timeline"})


class Misuse:
    """Who said lately what no client says, by process: connecting again does not help."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[float, int]] = {}

    def is_too_much(self, peer: Peer, points: int, now_s: float) -> bool:
        """Count a frame; whether it was one too many. `now_s` is monotonic."""
        # Behind the relay are clients that have nothing to do with each other.
        by = -peer.number if peer.proven is not None or not peer.pid else peer.pid
        since, count = self._counts.get(by, (now_s, 0))
        if now_s - since > MISUSE_PERIOD_S:
            since, count = now_s, 0
        if by not in self._counts and len(self._counts) >= _MAX_PROCESSES:
            self._counts.clear()
        count += points
        self._counts[by] = (since, count)
        return count > MAX_MISUSE


@dataclass(slots=True)
class Peer:
    """One connection to a door."""

    number: int
    role: Role
    pid: int = 0
    agent_id: str | None = None
    """Set while attached."""
    proven: str | None = None
    """The agent that the connection itself proves (CURVE)."""
    host: str | None = None
    """The name that a host gave itself, with its `nonce`."""
    nonce: str = ""
    attached: bool = False

    @property
    def who(self) -> str:
        """For the audit log."""
        return self.agent_id or (f"host {self.host}" if self.host else f"{self.role}-door")
