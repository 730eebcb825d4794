"""From keys to answers: what a person types about a question becomes the body of a `host.answer`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LARGEST: Final = 2**53 - 1
_YES, _NO = frozenset({"y", "yes", "是", "好"}), frozenset({"n", "no", "否", "不"})


class NotAnAnswer(ValueError):
    """What was typed cannot be an answer; the message says what can."""


def typed_answer(record: Mapping[str, Any], words: str) -> dict[str, Any]:
    """The answer that one typed line means. `record` is the interaction on the wire.

    A notice takes any line; a confirm yes or no; a choice the numbers of its actions, counted from 1, with blanks or
    commas between; an input of one field that field's value.

    Raises:
        NotAnAnswer: It means none; say what to type instead.

    """
    request = record["request"]
    match request["kind"]:
        case "notice":
            return {"acknowledged": True}
        case "confirm":
            return {"approved": _yes_or_no(words)}
        case "choice":
            return {"action_ids": _chosen(request["actions"], words, several=request["mode"] == "multi-choice")}
        case _:
            fields = request["fields"]
            if len(fields) != 1:
                raise NotAnAnswer("it has several fields: open it to fill them in")
            return {"values": filled(fields, {fields[0]["id"]: words})}


def filled(fields: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of an input from what was typed into its fields; empty ones are left out.

    Raises:
        NotAnAnswer: A value is outside its field's limits, or a required field is empty.

    """
    values: dict[str, Any] = {}
    for field in fields:
        text = texts.get(field["id"], "")
        if not text:
            if field.get("required"):
                raise NotAnAnswer(f"{field['label']} is needed")
            continue
        values[field["id"]] = _number(field, text) if field["type"] == "number" else _text(field, text)
    return values


def _number(field: Mapping[str, Any], text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        raise NotAnAnswer(f"{field['label']} must be a number") from None
    if not math.isfinite(value) or abs(value) > _LARGEST:
        raise NotAnAnswer(f"{field['label']} is too large")
    _check_range(field, "minimum", "maximum", value, "")
    return int(value) if value.is_integer() else value


def _text(field: Mapping[str, Any], text: str) -> str:
    _check_range(field, "min_length", "max_length", len(text), " characters")
    return text


def _check_range(field: Mapping[str, Any], lowest: str, highest: str, value: float, unit: str) -> None:
    least, most = field.get(lowest), field.get(highest)
    if least is not None and value < least:
        raise NotAnAnswer(f"{field['label']}: at least {least:g}{unit}")
    if most is not None and value > most:
        raise NotAnAnswer(f"{field['label']}: at most {most:g}{unit}")


def _yes_or_no(words: str) -> bool:
    said = words.strip().lower()
    if said in _YES:
        return True
    if said in _NO:
        return False
    raise NotAnAnswer("type yes or no")


def _chosen(actions: Sequence[Mapping[str, Any]], words: str, *, several: bool) -> list[str]:
    numbers = words.replace(",", " ").split()
    if not numbers or not all(one.isascii() and one.isdigit() and 1 <= int(one) <= len(actions) for one in numbers):
        raise NotAnAnswer(f"type a number from 1 to {len(actions)}" + (", or several" if several else ""))
    if len(numbers) > 1 and not several:
        raise NotAnAnswer("only one can be chosen")
    return [str(actions[int(one) - 1]["id"]) for one in dict.fromkeys(numbers)]
