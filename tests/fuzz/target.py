"""What is fuzzed, and what of it is a fault."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, ParamSpec, Protocol, TypeVar

from tests.fuzz.source import Source

P = ParamSpec("P")
T = TypeVar("T")

ACCEPTED: Final = "accepted"


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that a peer, an app or a person gives."""

    data: bytes
    to: str = ""
    """Which peer says it, or which part reads it; what the names mean is the target's."""
    greedy: bool = False
    """It was made to cost memory: what it makes allocate is watched."""


class Fault(AssertionError):
    """A promise was broken by an input."""


@dataclass(slots=True)
class Cost:
    """What the product, without the oracle, spent on one input."""

    cpu_s: float = 0.0
    peak_bytes: int = 0
    """What it had allocated at most; only where `watches` is set."""
    watches: bool = False

    def begin(self, *, watches: bool) -> None:
        """For the next input."""
        self.cpu_s, self.peak_bytes, self.watches = 0.0, 0, watches

    def of(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something, and count what it costs."""
        if self.watches:
            tracemalloc.start()
        start = time.thread_time()
        try:
            return do(*args, **kwargs)
        finally:
            self.cpu_s += time.thread_time() - start
            if self.watches:
                self.peak_bytes = max(self.peak_bytes, tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()


class Target(Protocol):
    """Reads hostile inputs, and knows what must hold for each."""

    name: str
    life: int
    """Inputs between two renewals; 0 if no input depends on another."""
    allowance: int
    """Bytes that an input may have allocated at once, beside `PER_BYTE` times its size."""
    cost: Cost
    """Of the latest input."""
    worn: bool
    """It is to be renewed before its life is over."""

    def make(self, source: Source) -> Input:
        """The next input."""

    def feed(self, one: Input) -> str:
        """Let it be read: `accepted`, or the code of its refusal.

        Raises:
            Fault: A promise is broken. Any other exception is a fault too.

        """

    def renew(self) -> None:
        """Forget everything; what follows depends on no earlier input."""

    def close(self) -> None:
        """Check what can only be checked at the end, and leave nothing behind."""


PER_BYTE: Final = 100
"""An empty map takes a byte on the wire and 64 in memory; it is copied once into canonical form."""


class Stateless:
    """What a target without a state shares."""

    life = 0
    allowance = 4 * 1024 * 1024
    worn = False

    def __init__(self) -> None:
        self.cost = Cost()

    def renew(self) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to leave."""


def expect(holds: object, what: str) -> None:
    """A promise.

    Raises:
        Fault: It does not hold.

    """
    if not holds:
        raise Fault(what)
