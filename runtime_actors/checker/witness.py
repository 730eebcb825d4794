"""The audit log replayed: each entry is a step that the model allows, or not.

The model shares no code with the runtime. What an entry claims is compared with where the entries before it lead to;
then its effect is applied whatever was found, so that one wrong entry is not reported a hundred times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from runtime_actors.checker import model_boxes, model_calls, model_people, model_places
from runtime_actors.checker.chain import Entry
from runtime_actors.checker.model import Model
from runtime_actors.checker.violation import Violation

if TYPE_CHECKING:
    from runtime_actors.checker.run import Run

_STEPS: Final[Mapping[str, Callable[[Model, Entry], None]]] = {
    "agent.added": model_boxes.agent_added,
    "conversation.opened": model_boxes.conversation_opened,
    "call.received": model_calls.received,
    "call.admitted": model_calls.admitted,
    "call.running": model_calls.running,
    "report.refused": model_calls.report_refused,
    "call.progressed": model_calls.progressed,
    "call.interrupted": model_calls.interrupted,
    "call.redelivered": model_calls.redelivered,
    "call.cancel_requested": model_calls.cancel_requested,
    "call.ended": model_calls.ended,
    "message.received": model_boxes.received,
    "message.acknowledged": model_boxes.message_acknowledged,
    "delivery.settled": model_boxes.settled,
    "delivery.dropped": model_boxes.settled,
    "interaction.opened": model_people.question_opened,
    "interaction.presented": model_people.question_presented,
    "interaction.ended": model_people.question_ended,
    "surface.opened": model_people.surface_opened,
    "surface.changed": model_people.surface_changed,
    "surface.closed": model_people.surface_closed,
    "action.taken": model_people.action_taken,
    "action.acknowledged": model_people.action_over,
    "action.withdrawn": model_people.action_over,
    "text.sent": model_people.text_sent,
    "grant.asked": model_people.grant_asked,
    "grant.given": model_people.grant_moved,
    "grant.denied": model_people.grant_moved,
    "grant.used": model_people.grant_moved,
    "grant.revoked": model_people.grant_moved,
    "grant.expired": model_people.grant_moved,
    "capability.allowed": model_people.capability_allowed,
    "policy.loaded": model_people.policy_loaded,
    "instance.changed": model_places.instance_changed,
    "focus.changed": model_places.focus_changed,
    "attempt.started": model_places.attempt_started,
    "attempt.ready": model_places.attempt_ready,
    "attempt.ended": model_places.attempt_ended,
    "runtime.recovered": model_places.recovered,
}


_SAME_BREATH: Final = frozenset(
    {"interaction.ended", "surface.closed", "action.withdrawn", "focus.changed", "call.ended", "instance.changed"}
    | {"grant.given", "grant.denied"}
)
"""What may stand between the end of a question that nobody is told of, and the end of what it belongs to."""


def replay(entries: Iterable[Entry], once: frozenset[str], renamed: Mapping[str, str]) -> Model:
    """Where a log leads to, and what is wrong with it; the entries of what changes no record pass."""
    model = Model(once, renamed)
    for entry in entries:
        if model.untold and entry.event not in _SAME_BREATH:
            model_people.blame_untold(model)
        step = _STEPS.get(entry.event)
        if step is None:
            continue
        try:
            step(model, entry)
        except (KeyError, TypeError, ValueError) as error:
            model.blame(entry, f"it lacks what such an entry holds: {error}")
    model_people.blame_untold(model)
    model_places.check_floors(model)
    return model


def check_steps(run: Run) -> Iterator[Violation]:
    """Each step that is not allowed."""
    for one in run.model.wrong:
        yield Violation(one.rule, one.subject, one.message, tuple(entry.row for entry in one.entries))
