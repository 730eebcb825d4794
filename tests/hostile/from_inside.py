"""Has the hostile app attack its channel, again and again: `python -m tests.hostile.from_inside KIND STATE`.

Whenever a process was ended for it, the next one is asked to do the same.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from tests.e2e.agent import Agent

_LONGEST_S = 60.0


def main() -> None:
    kind, state = sys.argv[1:]
    with Agent(Path(state)) as agent:
        agent.attached()
        print("begins", flush=True)  # noqa: T201 - awaited
        for number in itertools.count():
            key = agent.invoke_with("channel.attack", {"kind": kind}, conversation=f"{kind}-{number % 4}")
            agent.accepted(key)
            agent.final(key, _LONGEST_S)


if __name__ == "__main__":
    main()
