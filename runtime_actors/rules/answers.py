"""What counts as an answer to a question (docs/people.md, 2.3): the result it gives, or why it does not fit."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, assert_never

from runtime_actors.contract import codec
from runtime_actors.contract.interactions import (
    MAX_VALUE_CHARACTERS,
    ChoiceRequest,
    ConfirmRequest,
    InputField,
    InputRequest,
    NoticeRequest,
)
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.rules.interactions import MAX_RESULT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.host import HostAnswer
    from runtime_actors.contract.interactions import StandardInteractionRequest

_MOVING: Final = frozenset({"Cc", "Zl", "Zp"})
"""Categories of what ends a line or moves a cursor (UAX #44)."""
_IN_TEXTAREA: Final = frozenset("\n\t")


class _Unfit(Exception):
    """It does not fit; says why, without the values."""


def result_of(request: StandardInteractionRequest, given: HostAnswer) -> JsonObject | Rejection:
    """The result that an answer gives, in its canonical shape."""
    said = {name for name in ("acknowledged", "action_ids", "approved", "values") if getattr(given, name) is not None}
    try:
        result = _result(request, given, said)
        size = len(codec.encode(result))
    except _Unfit as why:
        return Rejection(code=RejectionCode.INTERACTION_INVALID, detail=str(why))
    except codec.IntakeError as error:
        return Rejection(code=RejectionCode.INTERACTION_INVALID, detail=error.detail)
    if size <= MAX_RESULT_BYTES:
        return result
    detail = f"the answer takes {size} bytes; {MAX_RESULT_BYTES} are allowed"
    return Rejection(code=RejectionCode.INTERACTION_INVALID, detail=detail)


def _result(request: StandardInteractionRequest, given: HostAnswer, said: set[str]) -> JsonObject:
    match request:
        case NoticeRequest():
            _needs(said, "acknowledged")
            if request.acknowledge_label is None:
                raise _Unfit("this notice needs no answer")
            if given.acknowledged is not True:
                raise _Unfit("acknowledged must be true")
            return {"acknowledged": True}
        case ChoiceRequest():
            _needs(said, "action_ids")
            return {"action_ids": _chosen(request, given.action_ids or ())}
        case ConfirmRequest():
            _needs(said, "approved")
            return {"approved": given.approved}
        case InputRequest():
            _needs(said, "values")
            return {"values": _values(request, given.values or {})}
        case _:
            assert_never(request)


def _needs(said: set[str], name: str) -> None:
    if said != {name}:
        raise _Unfit(f"an answer to this question is '{name}' and nothing else")


def _chosen(request: ChoiceRequest, ids: tuple[str, ...]) -> list[str]:
    known = [action.id for action in request.actions]
    if len(set(ids)) < len(ids):
        raise _Unfit("an action is chosen twice")
    if not set(ids) <= set(known):
        raise _Unfit("an action is chosen that was not offered")
    if not ids or (request.mode != "multi-choice" and len(ids) > 1):
        raise _Unfit("at least one action must be chosen" if not ids else "exactly one action must be chosen")
    return [one for one in known if one in ids]


def _values(request: InputRequest, values: Mapping[str, object]) -> JsonObject:
    if not values.keys() <= {field.id for field in request.fields}:
        raise _Unfit("a field is filled that was not offered")
    filled: JsonObject = {}
    for field in request.fields:
        value = values.get(field.id)
        if value is None or (value == "" and field.type != "number"):  # an empty text is left out
            if field.required:
                raise _Unfit(f"field {field.id} must be filled")
            continue
        _check_value(field, value)
        filled[field.id] = value
    return filled


def _check_value(field: InputField, value: object) -> None:
    if field.type == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _Unfit(f"field {field.id} must be a number")
        if (field.minimum is not None and value < field.minimum) or (
            field.maximum is not None and value > field.maximum
        ):
            raise _Unfit(f"field {field.id} is out of its range")
        return
    if not isinstance(value, str):
        raise _Unfit(f"field {field.id} must be a text")
    allowed = _IN_TEXTAREA if field.type == "textarea" else frozenset()
    if any(unicodedata.category(one) in _MOVING and one not in allowed for one in value):
        raise _Unfit(f"field {field.id} holds a control character, or more lines than one")
    most = MAX_VALUE_CHARACTERS if field.max_length is None else field.max_length
    if not (field.min_length or 0) <= len(value) <= most:
        raise _Unfit(f"field {field.id} must have {field.min_length or 0} to {most} characters")
