"""What a person can see, folded from host events: pure, so that any screen can draw it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.rules.text import neutral
from runtime_actors.terminal.phrases import ENGLISH, RUNTIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime_actors.terminal.phrases import Phrases

LINES: Final = 500
"""Of a conversation's timeline, the newest."""
OPEN: Final = frozenset({"pending", "presented", "submitted"})


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened in a conversation."""

    at: str
    who: str
    """`agent`, `person`, an app's title, or the runtime with an app's title."""
    text: str
    by_runtime: bool = False


@dataclass(frozen=True, slots=True)
class App:
    """An instance on the focus stack."""

    instance_id: str
    app_scope: str
    title: str


@dataclass(frozen=True, slots=True)
class Question:
    """An interaction that waits for the person."""

    record: Mapping[str, Any]
    """As on the wire."""
    app_title: str
    draft: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """Its interaction_id."""
        return str(self.record["interaction_id"])

    @property
    def owner(self) -> Mapping[str, Any]:
        """Who asks."""
        owner: Mapping[str, Any] = self.record["owner"]
        return owner

    @property
    def by_runtime(self) -> bool:
        """Whether the runtime asks, about an app (docs/people.md, 2.7)."""
        return bool(self.owner["source"] == "runtime_policy")

    @property
    def asker(self) -> str:
        """Who asks, as a person reads it: the app, or the runtime with the app behind it."""
        return f"{RUNTIME} ({self.app_title})" if self.by_runtime else self.app_title

    @property
    def title(self) -> str:
        """Its headline."""
        return neutral(str(self.record["request"]["title"]))


@dataclass(slots=True)
class Conversation:
    """Everything of one conversation."""

    conversation_id: str
    timeline: deque[Line] = field(default_factory=lambda: deque(maxlen=LINES))
    lines: int = 0
    """Told so far, those included that the timeline has no more."""
    stack: tuple[App, ...] = ()
    """The last one is in front."""
    states: dict[str, str] = field(default_factory=dict)
    """Instance to state, of those that live."""
    titles: dict[str, str] = field(default_factory=dict)
    """Instance to the app's title."""
    hanging: set[str] = field(default_factory=set)
    questions: dict[str, Question] = field(default_factory=dict)
    surfaces: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def tell(self, line: Line) -> None:
        """Put a line at the end of the timeline."""
        self.timeline.append(line)
        self.lines += 1

    @property
    def front(self) -> App | None:
        """Who is in front."""
        return self.stack[-1] if self.stack else None


class Board:
    """All conversations. Events may come twice: what they say is a state, and a line is told by its number."""

    def __init__(self, phrases: Phrases = ENGLISH) -> None:
        self.conversations: dict[str, Conversation] = {}
        self._phrases = phrases
        self._through = 0
        self._stream: str | None = None

    def of(self, conversation_id: str) -> Conversation:
        """One conversation, made if nothing was known of it."""
        return self.conversations.setdefault(conversation_id, Conversation(conversation_id))

    @property
    def liveliest(self) -> str | None:
        """The first conversation in which something lives or is asked, else the newest."""
        live = (name for name, one in self.conversations.items() if one.questions or one.states)
        return next(live, next(reversed(self.conversations), None))

    def follow(self, stream: str) -> None:
        """Take the events of this stream from now on: another one counts anew."""
        if stream != self._stream:
            self._stream, self._through = stream, 0

    def fill(
        self,
        *,
        interactions: Iterable[Mapping[str, Any]],
        surfaces: Iterable[Mapping[str, Any]],
        focus: Iterable[Mapping[str, Any]],
        instances: Iterable[Mapping[str, Any]],
        timeline: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Begin anew from the listings, which hold everything that is open; the timelines stay.

        `timeline` holds events: those that were not told yet become lines, and count as told when they come again.
        """
        for row in timeline:
            if int(row["number"]) > self._through:
                self.apply(
                    int(row["number"]), str(row["at"]), str(row["conversation_id"]), str(row["kind"]), row["data"]
                )
        for one in self.conversations.values():
            one.stack, one.states, one.hanging = (), {}, set()
            one.questions, one.surfaces = {}, {}
        scopes: dict[str, str] = {}
        for row in instances:
            instance_id = str(row["instance_id"])
            one = self.of(str(row["conversation_id"]))
            one.states[instance_id] = str(row["state"])
            scopes[instance_id] = str(row["app_scope"])
            one.titles[instance_id] = neutral(str(row.get("app_title") or row["app_scope"]))
            if row.get("hanging"):
                one.hanging.add(instance_id)
        for row in focus:
            one = self.of(str(row["conversation_id"]))
            one.stack = tuple(
                App(instance_id, scopes.get(instance_id, ""), one.titles.get(instance_id, instance_id))
                for instance_id in map(str, row["stack"])
            )
        for row in interactions:
            if "owner" in row["interaction"]:  # one that cannot be read any more has none
                question = Question(row["interaction"], neutral(str(row.get("app_title", ""))), row.get("draft"))
                self.of(str(question.owner["conversation_id"])).questions[question.id] = question
        for row in surfaces:
            self.of(str(row["conversation_id"])).surfaces[str(row["surface_id"])] = row

    def apply(self, number: int, at: str, conversation_id: str, kind: str, data: Mapping[str, Any]) -> None:
        """Take one event over. Kinds that are not known are left out."""
        one = self.of(conversation_id)
        is_new = number > self._through
        self._through = max(self._through, number)
        match kind:
            case "text.agent" | "text.person":
                if is_new:
                    one.tell(Line(at, kind.removeprefix("text."), neutral(str(data.get("text", "")))))
            case "interaction.opened" | "interaction.changed":
                self._question(one, at, data, opens=kind == "interaction.opened", tell=is_new)
            case "surface.opened" | "surface.changed":
                surface = data["surface"]
                one.surfaces[str(surface["surface_id"])] = surface
            case "surface.closed":
                one.surfaces.pop(str(data["surface"]["surface_id"]), None)
            case "focus.changed":
                one.stack = tuple(_app(row) for row in data["stack"])
            case "instance.changed":
                self._instance(one, at, data, tell=is_new)

    def _question(self, one: Conversation, at: str, data: Mapping[str, Any], *, opens: bool, tell: bool) -> None:
        record, title = data["interaction"], neutral(str(data.get("app_title", "")))
        question = Question(record, title, data.get("draft"))
        was = one.questions.get(question.id)
        if record["status"] in OPEN:
            one.questions[question.id] = Question(record, title, data.get("draft") or (was.draft if was else None))
            if tell and (opens or was is None):
                said = self._phrases.asks_in_timeline.format(title=question.title)
                one.tell(Line(at, question.asker, said, question.by_runtime))
            return
        one.questions.pop(question.id, None)
        if tell:
            ended = f"{question.title}: {outcome(record, self._phrases)}"
            one.tell(Line(at, question.asker, ended, question.by_runtime))

    def _instance(self, one: Conversation, at: str, data: Mapping[str, Any], *, tell: bool) -> None:
        instance_id, state = str(data["instance_id"]), str(data["state"])
        title = neutral(str(data.get("app_title", "")))
        one.titles[instance_id] = title
        if data.get("hanging"):
            one.hanging.add(instance_id)
        else:
            one.hanging.discard(instance_id)
        before = one.states.get(instance_id)
        if state in {"closed", "failed"}:
            one.states.pop(instance_id, None)
            one.hanging.discard(instance_id)
        else:
            one.states[instance_id] = state
        if tell and state != before and state in {"starting", "suspended", "closed", "failed"}:
            one.tell(Line(at, title, self._phrases.word(state)))


def outcome(record: Mapping[str, Any], phrases: Phrases = ENGLISH) -> str:
    """What became of a question, in words for a person."""
    status, result = str(record["status"]), record.get("result") or {}
    if status != "completed":
        return phrases.word(status)
    match record["kind"]:
        case "confirm":
            return phrases.word("yes" if result.get("approved") else "no")
        case "choice":
            labels = {action["id"]: action["label"] for action in record["request"]["actions"]}
            return ", ".join(neutral(str(labels.get(one, one))) for one in result.get("action_ids", ()))
        case "input":
            labels = {field["id"]: field["label"] for field in record["request"]["fields"]}
            values = result.get("values", {})
            return ", ".join(
                f"{neutral(str(labels.get(key, key)))} {neutral(str(value))}" for key, value in values.items()
            )
        case _:
            return phrases.word("read")


def _app(row: Mapping[str, Any]) -> App:
    return App(str(row["instance_id"]), str(row["app_scope"]), neutral(str(row.get("app_title") or row["app_scope"])))
