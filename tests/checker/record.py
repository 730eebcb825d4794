"""`python -m tests.checker.record`: makes recorded.json.xz and people.json.xz, real runs with all that is checked.

The first: two agents, a client of one of them that asks and is gone, five conversations; kills of workers and daemons,
also at commits; results that come twice, requests whose answer was lost, refusals, wishes to cancel, texts, reads. The
second: an app and an agent that ask a person, a host that answers, surfaces, permissions, and kills meanwhile; some of
it is left open.
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
from pathlib import Path
from typing import Final

from runtime_actors import checker
from tests.checker.evidence import PEOPLE, RECORDED
from tests.e2e.agent import Agent
from tests.e2e.daemon import short_folder, wait_until
from tests.faults.peers import FORCED
from tests.faults.world import APPS, OPTIONS, POLICY, World

FAULTS: Final = (
    ("--failpoint=admit:after:kill-daemon@9",),
    ("--failpoint=finish:after:kill-daemon@4",),
    ("--failpoint=acknowledge:outcome:drop@3",),
)
PEOPLES_FAULTS: Final = (
    ("--failpoint=answer:after:kill-daemon@2", "--failpoint=request_interaction:before:kill-worker@3"),
    ("--failpoint=bridge:after:kill-worker", "--failpoint=answer:outcome:drop@2"),
)
ROUNDS: Final = 5


def main() -> int:
    makers = {"agents": _agents, "people": _people}
    return max([makers[name]() for name in sys.argv[1:] or makers])


def _agents() -> int:
    with short_folder() as folder:
        world = World(folder / "s")
        world.next_options = list(FAULTS)
        try:
            world.start()
            _play(world)
            seen = world.evidence()
        finally:
            world.close()
    return _keep(seen, RECORDED)


def _people() -> int:
    with short_folder() as folder:
        world = World(folder / "s", apps=APPS, options=OPTIONS)
        world.next_options = list(PEOPLES_FAULTS)
        world.daemon.state.mkdir(mode=0o700)
        (world.daemon.state / "policy.toml").write_text(POLICY)
        try:
            world.begin()
            _meet(world)
            world.finish()
            seen = world.evidence()
        finally:
            world.close()
    return _keep(seen, PEOPLE)


def _keep(seen: checker.Evidence, path: Path) -> int:
    found = checker.violations(seen)
    sys.stdout.write("".join(f"{one}\n" for one in found) + json.dumps(checker.figures(seen), indent=1) + "\n")
    kept = {
        "history": seen.history,
        "audit": seen.audit,
        "listings": seen.listings,
        "once": sorted(seen.once),
        "echo": seen.echo,
    }
    path.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9 | lzma.PRESET_EXTREME))
    return 1 if found else 0


def _meet(world: World) -> None:
    agent = world.agent()
    agent.attached()
    lingering = agent.invoke("social.ask", "linger", conversation="p1")
    for text in ("answer", "dismiss", "choose", "draft", "cancel", "expire", "notice", "wait"):
        agent.invoke("social.ask", text, conversation="p1")
    for conversation, tool, text in (
        ("p1", "draw", "shut"),
        ("p1", "wish", "wish"),
        ("p1", "guarded", "guarded"),
        ("p2", "draw", "stay"),
        ("p2", "show", "answer"),
        (f"{FORCED}1", "ask", "linger"),
    ):
        agent.invoke(f"social.{tool}", text, conversation=conversation)
    agent.invoke_with("chat.confirm", {"title": "Sure?", "prompt": "p1"}, conversation="p1")
    agent.say("hello", conversation="p1", to="chat")
    agent.until_running(lingering)
    agent.cancel(lingering)
    world.drain()
    world.daemon.kill()
    agent.invoke("social.guarded", "again", conversation="p2")
    world.drain()
    wait_until("something sleeps", lambda: any(row["state"] == "suspended" for row in world.daemon.listed("ps")))


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
