"""What the control door can reach of the daemon (`gateway.control.Machinery`). Any thread may call it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import psutil

from runtime_actors import policy_file
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.errors import PolicyRefused
from runtime_actors.store.actor import StoreActor
from runtime_actors.store.messages import Copy, ExportAudit, UsePolicy
from runtime_actors.supervisor.isolation import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime_actors.actor import Ref, RuntimeActor
    from runtime_actors.commands.policy_changes import PolicyInForce
    from runtime_actors.config import RuntimeConfig
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.gateway.tcp import TcpDoor
    from runtime_actors.supervisor.logs import LogCapture

_FAULTS: Final = 20
"""Of a policy file, told in one answer."""


@dataclass(frozen=True, slots=True)
class DaemonMachinery:
    """The daemon's own figures and levers."""

    config: RuntimeConfig
    refs: Mapping[str, Ref]
    actors: Mapping[str, RuntimeActor]
    logs: LogCapture
    tcp: TcpDoor
    stop: Callable[[], None]
    level: Callable[[], Level]
    """What the probe worker had."""
    started_s: float = field(default_factory=time.monotonic)

    def status(self) -> JsonObject:
        """Queues, restarts, latencies, memory."""
        store = self._store
        commits = sorted(store.commit_s)
        process = psutil.Process()
        return {
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self.started_s, 3),
            "state": str(self.config.state),
            "isolation": self.level(),
            "min_isolation": self.config.min_isolation,
            "durability": self.config.durability,
            "queues": {name: ref.backlog() for name, ref in self.refs.items()},
            "handled": {name: actor.handled for name, actor in self.actors.items()},
            "restarts": {name: actor.rebuilt for name, actor in self.actors.items()},
            "commit": {
                "count": store.commits,
                "commands": store.commands,
                "median_ms": round(commits[len(commits) // 2] * 1000, 3) if commits else None,
                "p99_ms": round(commits[len(commits) * 99 // 100] * 1000, 3) if commits else None,
                "disk_full": store.full,
            },
            "audit_break": store.broken_chain,
            "memory": {"rss_bytes": process.memory_info().rss, "threads": process.num_threads()},
            "endpoint": self.tcp.endpoint,
        }

    def rss_bytes(self, pid: int) -> int | None:
        """Of one process; None if it is gone."""
        try:
            return int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return None

    def log_tail(self, instance_id: str, lines: int) -> list[str]:
        """The end of an instance's log, long lines cut. A NUL, which no frame may hold, is shown as what it is not."""
        return [line[:1000].replace("\0", "\ufffd") for line in self.logs.tail(instance_id, lines)]

    def backup(self, path: str, done: Callable[[JsonObject | Rejection], None]) -> None:
        """Copy the store on the store's own thread."""
        self.refs["store"].tell(Copy(path, done))

    def export_audit(self, path: str, keep: int, done: Callable[[JsonObject | Rejection], None]) -> None:
        """Move old audit entries to a file, on the store's own thread."""
        self.refs["store"].tell(ExportAudit(path, keep, done))

    def reload_policy(self, done: Callable[[PolicyInForce | Rejection], None]) -> None:
        """Read the policy file again, and have it in force from the next command on. With a mistake in it, refuse."""
        try:
            policy = policy_file.of_state(self.config.state)
        except PolicyRefused as refused:
            detail = "; ".join(refused.faults[:_FAULTS])
            done(Rejection(code=RejectionCode.POLICY_INVALID, detail=f"the old policy stays in force: {detail}"))
            return
        self.refs["store"].tell(UsePolicy(policy, done))

    def shutdown(self) -> None:
        """Stop the daemon cleanly."""
        self.stop()

    def anchor(self) -> tuple[int, bytes]:
        """Where the kept part of the audit chain begins."""
        store = self._store
        return store.anchor

    def keys_changed(self, keys: dict[str, str]) -> None:
        """An agent with a public key was added."""
        self.tcp.allow(keys)

    @property
    def _store(self) -> StoreActor:
        store = self.actors["store"]
        assert isinstance(store, StoreActor)  # noqa: S101 - for the type checker
        return store
