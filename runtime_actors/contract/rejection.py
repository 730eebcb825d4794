"""Refusals: the codes that callers branch on, and the shape they travel in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from runtime_actors.contract.base import WireModel


class RejectionCode(StrEnum):
    """Stable codes. The first ten are the seed's (section 4.4); apps' own codes live under `app.`."""

    INVENTORY_REVISION_MISMATCH = "inventory_revision_mismatch"
    TOOL_NOT_ADVERTISED = "tool_not_advertised"
    TOOL_INPUT_INVALID = "tool_input_invalid"
    TOOL_OUTPUT_INVALID = "tool_output_invalid"
    APP_DISABLED = "app_disabled"
    APP_INSTANCE_NOT_FOUND = "app_instance_not_found"
    APP_SCOPE_MISMATCH = "app_scope_mismatch"
    LIFECYCLE_DENIED = "lifecycle_denied"
    CAPABILITY_DENIED = "capability_denied"
    CALL_ALREADY_FINAL = "call_already_final"

    CALL_ID_CONFLICT = "call_id_conflict"
    CALL_NOT_FOUND = "call_not_found"
    CALL_NOT_READY = "call_not_ready"
    CONVERSATION_DENIED = "conversation_denied"
    MESSAGE_INVALID = "message_invalid"
    MESSAGE_TOO_LARGE = "message_too_large"
    MESSAGE_NOT_FOUND = "message_not_found"
    MESSAGE_NOT_SUBSCRIBED = "message_not_subscribed"
    MESSAGE_ID_CONFLICT = "message_id_conflict"
    ATTACH_DENIED = "attach_denied"
    NOT_ATTACHED = "not_attached"
    ROLE_DENIED = "role_denied"
    AGENT_EXISTS = "agent_exists"
    NOT_FOUND = "not_found"
    BUSY = "busy"
    STORE_UNAVAILABLE = "store_unavailable"
    INTERNAL_ERROR = "internal_error"
    HOST_UNSUPPORTED = "host_unsupported"
    SDK_CAPABILITY_UNSUPPORTED = "sdk_capability_unsupported"
    CAPABILITY_SET_INCOMPATIBLE = "capability_set_incompatible"
    SESSION_STALE = "session_stale"
    CREDIT_EXCEEDED = "credit_exceeded"
    MANIFEST_INVALID = "manifest_invalid"
    INTERACTION_INVALID = "interaction_invalid"
    INTERACTION_NOT_FOUND = "interaction_not_found"
    INTERACTION_ALREADY_FINAL = "interaction_already_final"
    KEY_CONFLICT = "key_conflict"
    PRESENTATION_DENIED = "presentation_denied"
    SURFACE_NOT_FOUND = "surface_not_found"
    SURFACE_CLOSED = "surface_closed"
    SURFACE_STALE = "surface_stale"
    SURFACE_INVALID = "surface_invalid"
    ARTIFACT_NOT_FOUND = "artifact_not_found"
    ARTIFACT_INVALID = "artifact_invalid"
    RATE_EXCEEDED = "rate_exceeded"
    POLICY_INVALID = "policy_invalid"

    # How a call that was accepted can end without its app's word.
    APP_CRASHED = "app_crashed"
    APP_CLOSED = "app_closed"
    APP_START_FAILED = "app_start_failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    DEADLINE_PASSED = "deadline_passed"
    CANCEL_GRACE_PASSED = "cancel_grace_passed"
    PERMISSION_DECLINED = "permission_declined"


class Rejection(WireModel):
    """A request that was understood and refused. Returned, never raised."""

    code: Annotated[RejectionCode, Field(strict=False)]
    detail: str
    """One sentence naming ids, never the values that were sent."""


class Rejected(WireModel):
    """`lineup.v1.rejected`: the answer to a request that was refused."""

    request_id: str | None = None
    """The refused envelope's id; absent when it could not be read."""
    code: str
    detail: str
    call_id: str | None = None
    inventory_revision: str | None = None
    """The current revision, when `code` is `inventory_revision_mismatch`."""
