"""What a question, a surface or a line of the timeline looks like. Pure: from records to text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from runtime_actors.rules.text import neutral
from runtime_actors.terminal.answers import allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.terminal.board import Conversation, Line, Question
    from runtime_actors.terminal.form import Form
    from runtime_actors.terminal.phrases import Phrases

_SURFACE_CHARACTERS: Final = 4000


def drawn_line(line: Line, phrases: Phrases) -> Text:
    """One line of the timeline."""
    text = Text(f"{line.at[11:19]} ", style="dim")
    text.append(f"{phrases.word(line.who)}: ", style="bold reverse" if line.by_runtime else "bold")
    text.append(line.text)
    return text


def drawn_asker(question: Question, phrases: Phrases) -> Text:
    """The first line of a question's card. The runtime's own has a form that no app can have."""
    if question.by_runtime:
        return Text(phrases.asks.format(who=question.asker), style="bold reverse")
    return Text(phrases.asks.format(who=f"{question.asker} ({question.owner['app_scope']})"), style="bold")


def drawn_question(question: Question, form: Form | None) -> Text:
    """The rest of its card: what is asked, what can be chosen, what has been written into its fields."""
    request = question.record["request"]
    text = Text(f"{question.title}\n")
    text.append(neutral(str(request.get("prompt") or request.get("message") or ""), lines=True) + "\n")
    for number, action in enumerate(request.get("actions", ()), 1):
        text.append(f"{number}  {neutral(action['label'])}", style="bold")
        text.append(f"  {neutral(action.get('description') or '')}\n")
    for place, field in enumerate(form.fields if form else ()):
        is_now = form is not None and place == form.place
        text.append(f"{'>' if is_now else ' '} {neutral(field['label'])}: ", style="bold" if is_now else "")
        if form is not None and not is_now:
            text.append(neutral(form.texts.get(field["id"], "")))
        text.append("\n")
    return text


def how_to_answer(record: Mapping[str, Any], form: Form | None, phrases: Phrases) -> str:
    """What a line has to be to answer a question."""
    request = record["request"]
    match record["kind"]:
        case "confirm":
            return phrases.confirm.format(
                yes=neutral(request.get("approve_label") or phrases.says_yes),
                no=neutral(request.get("cancel_label") or phrases.says_no),
            )
        case "choice":
            several = request["mode"] == "multi-choice"
            return (phrases.some_of if several else phrases.one_of).format(count=len(request["actions"]))
        case "input" if form is not None and form.field is not None:
            return _how_to_fill(form.field, phrases) + (f"   {phrases.back}" if form.place else "")
        case "notice" if request.get("acknowledge_label"):
            return phrases.enter.format(label=neutral(request["acknowledge_label"]))
        case _:
            return ""


def _how_to_fill(field: Mapping[str, Any], phrases: Phrases) -> str:
    limits = [
        phrases.needed if field.get("required") else phrases.optional,
        phrases.number if field["type"] == "number" else "",
        allowed(field, phrases),
    ]
    return f"{neutral(field['label'])} ({', '.join(filter(None, limits))}): {neutral(field.get('placeholder') or '')}"


def drawn_surfaces(one: Conversation, phrases: Phrases) -> Text:
    """The open surfaces of a conversation, as their states."""
    text = Text()
    for surface in one.surfaces.values():
        about = f"{surface['kind']}, {phrases.revision} {surface['revision']}"
        text.append(f"{neutral(surface['title'])} ({about})\n", style="bold")
        shown = json.dumps(surface.get("state"), ensure_ascii=False, indent=1)
        text.append(neutral(shown, limit=_SURFACE_CHARACTERS, lines=True) + "\n")
    return text
