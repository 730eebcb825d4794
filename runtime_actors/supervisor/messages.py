"""What the supervisor is told. `channel.messages` has what the channel tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime_actors.supervisor.process import ExitStatus
from runtime_actors.supervisor.zygote import Offers

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.instances import AttemptBegun, Ended, NotWanted
    from runtime_actors.contract.rejection import Rejection


@dataclass(frozen=True, slots=True)
class Start:
    """Give an instance a process."""

    instance_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End an attempt: by its own will within the grace, by force after it."""

    attempt_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Signal:
    """An operator sends a signal; `answer` gets the attempt it reached, or None."""

    instance_id: str
    attempt_id: str | None
    number: int
    answer: Callable[[str | None], None]


@dataclass(frozen=True, slots=True)
class Begun:
    """What the store said to a start."""

    instance_id: str
    outcome: AttemptBegun | NotWanted | Rejection


@dataclass(frozen=True, slots=True)
class EndRecorded:
    """What the store said to an end."""

    attempt_id: str
    outcome: Ended | Rejection | None


@dataclass(frozen=True, slots=True)
class RunningRead:
    """Attempts that the store believes to be running: (attempt_id, instance_id)."""

    attempts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Exited:
    """A process was reaped. The key is an attempt, or the zygote's name."""

    key: str
    status: ExitStatus


@dataclass(frozen=True, slots=True)
class ZygoteReady:
    """Workers can be forked."""

    offers: Offers


@dataclass(frozen=True, slots=True)
class ForceStop:
    """The grace of a stop is over."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class StopAll:
    """The daemon ends."""


@dataclass(frozen=True, slots=True)
class ProcessOver:
    """To the orchestrator: an instance has no process any more, or was not to get one."""

    instance_id: str


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Time to compare what runs with what the rows say."""
