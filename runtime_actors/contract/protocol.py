"""Every message type there is: its body, at which doors it is said, and by whom (`docs/protocol.md`).

The doors read only what their own tables let in (`gateway/peers.py`, `channel/intake.py`). This table is what schemas,
fixtures and the page are held against, and tests hold those tables against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from runtime_actors.contract import (
    agent,
    capabilities,
    host,
    inbox,
    interactions,
    lifecycle,
    rejection,
    session,
    surfaces,
    tools,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.contract.base import WireModel

Door = Literal["agent", "host", "control", "worker"]
Direction = Literal["in", "out"]
"""As the runtime sees it: `in` is what it is told, `out` what it says."""


@dataclass(frozen=True, slots=True)
class MessageKind:
    """One message type."""

    body: type[WireModel]
    direction: Direction
    doors: tuple[Door, ...]


def _in(body: type[WireModel], *doors: Door) -> MessageKind:
    return MessageKind(body, "in", doors)


def _out(body: type[WireModel], *doors: Door) -> MessageKind:
    return MessageKind(body, "out", doors)


KINDS: Final[Mapping[str, MessageKind]] = {
    "lineup.v1.rejected": _out(rejection.Rejected, "agent", "host", "control", "worker"),
    "lineup.v1.ping": _in(agent.Ping, "agent", "host", "control"),
    "lineup.v1.pong": _out(agent.Pong, "agent", "host", "control"),
    # agents
    "lineup.v1.agent.attach": _in(agent.AgentAttach, "agent"),
    "lineup.v1.agent.attached": _out(agent.AgentAttached, "agent"),
    "lineup.v1.agent.relay": _in(agent.AgentRelay, "agent"),
    "lineup.v1.inventory.get": _in(agent.InventoryGet, "agent"),
    "lineup.v1.client.inventory": _out(agent.ClientInventory, "agent"),
    "lineup.v1.tool.invoke": _in(tools.ToolInvoke, "agent"),
    "lineup.v1.tool.cancel": _in(tools.ToolCancel, "agent"),
    "lineup.v1.tool.get": _in(tools.ToolGet, "agent"),
    "lineup.v1.tool.state": _out(tools.ToolState, "agent"),
    "lineup.v1.tool.progress": _out(tools.ToolProgressDelivery, "agent"),
    "lineup.v1.tool.result": _out(tools.ToolResultDelivery, "agent"),
    "lineup.v1.delivery.ack": _in(agent.DeliveryAck, "agent"),
    "lineup.v1.message": _in(agent.AgentMessage, "agent"),
    "lineup.v1.message.receipt": _out(agent.MessageReceipt, "agent"),
    "lineup.v1.tool.call": _in(interactions.OldToolCall, "agent"),
    "lineup.v1.text": _out(agent.PersonText, "agent"),
    "lineup.v1.artifact.get": _in(surfaces.ArtifactGet, "agent"),
    "lineup.v1.artifact": _out(surfaces.ArtifactAnswer, "agent"),
    "lineup.v1.artifact.read": _in(surfaces.ArtifactRead, "agent"),
    "lineup.v1.artifact.content": _out(surfaces.ArtifactContent, "agent"),
    "lineup.v1.audit.get": _in(agent.AuditGet, "agent"),
    "lineup.v1.audit.mark": _out(agent.AuditAnswer, "agent"),
    # hosts and operators
    "lineup.v1.host.attach": _in(host.HostAttach, "host"),
    "lineup.v1.host.attached": _out(host.HostAttached, "host"),
    "lineup.v1.host.event": _out(host.HostEvent, "host"),
    "lineup.v1.host.ack": _in(host.HostAck, "host"),
    "lineup.v1.host.show": _in(host.HostShow, "host"),
    "lineup.v1.host.presented": _in(host.HostPresented, "host"),
    "lineup.v1.host.answer": _in(host.HostAnswer, "host"),
    "lineup.v1.host.dismiss": _in(host.HostDismiss, "host"),
    "lineup.v1.host.draft": _in(host.HostDraft, "host"),
    "lineup.v1.host.act": _in(host.HostAct, "host"),
    "lineup.v1.host.text": _in(host.HostText, "host"),
    "lineup.v1.host.surface": _in(host.HostSurface, "host"),
    "lineup.v1.host.done": _out(host.HostDone, "host"),
    "lineup.v1.control.query": _in(agent.Query, "host", "control"),
    "lineup.v1.control.rows": _out(agent.Rows, "host", "control"),
    "lineup.v1.control.kill": _in(agent.Kill, "control"),
    "lineup.v1.control.switch": _in(agent.Switch, "control"),
    "lineup.v1.control.add_agent": _in(agent.AddAgent, "control"),
    "lineup.v1.control.reload_policy": _in(agent.ReloadPolicy, "control"),
    "lineup.v1.control.revoke_grant": _in(agent.RevokeGrant, "control"),
    "lineup.v1.control.backup": _in(agent.Backup, "control"),
    "lineup.v1.control.verify_audit": _in(agent.VerifyAudit, "control"),
    "lineup.v1.control.export_audit": _in(agent.ExportAudit, "control"),
    "lineup.v1.control.shutdown": _in(agent.Shutdown, "control"),
    "lineup.v1.control.done": _out(agent.Done, "control"),
    # workers: the session
    "lineup.v1.session.hello": _in(session.Hello, "worker"),
    "lineup.v1.session.welcome": _out(session.Welcome, "worker"),
    "lineup.v1.session.refused": _out(session.SessionRefused, "worker"),
    "lineup.v1.session.confined": _in(session.Confined, "worker"),
    "lineup.v1.session.go": _out(session.Go, "worker"),
    "lineup.v1.session.ready": _in(session.Ready, "worker"),
    "lineup.v1.session.ping": _out(session.Ping, "worker"),
    "lineup.v1.session.pong": _in(session.Ping, "worker"),
    "lineup.v1.session.reset": _out(session.Reset, "worker"),
    "lineup.v1.session.resume": _in(session.Resume, "worker"),
    "lineup.v1.session.stop": _out(session.Stop, "worker"),
    "lineup.v1.session.bye": _in(session.Bye, "worker"),
    "lineup.v1.context.changed": _out(session.ContextChanged, "worker"),
    # workers: requests of a MiniApp, and what it is given
    "lineup.v1.inbox.list": _in(inbox.InboxList, "worker"),
    "lineup.v1.inbox.page": _out(inbox.InboxPage, "worker"),
    "lineup.v1.inbox.acknowledge": _in(inbox.InboxAcknowledge, "worker"),
    "lineup.v1.inbox.message": _out(inbox.MiniAppMessage, "worker"),
    "lineup.v1.tools.get": _in(tools.ToolGet, "worker"),
    "lineup.v1.tools.call": _out(tools.CallReply, "worker"),
    "lineup.v1.tools.report_progress": _in(tools.ReportProgress, "worker"),
    "lineup.v1.tools.complete": _in(tools.Complete, "worker"),
    "lineup.v1.tools.fail": _in(tools.Fail, "worker"),
    "lineup.v1.tools.cancel": _in(tools.Cancel, "worker"),
    "lineup.v1.ui.request": _in(interactions.UiRequest, "worker"),
    "lineup.v1.ui.receipt": _out(interactions.InteractionReceipt, "worker"),
    "lineup.v1.ui.list": _in(interactions.UiList, "worker"),
    "lineup.v1.ui.interactions": _out(interactions.UiListed, "worker"),
    "lineup.v1.ui.get": _in(interactions.UiGet, "worker"),
    "lineup.v1.ui.interaction": _out(interactions.UiReply, "worker"),
    "lineup.v1.ui.cancel": _in(interactions.UiCancel, "worker"),
    "lineup.v1.ui.changed": _out(interactions.UiChanged, "worker"),
    "lineup.v1.lifecycle.request_foreground": _in(lifecycle.RequestForeground, "worker"),
    "lineup.v1.lifecycle.request_background": _in(lifecycle.RequestBackground, "worker"),
    "lineup.v1.lifecycle.request_close": _in(lifecycle.RequestClose, "worker"),
    "lineup.v1.conversation.send_text": _in(lifecycle.SendText, "worker"),
    "lineup.v1.surfaces.open": _in(surfaces.SurfaceOpen, "worker"),
    "lineup.v1.surfaces.list": _in(surfaces.SurfaceList, "worker"),
    "lineup.v1.surfaces.surfaces": _out(surfaces.SurfaceListed, "worker"),
    "lineup.v1.surfaces.get": _in(surfaces.SurfaceGet, "worker"),
    "lineup.v1.surfaces.surface": _out(surfaces.SurfaceReply, "worker"),
    "lineup.v1.surfaces.update": _in(surfaces.SurfaceUpdate, "worker"),
    "lineup.v1.surfaces.close": _in(surfaces.SurfaceClose, "worker"),
    "lineup.v1.surfaces.receipt": _out(surfaces.SurfaceReceipt, "worker"),
    "lineup.v1.artifacts.begin": _in(surfaces.ArtifactBegin, "worker"),
    "lineup.v1.artifacts.chunk": _in(surfaces.ArtifactChunk, "worker"),
    "lineup.v1.artifacts.receipt": _out(surfaces.ArtifactReceipt, "worker"),
    "lineup.v1.capabilities.request": _in(capabilities.CapabilityRequest, "worker"),
    "lineup.v1.capabilities.receipt": _out(capabilities.CapabilityReceipt, "worker"),
    "lineup.v1.receipt": _out(tools.CommandReceipt, "worker"),
    "lineup.v1.call.changed": _out(tools.CallChanged, "worker"),
}


def types_at(door: Door, direction: Direction) -> frozenset[str]:
    """What is said at a door in a direction."""
    return frozenset(name for name, kind in KINDS.items() if door in kind.doors and kind.direction == direction)
