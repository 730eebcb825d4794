"""From keys to answers: what a person types about a question becomes the body of a `host.answer`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.rules.text import neutral
from runtime_actors.terminal.phrases import ENGLISH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime_actors.terminal.phrases import Phrases

_LARGEST: Final = 2**53 - 1
_YES, _NO = frozenset({"y", "yes", "是", "好"}), frozenset({"n", "no", "否", "不"})


class NotAnAnswer(ValueError):
    """What was typed cannot be an answer; the message says what can."""


def typed_answer(record: Mapping[str, Any], words: str, phrases: Phrases = ENGLISH) -> dict[str, Any]:
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
            return {"approved": _yes_or_no(words, phrases)}
        case "choice":
            return {"action_ids": _chosen(request, words, phrases)}
        case _:
            fields = request["fields"]
            if len(fields) != 1:
                raise NotAnAnswer(phrases.several_fields)
            return {"values": filled(fields, {fields[0]["id"]: words}, phrases)}


def filled(fields: Sequence[Mapping[str, Any]], texts: Mapping[str, str], phrases: Phrases = ENGLISH) -> dict[str, Any]:
    """The values of an input from what was typed into its fields; empty ones are left out.

    Raises:
        NotAnAnswer: A value is outside its field's limits, or a required field is empty.

    """
    values: dict[str, Any] = {}
    for field in fields:
        text = texts.get(field["id"], "")
        if text:
            values[field["id"]] = _number(field, text, phrases) if field["type"] == "number" else text
            _check_range(field, values[field["id"]], phrases)
        elif field.get("required"):
            raise NotAnAnswer(phrases.is_needed.format(label=_label(field)))
    return values


def allowed(field: Mapping[str, Any], phrases: Phrases) -> str:
    """How long, or how large, the value of a field may be; empty if anything goes."""
    lowest, highest = ("minimum", "maximum") if field["type"] == "number" else ("min_length", "max_length")
    least, most = field.get(lowest), field.get(highest)
    if least is None and most is None:
        return ""
    if most is None:
        span = phrases.at_least.format(least=f"{least:.16g}")
    elif least is None:
        span = phrases.at_most.format(most=f"{most:.16g}")
    else:
        span = phrases.between.format(least=f"{least:.16g}", most=f"{most:.16g}")
    return span if field["type"] == "number" else phrases.characters.format(range=span)


def _label(field: Mapping[str, Any]) -> str:
    return neutral(str(field["label"]))


def _number(field: Mapping[str, Any], text: str, phrases: Phrases) -> int | float:
    try:
        value = float(text)
    except ValueError:
        raise NotAnAnswer(phrases.no_number.format(label=_label(field))) from None
    if not math.isfinite(value) or abs(value) > _LARGEST:
        raise NotAnAnswer(phrases.too_large.format(label=_label(field)))
    return int(value) if value.is_integer() else value


def _check_range(field: Mapping[str, Any], value: str | float, phrases: Phrases) -> None:
    if isinstance(value, str):
        size, least, most = float(len(value)), field.get("min_length"), field.get("max_length")
    else:
        size, least, most = value, field.get("minimum"), field.get("maximum")
    if (least is not None and size < least) or (most is not None and size > most):
        raise NotAnAnswer(phrases.beyond.format(label=_label(field), limit=allowed(field, phrases)))


def _yes_or_no(words: str, phrases: Phrases) -> bool:
    said = words.strip().lower()
    if said in _YES:
        return True
    if said in _NO:
        return False
    raise NotAnAnswer(phrases.type_yes_or_no)


def _chosen(request: Mapping[str, Any], words: str, phrases: Phrases) -> list[str]:
    actions, several = request["actions"], request["mode"] == "multi-choice"
    numbers = words.replace(",", " ").replace("，", " ").split()  # noqa: RUF001 - Chinese
    if not numbers or not all(one.isascii() and one.isdigit() and 1 <= int(one) <= len(actions) for one in numbers):
        raise NotAnAnswer((phrases.some_of if several else phrases.one_of).format(count=len(actions)))
    if len(numbers) > 1 and not several:
        raise NotAnAnswer(phrases.only_one)
    return [str(actions[int(one) - 1]["id"]) for one in dict.fromkeys(numbers)]
