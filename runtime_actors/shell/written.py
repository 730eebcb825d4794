"""What a host writes: which command decides it, and how its outcome is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.commands import actions, hosts, interactions, surfaces
from runtime_actors.contract import codec
from runtime_actors.contract import host as h
from runtime_actors.contract.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.contract.base import AuditMark, JsonObject, WireModel
    from runtime_actors.shell.messages import Write


@dataclass(frozen=True, slots=True)
class Order:
    """A command with its argument, and how to answer with its outcome: a message type and a body."""

    rule: Callable[..., Any]
    argument: object
    answer: Callable[[Any], tuple[str, WireModel]]


def written(write: Write) -> Order:
    """How it is decided."""
    by = write.by
    match write.body:
        case h.HostAnswer(interaction_id=interaction_id):
            return _counted(write, _ANSWER, interactions.Answer(interaction_id, write.body, by.host))
        case h.HostDismiss(interaction_id=interaction_id):
            return _counted(write, _DISMISS, interactions.Dismiss(interaction_id, by.host))
        case h.HostAct(instance_id=instance_id, action=action, name=name, data=data):
            return _counted(write, _ACT, actions.Act(instance_id, action, name, data, by.host))
        case h.HostText(text=text):
            return _counted(write, _TEXT, actions.PersonsText(write.conversation_id or "", text, by.host))
        case h.HostSurface():
            return _counted(write, _BRIDGE, (write.body, by.host))
        case h.HostPresented(interaction_id=interaction_id):
            return _plain(write, interactions.present, interactions.Present(interaction_id, by.host))
        case h.HostDraft(interaction_id=interaction_id, sequence=sequence, values=values):
            draft = interactions.Draft(interaction_id, sequence, codec.encode(values), by.host)
            return _plain(write, interactions.save_draft, draft)
        case _:
            detail = f"a host cannot write {type(write.body).__name__}"
            raise TypeError(detail)


def _counted(write: Write, rule: Callable[..., Any], argument: object) -> Order:
    """It is done once, however often it is written."""

    def answer(outcome: hosts.HostAnswered | Rejection) -> tuple[str, WireModel]:
        if isinstance(outcome, Rejection):
            return "", outcome
        return _done(write, outcome.data, outcome.audit, repeated=outcome.repeated)

    return Order(rule, hosts.Written(write.by, argument), answer)


def _plain(write: Write, rule: Callable[..., Any], argument: object) -> Order:
    """Written twice, it changes nothing twice by itself."""

    def answer(outcome: interactions.InteractionState | Rejection) -> tuple[str, WireModel]:
        if isinstance(outcome, Rejection):
            return "", outcome
        return _done(write, _state(outcome), None, repeated=outcome.repeated)

    return Order(rule, argument, answer)


def _done(write: Write, data: JsonObject, mark: AuditMark | None, *, repeated: bool) -> tuple[str, WireModel]:
    return "lineup.v1.host.done", h.HostDone(request_id=write.by.request_id, repeated=repeated, data=data, audit=mark)


def _state(outcome: interactions.InteractionState) -> JsonObject:
    return {"interaction_id": outcome.record.interaction_id, "status": str(outcome.record.status)}


def _action(outcome: actions.Acted) -> JsonObject:
    return {"action_id": outcome.action_id}


_ANSWER: Final = hosts.once(interactions.answer, _state)
_DISMISS: Final = hosts.once(interactions.dismiss, _state)
_ACT: Final = hosts.once(actions.act, _action)
_TEXT: Final = hosts.once(actions.put_persons_text, _action)
_BRIDGE: Final = hosts.once(surfaces.bridge, lambda data: data)
