"""The time as envelopes carry it."""

from __future__ import annotations

from datetime import UTC, datetime


def now_text() -> str:
    """RFC 3339, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
