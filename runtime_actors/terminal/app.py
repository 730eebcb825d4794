"""The screen of `lineup shell`: timeline, questions, surfaces and apps of one conversation, by keyboard alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Header, Input, Label, ListItem, ListView, RichLog, Static

from runtime_actors.client.events import Lost
from runtime_actors.client.host import HostReady
from runtime_actors.contract.host import HostEvent
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
_HELP: Final = "type to talk, or to answer the question above"


class Shell(App[None]):
    """A host. It keeps nothing: what it shows comes from events, and what the person does goes to the runtime."""

    TITLE = "LineUp"
    CSS: ClassVar[str] = """
    #side { width: 34; border-right: solid $panel; }
    #timeline { height: 2fr; }
    #question { height: auto; max-height: 60%; border-top: solid $accent; padding: 0 1; }
    #surfaces { height: 1fr; border-top: solid $panel; padding: 0 1; }
    #state { height: 1; color: $text-muted; }
    ListView { height: auto; max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "next_question", "question"),
        Binding("escape", "dismiss", "dismiss"),
        Binding("f3", "next_conversation", "conversation"),
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
        self._written: dict[str, str] = {}
        """Texts of the fields of the open input, as far as they were filled in."""
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
                yield Static(id="question", markup=False)
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
            case Failed(why):
                self._say(neutral(why))
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
        if self.question is None:
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
        self.query_one("#surface", Static).update(_surfaces(one))

    def _open_next(self, one: Conversation) -> None:
        """Open the first question that may be opened: one of an app behind another is only listed."""
        self._written = {}
        front = one.front.instance_id if one.front else None
        for question in one.questions.values():
            owner = question.owner
            if owner["app_scope"] == "chat" or owner["source"] == _BY_RUNTIME or owner.get("instance_id") == front:
                self._choose(question)
                return
        self.question_id = None

    def _choose(self, question: Question) -> None:
        self.question_id = question.id
        self._written = {key: str(value) for key, value in (question.draft or {}).items()}

    def _present(self) -> None:
        question = self.question
        if question is not None and question.id not in self._seen:
            self._seen.add(question.id)
            self._link.do(lambda session: session.presented(question.id))

    def _list(self, name: str, rows: list[tuple[str, bool]]) -> None:
        view = self.query_one(f"#{name}", ListView)
        view.clear()
        for text, marked in rows:
            view.append(ListItem(Label(Text(("> " if marked else "  ") + neutral(text, limit=60)))))

    def _question_text(self) -> Text:
        question = self.question
        if question is None:
            return Text("")
        record, request = question.record, question.record["request"]
        by_runtime = question.owner["source"] == _BY_RUNTIME
        who = "LineUp Runtime asks" if by_runtime else f"{question.app_title} ({question.owner['app_scope']}) asks"
        text = Text(f"{who}\n", style="bold reverse" if by_runtime else "bold")
        text.append(f"{question.title}\n")
        text.append(neutral(str(request.get("prompt") or request.get("message") or ""), lines=True) + "\n")
        text.append(_how(record, self._next_field()), style="italic")
        return text

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
        """An answer to the question on the screen, or words for the agent."""
        line = submitted.value
        submitted.input.value = ""
        question, conversation_id = self.question, self.conversation_id
        if question is not None:
            try:
                self._answer(question, line)
            except NotAnAnswer as error:
                self._say(str(error))
            self._redraw()
        elif line and conversation_id is not None:
            self._link.do(lambda session: session.text(conversation_id, line))

    def _answer(self, question: Question, line: str) -> None:
        record = question.record
        if record["kind"] != "input":
            answer = typed_answer(record, line)
        else:
            fields, field = record["request"]["fields"], self._next_field()
            if field is not None:
                filled([field], {field["id"]: line})
                self._written[field["id"]] = line
                if self._next_field() is not None:
                    self._keep_draft(question)
                    return
            answer = {"values": filled(fields, self._written)}
        self._link.do(lambda session: session.answer(question.id, answer))

    def _keep_draft(self, question: Question) -> None:
        self._drafts += 1
        sequence, values = self._drafts, dict(self._written)
        self._link.do(lambda session: session.draft(question.id, sequence, values))

    def action_next_question(self) -> None:
        """Go round the questions of this conversation, those of apps in the background too."""
        one = self._one
        if one is None or not one.questions:
            return
        ids = list(one.questions)
        at = ids.index(self.question_id) + 1 if self.question_id in ids else 0
        self._choose(one.questions[ids[at % len(ids)]])
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
        case "choice":
            rows = [f"{n}  {neutral(action['label'])}" for n, action in enumerate(request["actions"], 1)]
            return "\n".join(rows)
        case "input" if field is not None:
            needed = " (needed)" if field.get("required") else " (may be empty)"
            return f"{neutral(field['label'])}{needed}: {neutral(field.get('placeholder') or '')}"
        case "notice" if request.get("acknowledge_label"):
            return f"enter: {neutral(request['acknowledge_label'])}"
        case _:
            return ""


def _surfaces(one: Conversation) -> Text:
    text = Text()
    for surface in one.surfaces.values():
        text.append(f"{neutral(surface['title'])} ({surface['kind']}, revision {surface['revision']})\n", style="bold")
        shown = json.dumps(surface.get("state"), ensure_ascii=False, indent=1)
        text.append(neutral(shown, limit=_SURFACE_CHARACTERS, lines=True) + "\n")
    return text
