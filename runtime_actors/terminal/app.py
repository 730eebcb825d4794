"""The screen of `lineup shell`: timeline, questions, surfaces and apps of one conversation, by keyboard alone."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Header, Input, Label, ListItem, ListView, RichLog, Static

from runtime_actors.client.events import Lost
from runtime_actors.client.host import HostReady
from runtime_actors.contract.host import HostEvent
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.rules.presentation import placement
from runtime_actors.rules.text import neutral
from runtime_actors.terminal.answers import NotAnAnswer, typed_answer
from runtime_actors.terminal.board import OPEN, Board, outcome
from runtime_actors.terminal.drawing import drawn_asker, drawn_line, drawn_question, drawn_surfaces, how_to_answer
from runtime_actors.terminal.form import Form
from runtime_actors.terminal.link import Failed, Link, Listings
from runtime_actors.terminal.phrases import ENGLISH, Phrases, phrases_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.events import Key, Resize
    from textual.timer import Timer

    from runtime_actors.client.host import HostSession
    from runtime_actors.terminal.board import Conversation, Question
    from runtime_actors.terminal.link import News

_ROOM_FOR_SIDE: Final = 70
_ROOM_FOR_SURFACES: Final = 24
_ROOM_FOR_TIMELINE: Final = 14
_DRAFT_AFTER_S: Final = 0.5
"""Since the last key."""
_FORCE_WITHIN_S: Final = 3.0
_DOUBT_S: Final = 1.0
"""A line that is begun so soon after the card changed under the person's hands may be for what was there before."""
_QUOTED: Final = 30
"""Characters, in the status line, of what somebody else wrote."""
_KEYS: Final = (
    ("escape", "dismiss"),
    ("f2", "next_question"),
    ("f4", "talk"),
    ("ctrl+q", "quit"),
    ("f3", "next_conversation"),
    ("f5", "front"),
    ("f8", "close_app"),
    ("f9", "force_close"),
)
"""The most important ones first: 40 cells show four of them, 80 all."""

Target = tuple[str | None, str | None]
"""What a line is for: a conversation, and a question in it, or none for its agent."""


class Shell(App[None], inherit_bindings=False):
    """A host. It keeps nothing: what it shows comes from events, and what the person does goes to the runtime."""

    TITLE = "LineUp"
    CSS: ClassVar[str] = """
    #side { width: 34; border-right: solid $panel; }
    #timeline { height: 2fr; }
    #who { height: auto; max-height: 2; padding: 0 1; }
    #asked { height: auto; max-height: 50%; border-top: solid $accent; padding: 0 1; }
    #how { height: auto; max-height: 3; padding: 0 1; text-style: italic; }
    #surfaces { height: 1fr; border-top: solid $panel; padding: 0 1; }
    #state { height: auto; max-height: 4; color: $text-muted; }
    ListView { height: auto; max-height: 12; }
    """

    def __init__(
        self,
        make_link: Callable[[Callable[[News | HostEvent], None]], Link],
        on_screen: str | None,
        phrases: Phrases = ENGLISH,
    ) -> None:
        super().__init__()
        self._link = make_link(self._from_link)
        self._phrases = phrases
        for key, action in _KEYS:
            self.bind(key, action, description=phrases.keys[action])
        self.bind("ctrl+c", "help_quit", show=False)
        self.bind("pageup", "scroll_card(-1)", show=False)
        self.bind("pagedown", "scroll_card(1)", show=False)
        self.bind("up", "field_before", show=False)
        self.board = Board(phrases)
        self.conversation_id = on_screen
        self.question_id: str | None = None
        self.form: Form | None = None
        """Of the open question, if it is an input."""
        self._box = Input(id="line", placeholder=phrases.invitation, select_on_focus=False)
        self._was = ""
        """What the box held when it was last looked at."""
        self._line_is_for: Target = (on_screen, None)
        """What was on the screen when the line was begun: it is nothing to another."""
        self._lines: dict[Target, str] = {}
        """Lines that were begun for what is not on the screen now."""
        self._in_doubt = False
        self._displaced_at = float("-inf")
        self._talks = False
        """The next line is for the agent, though a question is open."""
        self._was_chosen = False
        """By the person, among those that are only listed."""
        self._before: tuple[str, bool] | None = None
        """The question that one of the runtime came in front of, and whether the person had chosen it."""
        self._draft_due: tuple[str, dict[str, str]] | None = None
        self._draft_timer: Timer | None = None
        self._drafts = 0
        self._drawn = 0
        """Lines of the conversation on the screen that were written."""
        self._seen: set[str] = set()
        self._told_to_wait: set[str] = set()
        self._answering: dict[str, str | None] = {}
        """Questions whose answer is under way, with how they ended meanwhile."""
        self._force: tuple[str, float] | None = None
        self._said = phrases.help
        self._stays = False
        """What is said is there until the person does something, whatever comes up meanwhile."""

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Header()
        with Horizontal():
            with Vertical(id="side"):
                yield Label(self._phrases.conversations)
                yield ListView(id="conversations")
                yield Label(self._phrases.apps)
                yield ListView(id="apps")
                yield Label(self._phrases.questions)
                yield ListView(id="questions")
            with Vertical():
                yield RichLog(id="timeline", min_width=1, wrap=True, markup=False)
                yield Static(id="who", markup=False)
                with VerticalScroll(id="asked") as card:
                    card.border_title = "PgUp PgDn"
                    yield Static(id="question", markup=False)
                yield Static(id="how", markup=False)
                with VerticalScroll(id="surfaces"):
                    yield Static(id="surface", markup=False)
                yield Static(self._phrases.help, id="state", markup=False)
                yield self._box
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to follow."""
        self._box.focus()
        self._link.start()

    def on_unmount(self) -> None:
        """Leave the daemon, with what is being written kept."""
        self._keep_draft()
        self._link.stop()

    # --- what comes from the daemon ---

    def _from_link(self, news: News | HostEvent) -> None:
        self.call_from_thread(self._take, news)

    def _take(self, news: News | HostEvent) -> None:
        match news:
            case HostEvent():
                self.board.apply(news.number, news.at, news.conversation_id, news.kind, news.data)
                self._note_end(news)
                if self.conversation_id is None:
                    self._show(news.conversation_id, None)
            case Listings(interactions, surfaces, focus, instances, timeline):
                self.board.fill(
                    interactions=interactions, surfaces=surfaces, focus=focus, instances=instances, timeline=timeline
                )
                if self.conversation_id is None and (liveliest := self.board.liveliest) is not None:
                    self._show(liveliest, None)
            case HostReady(attached):
                self.board.follow(attached.stream)
                self._rest()
            case Lost():
                self._say(self._phrases.gone)
            case Failed():
                self._note_failure(news)
        self._redraw()

    def _note_end(self, event: HostEvent) -> None:
        """Say how the question on the screen ended, if it was not this shell that ended it."""
        record: Mapping[str, Any] = event.data.get("interaction") or {}
        if not record or record["status"] in OPEN:
            return
        key, phrases = str(record["interaction_id"]), self._phrases
        said = phrases.answered_first_with if record["status"] == "completed" else phrases.ended
        words = said.format(
            title=neutral(str(record["request"]["title"]), limit=_QUOTED),
            outcome=neutral(outcome(record, phrases), limit=_QUOTED),
        )
        if key in self._answering:
            self._answering[key] = words
        elif key == self.question_id and not _needs_no_answer(record):
            self._say(words, stays=True)

    def _note_failure(self, failed: Failed) -> None:
        ended = None if failed.about is None else self._answering.pop(failed.about, None)
        if failed.code == RejectionCode.INTERACTION_ALREADY_FINAL:
            self._say(ended or self._phrases.answered_first, stays=True)
            return
        self._say(neutral(failed.why), stays=True)
        if failed.about is not None and failed.about == self.question_id and self.form is not None:
            self.form.again()
            self._put(self.form.text)

    @property
    def _one(self) -> Conversation | None:
        return None if self.conversation_id is None else self.board.of(self.conversation_id)

    @property
    def question(self) -> Question | None:
        """The one that is open on the screen."""
        one = self._one
        return None if one is None or self.question_id is None else one.questions.get(self.question_id)

    # --- what is on the screen, and what the line is for ---

    @property
    def _target(self) -> Target:
        question = self.question
        talks = question is None or self._talks or question.record["kind"] == "notice"
        return self.conversation_id, None if talks else self.question_id

    def _show(self, conversation_id: str, question: Question | None, *, by_person: bool = False) -> None:
        """Put a conversation, and a question of it, on the screen.

        A line that was begun for another question, or by the person's wish for anything else, leaves the box and is
        back with it, if that can still be answered. Words for the agent stay in the box when a question comes up.
        """
        self._note_line()
        self._keep_draft()
        line, was_for, came_from = self._box.value, self._line_is_for, self.conversation_id
        self.question_id, self.form = None if question is None else question.id, None
        self._talks, self._was_chosen = False, by_person
        if conversation_id != came_from:
            self._show_conversation(conversation_id)
        if not self._stays:
            self._rest()
        if question is not None and question.record["kind"] == "input":
            self.form = Form(question.record["request"]["fields"], question.draft or {}, self._phrases)
        if line and was_for[0] is None:
            self._line_is_for = conversation_id, None
        elif line and (was_for[1] is not None or by_person or was_for[0] != conversation_id):
            self._take_out(line, was_for, by_person=by_person)
        if not self._box.value:
            self._put(self._unfinished())

    def _show_conversation(self, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self._link.do(lambda session: session.show(conversation_id))
        self.query_one("#timeline", RichLog).clear()
        one = self.board.of(conversation_id)
        self._drawn = one.lines - len(one.timeline)

    def _take_out(self, line: str, was_for: Target, *, by_person: bool) -> None:
        conversation_id, question_id = was_for
        asked = None if question_id is None else self.board.of(str(conversation_id)).questions.get(question_id)
        if question_id is not None and asked is None:
            self._say_too(self._phrases.set_aside.format(line=neutral(line, limit=_QUOTED)), stays=True)
        elif asked is None or asked.record["kind"] != "input":  # what an input has is in its draft
            self._lines[was_for] = line
        if not by_person:
            self._displaced_at = time.monotonic()
        self._put("")

    def _unfinished(self) -> str:
        """What was begun, or kept, for what is on the screen."""
        if self.form is not None and not self._talks:
            return self.form.text
        return self._lines.pop(self._target, "")

    def _put(self, text: str) -> None:
        """Write into the box, for what is on the screen."""
        self._was, self._line_is_for = text, self._target
        self._in_doubt = time.monotonic() - self._displaced_at < _DOUBT_S
        self._box.value = text
        self._box.cursor_position = len(text)

    def _note_line(self) -> None:
        """Note what a line is begun for, and keep what is being written into a field."""
        value = self._box.value
        if value and not self._was:
            self._line_is_for = self._target
            self._in_doubt = time.monotonic() - self._displaced_at < _DOUBT_S
        is_for = self._line_is_for if value else self._target
        if value != self._was and self.question_id is not None and is_for == (self.conversation_id, self.question_id):
            self._hold(value)
        self._was = value

    def _hold(self, value: str) -> None:
        if self.form is None or self.question_id is None:
            return
        self.form.hold(value)
        self._draft_due = self.question_id, self.form.draft
        if self._draft_timer is not None:
            self._draft_timer.stop()
        self._draft_timer = self.set_timer(_DRAFT_AFTER_S, self._keep_draft)

    def _keep_draft(self) -> None:
        if self._draft_due is None:
            return
        (question_id, values), self._draft_due = self._draft_due, None
        for one in self.board.conversations.values():
            if question_id in one.questions:
                one.questions[question_id] = replace(one.questions[question_id], draft=values)
        # By the clock, for a draft of this shell is newer than those of shells before it.
        sequence = self._drafts = max(self._drafts + 1, int(time.time() * 1000))
        self._link.do(lambda session: session.draft(question_id, sequence, values), quiet=True)

    # --- drawing ---

    def _write_new(self, one: Conversation) -> None:
        if one.lines == self._drawn:
            return
        log = self.query_one("#timeline", RichLog)
        for line in list(one.timeline)[self._drawn - one.lines :]:
            log.write(drawn_line(line, self._phrases))
        self._drawn = one.lines

    def _redraw(self) -> None:
        one, phrases = self._one, self._phrases
        self.sub_title = self.conversation_id or phrases.no_conversation
        if one is None:
            return
        self._write_new(one)
        self._choose(one)
        question = self.question
        if question is not None and question.id not in self._seen:
            self._seen.add(question.id)
            self._link.do(lambda session: session.presented(question.id), quiet=True)
        self._list("conversations", [(name, name == self.conversation_id) for name in self.board.conversations])
        front = one.front.instance_id if one.front else None
        apps = [
            (
                f"{one.titles.get(key, key)} - {phrases.word(state)}"
                + (f" - {phrases.hangs}" if key in one.hanging else ""),
                key == front,
            )
            for key, state in one.states.items()
        ]
        self._list("apps", apps)
        self._list("questions", [(f"{q.asker}: {q.title}", q.id == self.question_id) for q in one.questions.values()])
        self.query_one("#who", Static).update(drawn_asker(question, phrases) if question else "")
        self.query_one("#question", Static).update(drawn_question(question, self.form) if question else "")
        self.query_one("#surface", Static).update(drawn_surfaces(one, phrases))
        self._draw_how()

    def _draw_how(self) -> None:
        question, how = self.question, ""
        if question is not None:
            is_for = self._line_is_for if self._box.value else self._target
            is_talk = is_for[1] is None and (self._talks or bool(self._box.value))
            how = self._phrases.talking if is_talk else how_to_answer(question.record, self.form, self._phrases)
        self.query_one("#how", Static).update(how)

    def _list(self, name: str, rows: list[tuple[str, bool]]) -> None:
        view = self.query_one(f"#{name}", ListView)
        view.clear()
        for text, marked in rows:
            view.append(ListItem(Label(Text(("> " if marked else "  ") + neutral(text, limit=60)))))

    def _choose(self, one: Conversation) -> None:
        """Open what has to be open: first of all a question of the runtime that was not seen yet."""
        asked = next((each for each in one.questions.values() if each.by_runtime and each.id not in self._seen), None)
        question = self.question
        if asked is not None and not (question is not None and question.by_runtime):
            if self._box.value:
                self._tell_to_wait(asked)
            else:
                if question is not None:
                    self._before = question.id, self._was_chosen
                    self._displaced_at = time.monotonic()
                self._show(one.conversation_id, asked)
                return
        if question is None or not (self._was_chosen or _is_opened(one, question)):
            self._open_next(one)

    def _tell_to_wait(self, asked: Question) -> None:
        if asked.id not in self._told_to_wait:
            self._told_to_wait.add(asked.id)
            self._say(self._phrases.waits.format(who=asked.asker))

    def _open_next(self, one: Conversation) -> None:
        """Open the first question that may be opened: one of an app behind another is only listed."""
        before, chosen = self._before or ("", False)
        self._before = None
        question = one.questions.get(before)
        if question is not None and (chosen or _is_opened(one, question)):
            self._show(one.conversation_id, question, by_person=chosen)
            return
        waits = bool(self._box.value)
        question = next(
            (
                each
                for each in one.questions.values()
                if _is_opened(one, each) and not (waits and each.by_runtime and each.id not in self._seen)
            ),
            None,
        )
        if question is not None or self.question_id is not None:
            self._show(one.conversation_id, question)

    def _say(self, text: str, *, stays: bool = False) -> None:
        self._said, self._stays = text, stays
        self.query_one("#state", Static).update(text)

    def _say_too(self, text: str, *, stays: bool = False) -> None:
        self._say(f"{self._said}\n{text}" if self._stays else text, stays=stays)

    def _rest(self) -> None:
        self._say(self._phrases.help)

    # --- what the person does ---

    def on_input_changed(self) -> None:
        """Note it; and what waited for an empty box comes up."""
        self._note_line()
        if self._box.value:
            self._draw_how()
        else:
            self._redraw()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """An answer to the question that the line was begun for, or words for the agent."""
        self._note_line()
        line = submitted.value
        if not self._box.value.startswith(line) or not (line or self.question):
            return  # it was taken out of the box before this was heard of
        if line and self._in_doubt:
            self._in_doubt = False
            self._say_too(self._phrases.changed)
            return
        conversation_id, question_id = self._line_is_for if line else self._target
        self._rest()
        question = self.question
        if conversation_id is None:
            self._say(self._phrases.no_conversation)
        elif question is not None and (question_id == question.id or not (line or self._talks)):
            self._try(question, line)
        elif line:
            self._talks = False
            self._sent(line)
            self._link.do(lambda session: session.text(conversation_id, line))
        self._redraw()

    def _sent(self, line: str) -> None:
        """Empty the box of `line`, but not of what was typed after it."""
        self._put(self._box.value.removeprefix(line) or self._unfinished())

    def _try(self, question: Question, line: str) -> None:
        try:
            answer = self._answer(question, line)
        except NotAnAnswer as error:
            self._say(str(error))
            return
        self._sent(line)
        if answer is None:
            self._hold(self._box.value)
            self._keep_draft()
        else:
            self._draft_due = None
            self._answering = {question.id: None}
            self._link.do(lambda session: session.answer(question.id, answer), about=question.id)

    def _answer(self, question: Question, line: str) -> dict[str, Any] | None:
        """The whole answer, or None while fields are left."""
        if self.form is None:
            return typed_answer(question.record, line, self._phrases)
        values = self.form.finish(line)
        return None if values is None else {"values": values}

    def on_key(self, event: Key) -> None:
        """What is typed goes into the box, wherever the focus is."""
        if event.is_printable and event.character and not self._box.has_focus:
            self.screen.set_focus(self._box)
            self._box.insert_text_at_cursor(event.character)
            event.stop()

    def on_resize(self, resized: Resize) -> None:
        """Where there is little room, the question and the line come first."""
        self.query_one("#side").display = resized.size.width >= _ROOM_FOR_SIDE
        self.query_one("#surfaces").display = resized.size.height >= _ROOM_FOR_SURFACES
        self.query_one("#timeline").display = resized.size.height >= _ROOM_FOR_TIMELINE

    async def action_quit(self) -> None:
        """Leave."""
        self._note_line()
        await super().action_quit()

    def action_scroll_card(self, pages: int) -> None:
        """Scroll the question, or the timeline if there is none."""
        what = self.query_one("#timeline" if self.question is None else "#asked")
        what.scroll_relative(y=pages * max(1, what.size.height - 1), animate=False)

    def action_field_before(self) -> None:
        """Go back to the field before."""
        self._note_line()
        if self.form is not None and not self._talks and self.form.back():
            self._put(self.form.text)
            self._redraw()

    def action_next_question(self) -> None:
        """Go round the questions of this conversation, those of apps in the background too."""
        one = self._one
        if one is None or not one.questions:
            return
        ids = list(one.questions)
        at = ids.index(self.question_id) + 1 if self.question_id in ids else 0
        self._show(one.conversation_id, one.questions[ids[at % len(ids)]], by_person=True)
        self._redraw()

    def action_talk(self) -> None:
        """Talk to the agent though a question is open, or go back to the question."""
        self._note_line()
        self._talks = not self._talks
        self._line_is_for = self._target
        self._hold("" if self._talks else self._box.value)
        self._redraw()

    def action_dismiss(self) -> None:
        """Clear the line; if it is empty, do not answer."""
        question = self.question
        if self._box.value:
            self._box.value = ""
            self._note_line()
            self._say(self._phrases.help if question is None else self._phrases.cleared)
            self._redraw()
        elif question is not None:
            self._answering = {question.id: None}
            self._link.do(lambda session: session.dismiss(question.id), about=question.id)

    def action_next_conversation(self) -> None:
        """Go round the conversations."""
        names = list(self.board.conversations)
        if names:
            at = names.index(self.conversation_id) + 1 if self.conversation_id in names else 0
            self._show(names[at % len(names)], None, by_person=True)
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
        """Close the app in front, whatever it says: asked for twice, for nothing brings it back."""
        one = self._one
        if one is None or one.front is None:
            return
        now_s, (instance_id, asked_s) = time.monotonic(), self._force or ("", 0.0)
        if instance_id == one.front.instance_id and now_s - asked_s <= _FORCE_WITHIN_S:
            self._force = None
            self._rest()
            self._act_on_front("force_close")
            return
        asked = self._force = one.front.instance_id, now_s
        self._say(self._phrases.force.format(title=one.front.title), stays=True)
        self.set_timer(_FORCE_WITHIN_S, lambda: self._forget(asked))

    def _forget(self, asked: tuple[str, float]) -> None:
        if self._force == asked:
            self._force = None
            self._rest()

    def _act_on_front(self, action: Literal["close", "force_close"]) -> None:
        one = self._one
        if one is not None and one.front is not None:
            instance_id = one.front.instance_id
            self._link.do(lambda session: session.act(instance_id, action))


def make_shell(session: HostSession, on_screen: str | None) -> Shell:
    """The screen on a session that is not attached yet, in the language of the person's locale."""
    return Shell(lambda tell: Link(session, tell), on_screen, phrases_of(os.environ))


def _needs_no_answer(record: Mapping[str, Any]) -> bool:
    return record["kind"] == "notice" and not record["request"].get("acknowledge_label")


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
