"""The screen of `lineup shell`: timeline, questions, surfaces and apps of one conversation, by keyboard alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import Footer, Header, Input, Label, ListItem, ListView, RichLog, Static

from runtime_actors.client.events import Lost
from runtime_actors.client.host import HostReady
from runtime_actors.contract.host import HostEvent
from runtime_actors.rules.presentation import placement
from runtime_actors.rules.text import neutral
from runtime_actors.terminal.answers import NotAnAnswer, filled, typed_answer
from runtime_actors.terminal.board import Board
from runtime_actors.terminal.link import Failed, Link, Listings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime_actors.client.host import HostSession
    from runtime_actors.terminal.board import Conversation, Line, Question
    from runtime_actors.terminal.link import News

_SURFACE_CHARACTERS: Final = 4000
_BY_RUNTIME: Final = "runtime_policy"
_ROOM_FOR_SIDE: Final = 70
_ROOM_FOR_SURFACES: Final = 24
_ROOM_FOR_TIMELINE: Final = 14
_HELP: Final = "type to talk, or to answer the question above"


class Shell(App[None]):
    """A host. It keeps nothing: what it shows comes from events, and what the person does goes to the runtime."""

    TITLE = "LineUp"
    CSS: ClassVar[str] = """
    #side { width: 34; border-right: solid $panel; }
    #timeline { height: 2fr; }
    #asked { height: auto; max-height: 50%; border-top: solid $accent; padding: 0 1; }
    #how { height: auto; max-height: 3; padding: 0 1; text-style: italic; }
    #surfaces { height: 1fr; border-top: solid $panel; padding: 0 1; }
    #state { height: 1; color: $text-muted; }
    ListView { height: auto; max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "next_question", "question"),
        Binding("escape", "dismiss", "dismiss"),
        Binding("f3", "next_conversation", "conversation"),
        Binding("f4", "talk", "talk"),
        Binding("f5", "front", "to front"),
        Binding("f8", "close_app", "close app"),
        Binding("f9", "force_close", "force close"),
        Binding("ctrl+q", "quit", "quit"),
    ]

    def __init__(self, make_link: Callable[[Callable[[News | HostEvent], None]], Link], on_screen: str | None) -> None:
        super().__init__()
        self._link = make_link(self._from_link)
        self.board = Board()
        self.conversation_id = on_screen
        self.question_id: str | None = None
        self._line_is_for: str | None = None
        """The question that was on the screen when the line was begun: it is no answer to another."""
        self._talks = False
        """The next line is for the agent, though a question is open."""
        self._was_chosen = False
        """By the person, among those that are only listed."""
        self._written: dict[str, str] = {}
        """Texts of the fields of the open input, as far as they were filled in."""
        self._suggested: dict[str, str] = {}
        """Texts to begin the fields with: a draft, or an answer that was refused."""
        self._drafts = 0
        self._drawn = 0
        """Lines of the conversation on the screen that were written."""
        self._seen: set[str] = set()

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Header()
        with Horizontal():
            with Vertical(id="side"):
                yield Label("Conversations")
                yield ListView(id="conversations")
                yield Label("Apps")
                yield ListView(id="apps")
                yield Label("Questions")
                yield ListView(id="questions")
            with Vertical():
                yield RichLog(id="timeline", wrap=True, markup=False)
                with VerticalScroll(id="asked"):
                    yield Static(id="question", markup=False)
                yield Static(id="how", markup=False)
                with VerticalScroll(id="surfaces"):
                    yield Static(id="surface", markup=False)
                yield Static(_HELP, id="state", markup=False)
                yield Input(id="line", placeholder="Say something, or answer the question above")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to follow."""
        self.query_one("#line", Input).focus()
        self._link.start()

    def on_unmount(self) -> None:
        """Leave the daemon."""
        self._link.stop()

    # --- what comes from the daemon ---

    def _from_link(self, news: News | HostEvent) -> None:
        self.call_from_thread(self._take, news)

    def _take(self, news: News | HostEvent) -> None:
        match news:
            case HostEvent():
                self.board.apply(news.number, news.at, news.conversation_id, news.kind, news.data)
                if self.conversation_id is None:
                    self._go_to(news.conversation_id)
            case Listings(interactions, surfaces, focus, instances):
                self.board.fill(interactions=interactions, surfaces=surfaces, focus=focus, instances=instances)
                if self.conversation_id is None and self.board.conversations:
                    self._go_to(next(iter(self.board.conversations)))
            case HostReady():
                self._say(_HELP)
            case Lost():
                self._say("the daemon is gone; this attaches again when it is back")
            case Failed(why, about):
                self._say(neutral(why))
                if about is not None and about == self.question_id:
                    self._begin_again()
        self._redraw()

    @property
    def _one(self) -> Conversation | None:
        return None if self.conversation_id is None else self.board.of(self.conversation_id)

    @property
    def question(self) -> Question | None:
        """The one that is open on the screen."""
        one = self._one
        return None if one is None or self.question_id is None else one.questions.get(self.question_id)

    # --- drawing ---

    def _go_to(self, conversation_id: str) -> None:
        self.conversation_id, self.question_id = conversation_id, None
        self._link.do(lambda session: session.show(conversation_id))
        self.query_one("#timeline", RichLog).clear()
        one = self.board.of(conversation_id)
        self._drawn = one.lines - len(one.timeline)

    def _write_new(self) -> None:
        one = self._one
        if one is None or one.lines == self._drawn:
            return
        log = self.query_one("#timeline", RichLog)
        for line in list(one.timeline)[self._drawn - one.lines :]:
            log.write(_drawn(line))
        self._drawn = one.lines

    def _redraw(self) -> None:
        one = self._one
        self.sub_title = self.conversation_id or "no conversation yet"
        if one is None:
            return
        self._write_new()
        if self.question is None or not (self._was_chosen or _is_opened(one, self.question)):
            self._open_next(one)
        self._present()
        self._list("conversations", [(name, name == self.conversation_id) for name in self.board.conversations])
        front = one.front.instance_id if one.front else None
        apps = [
            (f"{one.titles.get(key, key)} - {state}{' - hangs' if key in one.hanging else ''}", key == front)
            for key, state in one.states.items()
        ]
        self._list("apps", apps)
        self._list(
            "questions", [(f"{q.app_title}: {q.title}", q.id == self.question_id) for q in one.questions.values()]
        )
        self.query_one("#question", Static).update(self._question_text())
        self.query_one("#how", Static).update(self._how_text())
        self.query_one("#surface", Static).update(_surfaces(one))

    def _open_next(self, one: Conversation) -> None:
        """Open the first question that may be opened: one of an app behind another is only listed."""
        question = next((one_ for one_ in one.questions.values() if _is_opened(one, one_)), None)
        if question is not None:
            self._choose(question)
        elif self.question_id is not None:
            self.question_id = None
            self._say(_HELP)

    def _choose(self, question: Question, *, by_person: bool = False) -> None:
        if question.id != self.question_id:
            self._say(_HELP)
        self.question_id, self._was_chosen = question.id, by_person
        self._talks = False
        self._suggested = {key: str(value) for key, value in (question.draft or {}).items()}
        self._begin_fields()

    def _begin_again(self) -> None:
        """The answer was refused: from the first field on, with what was written."""
        self._suggested = self._suggested | self._written
        self._begin_fields()

    def _begin_fields(self) -> None:
        self._written = {}
        self._suggest()

    def _suggest(self) -> None:
        """Put what a draft has for the next field into the line, unless something is written there."""
        field, line = self._next_field(), self.query_one("#line", Input)
        if field is not None and not line.value and self._suggested.get(field["id"]):
            self._line_is_for = self.question_id
            line.value = self._suggested[field["id"]]
            line.cursor_position = len(line.value)

    def _present(self) -> None:
        question = self.question
        if question is not None and question.id not in self._seen:
            self._seen.add(question.id)
            self._link.do(lambda session: session.presented(question.id), quiet=True)

    def _list(self, name: str, rows: list[tuple[str, bool]]) -> None:
        view = self.query_one(f"#{name}", ListView)
        view.clear()
        for text, marked in rows:
            view.append(ListItem(Label(Text(("> " if marked else "  ") + neutral(text, limit=60)))))

    def _question_text(self) -> Text:
        question = self.question
        if question is None:
            return Text("")
        request = question.record["request"]
        by_runtime = question.owner["source"] == _BY_RUNTIME
        who = "LineUp Runtime asks" if by_runtime else f"{question.app_title} ({question.owner['app_scope']}) asks"
        text = Text(f"{who}\n", style="bold reverse" if by_runtime else "bold")
        text.append(f"{question.title}\n")
        text.append(neutral(str(request.get("prompt") or request.get("message") or ""), lines=True) + "\n")
        for number, action in enumerate(request.get("actions", ()), 1):
            text.append(f"{number}  {neutral(action['label'])}", style="bold")
            text.append(f"  {neutral(action.get('description') or '')}\n")
        return text

    def _how_text(self) -> str:
        question = self.question
        if question is None:
            return ""
        if self._talks:
            return "This line goes to the agent."
        return _how(question.record, self._next_field())

    def _next_field(self) -> Mapping[str, Any] | None:
        question = self.question
        if question is None or question.record["kind"] != "input":
            return None
        fields: list[Mapping[str, Any]] = question.record["request"]["fields"]
        return next((field for field in fields if field["id"] not in self._written), None)

    def _say(self, text: str) -> None:
        self.query_one("#state", Static).update(text)

    # --- what the person does ---

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """An answer to the question that the line was begun for, or words for the agent."""
        line, begun_for = submitted.value, self._line_is_for
        question, conversation_id = self.question, self.conversation_id
        now_open = None if question is None or self._talks else question.id
        if line and begun_for != now_open:
            self._line_is_for = now_open
            self._say("the question has changed meanwhile: press enter again if this line is for what you see now")
            return
        submitted.input.value = ""
        self._say(_HELP)
        if question is not None and not self._talks:
            if line or _takes_nothing(question.record, self._next_field()):
                self._try(question, line)
        elif line and conversation_id is not None:
            self._talks = False
            self._link.do(lambda session: session.text(conversation_id, line))
        self._redraw()

    def on_input_changed(self, changed: Input.Changed) -> None:
        """Note what a line is begun for."""
        if len(changed.value) <= 1:
            question = self.question
            self._line_is_for = None if question is None or self._talks else question.id

    def on_resize(self, resized: Resize) -> None:
        """Where there is little room, the question and the line come first."""
        self.query_one("#side").display = resized.size.width >= _ROOM_FOR_SIDE
        self.query_one("#surfaces").display = resized.size.height >= _ROOM_FOR_SURFACES
        self.query_one("#timeline").display = resized.size.height >= _ROOM_FOR_TIMELINE

    def _try(self, question: Question, line: str) -> None:
        try:
            answer = self._answer(question, line)
        except NotAnAnswer as error:
            self._say(str(error))
            return
        if answer is not None:
            self._link.do(lambda session: session.answer(question.id, answer), about=question.id)

    def _answer(self, question: Question, line: str) -> dict[str, Any] | None:
        """The whole answer, or None while fields are left."""
        record = question.record
        if record["kind"] != "input":
            return typed_answer(record, line)
        fields, field = record["request"]["fields"], self._next_field()
        if field is not None:
            filled([field], {field["id"]: line})
            self._written[field["id"]] = line
            if self._next_field() is not None:
                self._keep_draft(question)
                self._suggest()
                return None
        return {"values": filled(fields, self._written)}

    def _keep_draft(self, question: Question) -> None:
        self._drafts += 1
        sequence, values = self._drafts, dict(self._written)
        self._link.do(lambda session: session.draft(question.id, sequence, values), quiet=True)

    def action_next_question(self) -> None:
        """Go round the questions of this conversation, those of apps in the background too."""
        one = self._one
        if one is None or not one.questions:
            return
        ids = list(one.questions)
        at = ids.index(self.question_id) + 1 if self.question_id in ids else 0
        self._choose(one.questions[ids[at % len(ids)]], by_person=True)
        self._redraw()

    def action_talk(self) -> None:
        """Talk to the agent though a question is open, or go back to the question."""
        self._talks = not self._talks
        self._line_is_for = None if self._talks else self.question_id
        self._redraw()

    def action_dismiss(self) -> None:
        """Do not answer."""
        question = self.question
        if question is not None:
            self._link.do(lambda session: session.dismiss(question.id))

    def action_next_conversation(self) -> None:
        """Go round the conversations."""
        names = list(self.board.conversations)
        if names:
            at = names.index(self.conversation_id) + 1 if self.conversation_id in names else 0
            self._go_to(names[at % len(names)])
            self._redraw()

    def action_front(self) -> None:
        """Bring the next app to the front."""
        one = self._one
        behind = [key for key in one.states if one.front is None or key != one.front.instance_id] if one else []
        if behind:
            self._link.do(lambda session: session.act(behind[0], "focus"))

    def action_close_app(self) -> None:
        """Ask the app in front to close."""
        self._act_on_front("close")

    def action_force_close(self) -> None:
        """Close the app in front, whatever it says."""
        self._act_on_front("force_close")

    def _act_on_front(self, action: Any) -> None:  # noqa: ANN401 - one of the client's words
        one = self._one
        if one is not None and one.front is not None:
            instance_id = one.front.instance_id
            self._link.do(lambda session: session.act(instance_id, action))


def make_shell(session: HostSession, on_screen: str | None) -> Shell:
    """The screen on a session that is not attached yet."""
    return Shell(lambda tell: Link(session, tell), on_screen)


def _drawn(line: Line) -> Text:
    text = Text(f"{line.at[11:19]} ", style="dim")
    text.append(f"{line.who}: ", style="bold")
    text.append(line.text)
    return text


def _how(record: Mapping[str, Any], field: Mapping[str, Any] | None) -> str:
    request = record["request"]
    match record["kind"]:
        case "confirm":
            yes, no = request.get("approve_label") or "yes", request.get("cancel_label") or "no"
            return f"yes: {neutral(yes)}   no: {neutral(no)}"
        case "choice" if request["mode"] == "multi-choice":
            return f"type numbers from 1 to {len(request['actions'])}"
        case "choice":
            return f"type a number from 1 to {len(request['actions'])}"
        case "input" if field is not None:
            needed = " (needed)" if field.get("required") else " (may be empty)"
            return f"{neutral(field['label'])}{needed}: {neutral(field.get('placeholder') or '')}"
        case "notice" if request.get("acknowledge_label"):
            return f"enter: {neutral(request['acknowledge_label'])}"
        case _:
            return ""


def _takes_nothing(record: Mapping[str, Any], field: Mapping[str, Any] | None) -> bool:
    """Whether an empty line says something: it acknowledges a notice, and leaves a field empty that may be."""
    return record["kind"] == "notice" or (field is not None and not field.get("required"))


def _is_opened(one: Conversation, question: Question) -> bool:
    """Whether a question is shown by itself, and not only listed (docs/people.md, 2.4)."""
    owner, record = question.owner, question.record
    front = one.front.instance_id if one.front else None
    place = placement(
        owner["app_scope"],
        owner["source"],
        record.get("presentation", "default"),
        in_front=owner.get("instance_id") == front,
        listed_until=record.get("listed_until"),
        now=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )
    return place != "listed"


def _surfaces(one: Conversation) -> Text:
    text = Text()
    for surface in one.surfaces.values():
        text.append(f"{neutral(surface['title'])} ({surface['kind']}, revision {surface['revision']})\n", style="bold")
        shown = json.dumps(surface.get("state"), ensure_ascii=False, indent=1)
        text.append(neutral(shown, limit=_SURFACE_CHARACTERS, lines=True) + "\n")
    return text
