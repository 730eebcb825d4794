"""`python -m runtime_actors.chaos OPTIONS`: a daemon under test. Started by `lineup chaos` alone."""

from __future__ import annotations

import sys

from runtime_actors.chaos.wire import Wire


def main() -> int:
    """First of all the wire, which ends this process with the one that started it."""
    wire = Wire()
    wire.start()
    from runtime_actors.chaos import subject  # noqa: PLC0415 - loads a whole daemon

    return subject.run(sys.argv[1], wire)


if __name__ == "__main__":
    sys.exit(main())
