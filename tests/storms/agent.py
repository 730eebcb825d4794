"""An agent in a process of its own, which may be killed: `python -m tests.storms.agent STATE NAME SEED LIFE FOLDER`.

STATE is what it takes for the state folder. FOLDER holds its journal and the words to it: once `calm` is there it
begins nothing new, brings to its end what is open and leaves `NAME.done`; it ends when `over` is there or its parent is
gone. What an earlier life of it left open in the journal it goes on with, under the same ids.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.agent import Agent, History
from tests.storms.load import Load

Invocation = tuple[str, dict[str, Any]]
"""Tool and input."""


class Journal(list[dict[str, Any]]):
    """A history that is on the file before anything else happens, and nowhere else."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("a", buffering=1)

    def append(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row) + "\n")


def read_journal(path: Path) -> History:
    """All rows. A kill may have cut off the end of any life's last one."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def left_open(rows: History) -> dict[tuple[str, str], Invocation]:
    """Calls without a refusal and without an end."""
    calls: dict[tuple[str, str], Invocation] = {}
    ended: set[tuple[str, str]] = set()
    asked: dict[str, tuple[str, str]] = {}
    for row in rows:
        if row["what"] == "invoke" and row["kind"] == "tool.invoke":
            body = row["body"]
            key = asked[row["id"]] = row["conversation"], body["call_id"]
            calls.setdefault(key, (body["tool_id"], body["input"]))
        elif row["what"] == "fail" and row["id"] in asked and row["code"] != "call_id_conflict":
            ended.add(asked[row["id"]])  # a conflict was provoked, and is no end
        elif row["what"] == "delivered" and row["kind"] == "tool.result":
            ended.add((row["conversation"], row["body"]["call"]["call_id"]))
    return {key: invocation for key, invocation in calls.items() if key not in ended}


def main(state: Path, name: str, seed: str, life: str, folder: Path) -> None:
    path, parent = folder / f"{name}.journal", os.getppid()
    earlier = left_open(read_journal(path))
    if path.exists():
        with path.open("a") as file:
            file.write("\n")  # what a kill cut off is a line of its own
    with Agent(state, name, history=Journal(path)) as agent:
        agent._prefix = f"{name}-{life}"
        load = Load(agent, f"{seed}/{name}/{life}")
        agent.wait("the inventory", lambda: agent.revision or os.getppid() != parent, 120.0)
        for (conversation, call_id), (tool, given) in earlier.items():
            if (conversation, call_id) not in agent.finals:
                load.begin(tool, given, conversation=conversation, call_id=call_id)
        done = False
        while os.getppid() == parent and not (folder / "over").exists():
            agent.pump(0.02)
            if not (folder / "calm").exists():
                load.step()
            elif load.finish() and not done:
                (folder / f"{name}.done").touch()
                done = True


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]))
