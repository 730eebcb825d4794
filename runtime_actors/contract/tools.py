"""Tool calls on the wire: what an agent asks, what a MiniApp is given, and what it reports back."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from runtime_actors.contract.base import (
    AuditMark,
    CallId,
    InstanceId,
    JsonObject,
    Reason,
    Revision,
    ToolId,
    WireModel,
)
from runtime_actors.contract.payload import SideData


class CallStatus(StrEnum):
    """Seed section 3.2."""

    RECEIVED = "received"
    ROUTING = "routing"
    WAITING_FOR_APP = "waiting_for_app"
    RUNNING = "running"
    SUBMITTED = "submitted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"


Status = Annotated[CallStatus, Field(strict=False)]


class ToolInvoke(WireModel):
    """`lineup.v1.tool.invoke`: an agent asks for a tool to be run."""

    call_id: CallId
    tool_id: ToolId
    inventory_revision: Revision
    """The revision the agent chose the tool from. Any other is refused."""
    input: JsonObject


class ToolCancel(WireModel):
    """`lineup.v1.tool.cancel`: an agent no longer wants an answer. The app may still complete."""

    call_id: CallId
    reason: Reason | None = None


class ToolGet(WireModel):
    """`lineup.v1.tool.get` and `lineup.v1.tools.get`."""

    call_id: CallId


class ToolProgressReport(WireModel):
    """MiniAppToolProgress of the seed, section 3.2."""

    percent: float | None = Field(default=None, ge=0, le=100)
    note: Reason | None = None
    data: SideData | None = None


class ToolFailure(WireModel):
    """MiniAppToolFailure of the seed, section 3.2."""

    code: Annotated[str, StringConstraints(pattern=r"^app\.[a-z][a-z0-9_.]{0,59}$")]
    """An app's own code; the runtime's codes cannot be forged."""
    message: Reason
    retryable: bool = False
    data: SideData | None = None


class Failure(WireModel):
    """Why a call failed, as its agent sees it: an app's `ToolFailure`, or the runtime's own word."""

    code: str
    message: str
    retryable: bool = False
    data: SideData | None = None


class CallState(WireModel):
    """RuntimeToolCallRecord of the seed, without `input`, which its agent has."""

    call_id: CallId
    tool_id: str
    inventory_revision: str
    app_scope: str
    instance_id: InstanceId | None = None
    conversation_id: str
    status: Status
    cancel_requested: bool = False
    progress: ToolProgressReport | None = None
    """The newest one; not in a delivered result."""
    result: JsonObject | None = None
    error_code: str | None = None
    failure: Failure | None = None
    created_at: str
    updated_at: str


class ToolState(WireModel):
    """`lineup.v1.tool.state`: the answer to invoke, cancel and get."""

    request_id: str
    repeated: bool = False
    """The call was known already; nothing was done again."""
    call: CallState
    audit: AuditMark | None = None
    """Where this request stands in the audit log; absent when it only read."""


class ToolProgressDelivery(WireModel):
    """`lineup.v1.tool.progress`, a numbered delivery. A newer one may replace it before it was sent."""

    number: int = Field(ge=1)
    call_id: CallId
    progress: ToolProgressReport


class ToolResultDelivery(WireModel):
    """`lineup.v1.tool.result`, a numbered delivery: the one final state of a call."""

    number: int = Field(ge=1)
    call: CallState
    audit: AuditMark


# --- between runtime and MiniApp ---


class MiniAppToolCall(WireModel):
    """What a MiniApp knows of a call that was given to it."""

    call_id: CallId
    tool_id: str
    input: JsonObject
    status: Status
    cancel_requested: bool = False
    progress: ToolProgressReport | None = None
    """The newest one that was accepted: what an app started again knows of its own work."""
    created_at: str


class ReportProgress(WireModel):
    """`lineup.v1.tools.report_progress`."""

    call_id: CallId
    progress: ToolProgressReport


class Complete(WireModel):
    """`lineup.v1.tools.complete`. It also acknowledges the call's message."""

    call_id: CallId
    result: JsonObject


class Fail(WireModel):
    """`lineup.v1.tools.fail`. It also acknowledges the call's message."""

    call_id: CallId
    failure: ToolFailure


class Cancel(WireModel):
    """`lineup.v1.tools.cancel`. It also acknowledges the call's message."""

    call_id: CallId
    reason: Reason | None = None


class CallChanged(WireModel):
    """`lineup.v1.call.changed`: the runtime tells the app that a call is wanted no longer, or has ended."""

    call_id: CallId
    status: Status
    cancel_requested: bool
    reason: str | None = None


class CallReply(WireModel):
    """`lineup.v1.tools.call`: the answer to `lineup.v1.tools.get`."""

    request_id: str
    call: MiniAppToolCall | None = None


class CommandReceipt(WireModel):
    """`lineup.v1.receipt`: what became of a MiniApp's request. No receipt never means not done."""

    request_id: str
    accepted: bool
    code: str | None = None
    """Why it was refused."""
    detail: str | None = None
    call_status: str | None = None
