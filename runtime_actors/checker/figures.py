"""How much a run can prove: one without a redelivery says nothing about redeliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from runtime_actors.checker.evidence import Evidence
from runtime_actors.checker.history import Attached, Delivered, Fault, Given
from runtime_actors.checker.run import Run


def figures(seen: Evidence) -> dict[str, int]:
    """Counts of what happened; `fault KIND` for each kind of fault that was injected.

    Raises:
        Unreadable: the evidence is not as docs/history.md says.

    """
    run = Run(seen)
    events = Counter(entry.event for entry in run.entries)
    outcomes = Counter(one.outcome for one in run.operations.values())
    copies = Counter((one.agent, one.stream, one.number) for one in run.of(Delivered))
    given = run.of(Given)
    faults = Counter(f"fault {one.kind}" for one in run.of(Fault))
    return {
        "accepted": events["call.admitted"],
        "final": events["call.ended"],
        "interrupted": events["call.interrupted"],
        "redelivered": events["call.redelivered"],
        "duplicates": sum(copies.values()) - len(copies),
        "attaches": len(run.of(Attached)),
        "entries": len(run.entries),
        "agents": len(run.agents),
        "conversations": len(run.model.owners),
        "operations": len(run.operations),
        "ok": outcomes["ok"],
        "refused": outcomes["fail"],
        "unknown": outcomes["info"] + sum(one.doubts > 0 for one in run.operations.values() if one.outcome != "info"),
        "reads": sum(one.asked.kind == "tool.get" and one.outcome == "ok" for one in run.operations.values()),
        "texts": events["message.received"],
        "given": len(given),
        "given again": sum(one.repeated for one in given),
        "recoveries": events["runtime.recovered"],
        **faults,
    }


def vacuous(found: Mapping[str, int], required: Mapping[str, int]) -> list[str]:
    """What a run did not exercise as much as it must: a sentence for each figure below the least that is required."""
    return [
        f"{name}: {found.get(name, 0)}, and at least {least} must be"
        for name, least in required.items()
        if found.get(name, 0) < least
    ]
