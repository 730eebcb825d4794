"""How often somebody may ask: so much at once, and so much a second in the long run (a token bucket)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_NAMES: Final = 4096
"""Of buckets that are kept; the longest unused are forgotten first, whose bucket is full again by then."""
NEWS_EVERY_S: Final = 10.0
"""A refusal is worth a word so often; those between are only answered."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often."""

    burst: int
    """At once, after a pause."""
    per_s: float


AGENT_RATE: Final = Rate(burst=20_000, per_s=5_000)
"""Of what one agent invokes, sends and reads, over all of its connections."""
INSTANCE_RATE: Final = Rate(burst=4_000, per_s=1_000)
"""Of what one instance asks for. What it says at the end of a call or of a message is never refused."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float
    told_s: float = float("-inf")


@dataclass(slots=True)
class Rates:
    """A bucket for each name: an agent, or an instance. Times are monotonic, in seconds."""

    rate: Rate
    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    """The longest unused first."""

    def allows(self, name: str, now_s: float) -> bool:
        """Count one; whether it is within the rate. One that is not costs nothing."""
        bucket = self._buckets.pop(name, None)
        if bucket is None:
            bucket = _Bucket(self.rate.burst, now_s)
            if len(self._buckets) >= MAX_NAMES:
                del self._buckets[next(iter(self._buckets))]
        self._buckets[name] = bucket
        passed_s = max(0.0, now_s - bucket.at_s)
        bucket.tokens = min(self.rate.burst, bucket.tokens + passed_s * self.rate.per_s)
        bucket.at_s = now_s
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def is_news(self, name: str, now_s: float) -> bool:
        """Whether the refusal of this name is worth a word, and count it as told."""
        bucket = self._buckets.get(name)
        if bucket is None or now_s - bucket.told_s < NEWS_EVERY_S:
            return False
        bucket.told_s = now_s
        return True
