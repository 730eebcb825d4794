"""Keeps a share of one CPU busy and touches nothing: `python -m tests.hostile.burn SHARE`."""

from __future__ import annotations

import sys
import time

_PERIOD_S = 0.01


def main() -> None:
    share = float(sys.argv[1])
    print("begins", flush=True)  # noqa: T201 - awaited
    while True:
        begun = time.perf_counter()
        spent = time.process_time()
        while time.process_time() - spent < share * _PERIOD_S:
            pass
        time.sleep(max(0.0, _PERIOD_S - (time.perf_counter() - begun)))


if __name__ == "__main__":
    main()
