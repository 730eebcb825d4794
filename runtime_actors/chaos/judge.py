"""Whether a run kept every promise: the history checker's rules, and those about the app and the scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from runtime_actors import checker
from runtime_actors.chaos.seen import Seen
from runtime_actors.checker import Evidence, Row, Violation
from runtime_actors.simulator import StepResult

OWN_RULES: Final[Mapping[str, str]] = {
    "scenario_expectation": "each step of the scenario ends as it should, whatever strikes",
    "completed_twice": "an app whose result was taken gives no other result for the same call",
    "audit_unverified": "the daemon finds its own audit chain whole",
    "daemon_ended": "no daemon ends by itself, except while its disk is full",
    "evidence_unreadable": "what a run left can be read",
    "process_left": "no process outlives its daemon",
}
"""Rules besides the history checker's, by name."""
_SHOWN: Final = 16


def sentence_of(rule: str) -> str:
    """What must hold."""
    return OWN_RULES.get(rule) or checker.RULES[rule]


def verdict(evidence: Evidence, seen: Seen, steps: Sequence[StepResult]) -> list[Violation]:
    """Every rule that does not hold. What the scenario expected comes first: it says most to an app's author.

    Raises:
        checker.Unreadable: The evidence is not as docs/history.md says.

    """
    return [
        *_unmet(evidence, seen, steps),
        *completed_twice(evidence.audit, seen.words),
        *seen.violations,
        *checker.violations(evidence),
    ]


def _unmet(evidence: Evidence, seen: Seen, steps: Sequence[StepResult]) -> Iterator[Violation]:
    for done in steps:
        if not done.ok:
            said = done.step.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"timeout_s", "note"})
            row = {"step": done.number, **said, "ended": done.detail}
            shown = (row, *about(evidence, seen, said.get("call_id")))
            yield Violation("scenario_expectation", f"step {done.number} ({done.step.do})", done.detail, shown)


def about(evidence: Evidence, seen: Seen, call_id: object) -> tuple[Row, ...]:
    """The faults and the audit entries of a call, in their order; without a call, the newest entries of all calls."""
    faults = [(float(row["at"]), row) for row in evidence.history if row["what"] == "fault"]
    entries = [
        row
        for row in evidence.audit
        if (call_id is None and row["event"].startswith("call."))
        or (call_id is not None and row["subject"].get("call_id") == call_id)
    ]
    placed = [(seen.committed_at(row["seq"]), row) for row in entries[-_SHOWN:]]
    return tuple(row for _, row in sorted([*faults, *placed], key=lambda one: one[0]))


def completed_twice(audit: Iterable[Row], words: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
    """An app said another result after the one that was taken. What it says before that is its own affair."""
    taken = {
        (row["subject"].get("instance_id"), row["subject"].get("call_id")): row
        for row in audit
        if row["event"] == "call.ended" and row["detail"]["to"] == "completed"
    }
    for word in words:
        entry = taken.get((word["instance_id"], word["call_id"]))
        if entry is None or word["word"] != "completed" or word["seq"] < entry["seq"]:
            continue
        if word["digest"] != entry["digest"]:
            message = "its app gave another result after this one had been taken"
            yield Violation("completed_twice", f"call {word['call_id']}", message, (entry, word))
