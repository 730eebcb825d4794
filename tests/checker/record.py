"""`python -m tests.checker.record`: makes recorded.json.xz, a real run with all that the checker looks at.

Two agents, a client of one of them that asks and is gone, five conversations; kills of workers and daemons, also at
commits; results that come twice, requests whose answer was lost, refusals, wishes to cancel, texts, reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import secrets
import signal
import sys
from typing import Final

from runtime_actors import checker
from tests.checker.evidence import RECORDED
from tests.e2e.agent import Agent
from tests.e2e.daemon import short_folder, wait_until
from tests.faults.world import World

FAULTS: Final = (
    ("--failpoint=admit:after:kill-daemon@9",),
    ("--failpoint=finish:after:kill-daemon@4",),
    ("--failpoint=acknowledge:outcome:drop@3",),
)
ROUNDS: Final = 5


def main() -> int:
    with short_folder() as folder:
        world = World(folder / "s")
        world.next_options = list(FAULTS)
        try:
            world.start()
            _play(world)
            seen = world.evidence()
        finally:
            world.close()
    found = checker.violations(seen)
    sys.stdout.write("".join(f"{one}\n" for one in found) + json.dumps(checker.figures(seen), indent=1) + "\n")
    kept = {
        "history": seen.history,
        "audit": seen.audit,
        "listings": seen.listings,
        "once": sorted(seen.once),
        "echo": seen.echo,
    }
    RECORDED.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9 | lzma.PRESET_EXTREME))
    return 1 if found else 0


def _play(world: World) -> None:
    local, other = world.agent(), _second(world)
    for agent in (local, other):
        agent.attached()
    for number in range(ROUNDS):
        _ask(local, f"l{number % 3}", number)
        _ask(other, f"o{number % 2}", number)
        _kill_a_worker(world, f"l{number % 3}")
        local.disconnect()
        local.acknowledges = number % 2 == 1  # what came in the other rounds comes again
        if number == ROUNDS // 2:
            world.daemon.kill()
    local.acknowledges = True
    local.disconnect()
    with contextlib.closing(Agent(world.daemon.state, "other", history=world.history)) as leaver:
        leaver.tend = world.tend
        leaver.attached()
        leaver.invoke("probe.echo", "nobody waits", conversation="o0")
    local.get(("l0", "never"))
    local.send("tool.get", {"call_id": "x"}, conversation="o0")
    world.drain()


def _second(world: World) -> Agent:
    token = secrets.token_urlsafe(32)
    (world.daemon.state / "tokens" / "other").write_text(f"{token}\n")
    world.order("add_agent", {"name": "other", "token_hash": hashlib.sha256(token.encode()).hexdigest()})
    return world.agent("other")


def _ask(agent: Agent, here: str, number: int) -> None:
    slow = agent.invoke("probe.slow", f"slow {number}", conversation=here, steps=3, step_ms=30)
    agent.invoke("probe.once", f"once {number}", conversation=here, steps=2, step_ms=20)
    held = agent.invoke("probe.hold", f"held {number}", conversation=here)
    for tool in ("fail", "bad", "brief", "echo", "exact", "nothing"):
        agent.invoke(f"probe.{tool}", f"{tool} {number}", conversation=here)
    agent.invoke_with("probe.echo", {"text": 7}, conversation=here)
    agent.say(f"text {number}", conversation=here)
    agent.accepted(held)
    agent.cancel(held)
    agent.get(slow)
    agent.wait("progress", lambda: agent.progress.get(slow[1]) or slow in agent.finals)


def _kill_a_worker(world: World, conversation: str) -> None:
    row = world.ask(lambda: world.daemon.instance(conversation))
    if row is not None and row["pid"]:
        world.note("fault", "nemesis", kind="kill-worker", detail={"instance": row["instance_id"]})
        with contextlib.suppress(ProcessLookupError):
            os.kill(row["pid"], signal.SIGKILL)
        wait_until("it is noted", lambda: world.ask(lambda: world.daemon.audit("attempt.ended")))


if __name__ == "__main__":
    sys.exit(main())
