"""How one daemon runs. Read once, by the command line; handed on in pieces."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runtime_actors.contract.manifest import MOST_LIMITS, Limits
from runtime_actors.rules.rates import AGENT_RATE, INSTANCE_RATE, Rate
from runtime_actors.rules.restart import RestartPolicy


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every limit of the runtime that is not the protocol's."""

    live_processes: int = 64
    open_calls_per_instance: int = 1024
    open_calls: int = 20_000
    inbox_messages: int = 4096
    outbox_deliveries: int = 20_000
    """Unsettled deliveries of one agent."""
    interactions_per_instance: int = 16
    """Open, or ended and not acknowledged; as the next two."""
    interactions_per_app: int = 256
    interactions: int = 1024
    """Of all apps together; `chat` and the runtime have as many more."""
    agent_rate: Rate = AGENT_RATE
    instance_rate: Rate = INSTANCE_RATE
    group: int = 256
    """Commands in one transaction."""
    mailbox: int = 8192
    """Messages waiting for an actor before its peers are no longer read."""


@dataclass(frozen=True, slots=True)
class Failpoint:
    """A planned fault: at the `hit`-th passing of `point` of `command`, do `action`.

    Points are `before` and `after` (the COMMIT) and `outcome` (which is dropped).
    """

    command: str
    point: Literal["before", "after", "outcome"]
    action: Literal["kill-daemon", "kill-zygote", "kill-worker", "stop-daemon", "cut-worker", "drop"]
    hit: int = 1


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """All that `boot` needs to know."""

    state: Path
    """The state folder, absolute."""
    apps: tuple[Path, ...] = ()
    """Folders whose subfolders are MiniApps, beside the packaged ones."""
    all_apps: bool = False
    """Do not start if one of them has to be left out: what is open in a missing app ends."""
    min_isolation: Literal["strong", "sealed", "partial", "process"] = "sealed"
    landlock_abi: int | None = None
    """The newest Landlock ABI to use, as an older kernel would have it; None for what there is, 0 for none."""
    app_limits: Limits = MOST_LIMITS
    """The most that one process of any app gets, whatever its manifest asks for."""
    durability: Literal["power", "process"] = "power"
    listen: str | None = None
    """`tcp://127.0.0.1:PORT`, or nothing."""
    log_format: Literal["text", "json"] = "text"
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    bounds: Bounds = field(default_factory=Bounds)
    ping_s: float = 1.0
    start_timeout_s: float = 10.0
    stop_grace_s: float = 2.0
    cancel_grace_s: float = 10.0
    suspend_after_s: float = 60.0
    """How long an instance that nothing keeps awake is quiet before its process is ended."""
    sweep_s: float = 5.0
    """How often what is due is derived again from the rows."""
    failpoints: tuple[Failpoint, ...] = field(default=())

    @property
    def run_folder(self) -> Path:
        """Where the sockets are. Unix socket paths hold 107 bytes."""
        return self.state / "run"
