"""Manifest v1 and tool descriptor v1 (seed section 4). Frozen; new things go into `extensions`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from runtime_actors.contract.base import AppScope, Capability, JsonObject, Reason, ToolId, Version, WireModel

DEFAULT_TIMEOUT_MS: Final = 600_000
"""Active time of a call whose descriptor names none."""
MAX_TIMEOUT_MS: Final = 7 * 24 * 3600 * 1000

Title = Annotated[str, StringConstraints(min_length=1, max_length=120)]
Handling = Literal["direct", "interactive", "launch", "foreground", "operation"]
OnInterruption = Literal["redeliver", "fail"]


class ToolTarget(WireModel):
    """Where a call goes, and what it does to the focus."""

    app_scope: AppScope
    requires_foreground: bool
    restore_previous_focus: bool


class ToolDescriptor(WireModel):
    """Seed section 4.2, with the title and description by which an agent chooses."""

    id: ToolId
    version: Literal[1]
    title: Title
    description: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    handling: Handling
    target: ToolTarget
    input_schema: JsonObject
    output_schema: JsonObject
    permissions: Annotated[tuple[Capability, ...], Field(strict=False, max_length=32)] = ()
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)
    """Active time of a call, in milliseconds."""


class MiniAppSubscription(WireModel):
    """A message type that may reach the app's inbox. Tool calls need none."""

    type: Literal["lineup.v1.message"]


class HostNeeds(WireModel):
    """What the app needs of the runtime and of what shows it."""

    min_version: Version
    """Of the runtime."""
    surface_required: bool


class Limits(WireModel):
    """What one process of the app may use. The operator's own limits cap these."""

    memory_mb: int = Field(default=256, ge=32, le=4096)
    cpu_s: int = Field(default=3600, ge=1, le=86_400)
    """CPU time of one attempt."""
    files: int = Field(default=64, ge=32, le=1024)
    """Open descriptors."""
    threads: int = Field(default=16, ge=1, le=256)

    def within(self, most: Limits) -> Limits:
        """Nothing of it above `most`."""
        return Limits(
            memory_mb=min(self.memory_mb, most.memory_mb),
            cpu_s=min(self.cpu_s, most.cpu_s),
            files=min(self.files, most.files),
            threads=min(self.threads, most.threads),
        )


MOST_LIMITS: Final = Limits(memory_mb=4096, cpu_s=86_400, files=1024, threads=256)
"""What a manifest can ask for."""


class Extensions(WireModel):
    """What manifest v1 had no field for."""

    title: Title | None = None
    description: Reason | None = None
    run_env: Literal["worker"] = "worker"
    """`executionProfile.executionClass.runEnv` of seed 003."""
    on_interruption: dict[ToolId, OnInterruption] = Field(default_factory=dict)
    """What becomes of a call when its process dies: given again (the default), or failed with `outcome_unknown`."""
    limits: Limits = Limits()
    surface: JsonObject | None = None


class MiniAppManifest(WireModel):
    """Seed section 4.1: the runtime's input, which an app cannot change while it runs."""

    app_scope: AppScope
    version: Version
    kind: Literal["system", "bundled-reference"]
    tools: Annotated[tuple[ToolDescriptor, ...], Field(strict=False, max_length=64)]
    subscriptions: Annotated[tuple[MiniAppSubscription, ...], Field(strict=False, max_length=16)]
    requested_capabilities: Annotated[tuple[Capability, ...], Field(strict=False, max_length=64)]
    host: HostNeeds
    extensions: Extensions = Extensions()
