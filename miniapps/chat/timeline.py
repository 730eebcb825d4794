"""What Interact shows: the newest entries of a conversation, as the state of a surface. Pure.

An entry has a name (of the message, the question or the action it shows), so that what comes again after a restart
changes nothing, and a number, by which a host sorts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from miniapp_worker.sdk import AgentText, InteractionRecord, JsonObject

EMPTY: Final[JsonObject] = {"mode": "im", "entries": {}}
KEPT: Final = 100
MOST_CHARACTERS: Final = 400
"""Of one text: a hundred of them fit the state of a surface."""


class Timeline:
    """Keeps a copy of the surface's state, and says by which patches it changes."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self._entries: dict[str, JsonObject] = dict((state or EMPTY).get("entries", {}))

    @property
    def entries(self) -> Mapping[str, JsonObject]:
        return self._entries

    def put(self, name: str, entry: JsonObject) -> JsonObject | None:
        """The patch that shows an entry, or shows it as it is now; None if nothing changes."""
        before = self._entries.get(name)
        number = before["n"] if before else 1 + max((one["n"] for one in self._entries.values()), default=0)
        shown = {**entry, "n": number}
        if shown == before:
            return None
        self._entries[name] = shown
        patch: dict[str, Any] = {name: {**dict.fromkeys(before or ()), **shown}}
        for old in sorted(self._entries, key=lambda one: self._entries[one]["n"])[:-KEPT]:
            del self._entries[old]
            patch[old] = None
        return {"entries": patch}


def of_text(message: AgentText) -> JsonObject:
    """What an agent says. A kind that is not known here is named, and nothing of it is interpreted."""
    kind = (message.data or {}).get("kind", "text")
    if kind in {"text", "markdown", "task"}:
        return {"who": "agent", "kind": str(kind), "text": _cut(message.text)}
    return {"who": "agent", "kind": "unknown", "text": _cut(message.text or "(this cannot be shown here)")}


def of_person(text: str) -> JsonObject:
    """What the person wrote."""
    return {"who": "person", "kind": "text", "text": _cut(text)}


def of_note(text: str) -> JsonObject:
    """What Interact itself has to say."""
    return {"who": "interact", "kind": "note", "text": _cut(text)}


def of_question(asked: InteractionRecord) -> JsonObject:
    """A question of the agent, with its answer once there is one."""
    entry: JsonObject = {
        "who": "agent",
        "kind": asked.kind,
        "text": _cut(asked.request.title),
        "status": str(asked.status),
    }
    if asked.result is not None:
        entry["answer"] = _cut(echo(asked))
    return entry


def echo(asked: InteractionRecord) -> str:
    """The person's answer in the words of the question."""
    request, result = asked.request, asked.result or {}
    match request.kind:
        case "confirm":
            yes, no = request.approve_label or "yes", request.cancel_label or "no"
            return yes if result.get("approved") else no
        case "choice":
            labels = {action.id: action.label for action in request.actions}
            return ", ".join(labels[one] for one in result.get("action_ids", ()))
        case "input":
            labels = {field.id: field.label for field in request.fields}
            return ", ".join(f"{labels[key]}: {value}" for key, value in result.get("values", {}).items())
        case "notice":
            return request.acknowledge_label or ""


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
