"""What the keys of the shell do and what its screen says: the shell alone, with somebody who notes what it wishes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import pytest
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.widgets import Footer, Input, ListView, Static

from runtime_actors.contract.host import HostEvent
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.terminal.app import Shell
from runtime_actors.terminal.link import Failed
from runtime_actors.terminal.phrases import CHINESE, ENGLISH, Phrases

if TYPE_CHECKING:
    from textual.pilot import Pilot

AT: Final = "2026-11-30T12:00:00.000Z"
CONFIRM: Final = {"kind": "confirm", "title": "Close?", "prompt": "It is not done."}
NOTICE: Final = {"kind": "notice", "title": "Read", "message": "This.", "acknowledge_label": "ok"}
CHOICE: Final = {
    "kind": "choice",
    "title": "Which?",
    "prompt": "",
    "mode": "single-choice",
    "actions": [{"id": f"a{number}", "label": f"Action {number}"} for number in range(64)],
}
INPUT: Final = {
    "kind": "input",
    "title": "Who?",
    "prompt": "",
    "fields": [
        {"id": "name", "label": "Name", "type": "text", "required": True, "min_length": 2, "max_length": 40},
        {"id": "age", "label": "Age", "type": "number", "minimum": 0, "maximum": 120},
    ],
}
WIDE: Final = (120, 50)
SMALL: Final = (80, 24)
TINY: Final = (40, 12)


class Noted:
    """In the place of a session: notes what is done."""

    def __init__(self) -> None:
        self.did: list[tuple[Any, ...]] = []

    def __getattr__(self, word: str) -> Callable[..., None]:
        return lambda *given: self.did.append((word, *given))

    def of(self, *words: str) -> list[tuple[Any, ...]]:
        return [one for one in self.did if one[0] in words]


class Desk:
    """A shell in a conversation with the app Tasks in front, and who plays its daemon."""

    def __init__(self, phrases: Phrases) -> None:
        self.session = Noted()
        self.shell = Shell(lambda _tell: self, "c1", phrases)  # type: ignore[arg-type, return-value]
        self._number = 0

    def start(self) -> None:
        """As of a link."""

    def stop(self) -> None:
        """As of a link."""

    def do(self, wish: Callable[[Any], object], **_about: object) -> None:
        wish(self.session)

    def happens(self, kind: Any, **data: Any) -> None:  # noqa: ANN401 - an event
        self._number += 1
        self.shell._take(HostEvent(number=self._number, at=AT, conversation_id="c1", kind=kind, data=data))

    def asks(self, key: str, request: dict[str, Any], source: str = "miniapp_tool", **more: Any) -> None:  # noqa: ANN401
        self.happens("interaction.opened", interaction=record(key, request, source), app_title="Tasks", **more)

    def ends(self, key: str, request: dict[str, Any], status: str = "completed", **result: object) -> None:
        ended = record(key, request) | {"status": status, "result": result}
        self.happens("interaction.changed", interaction=ended, app_title="Tasks")

    @property
    def box(self) -> Input:
        return self.shell.query_one("#line", Input)

    def shown(self, name: str) -> str:
        return str(self.shell.query_one(f"#{name}", Static).content)


def record(key: str, request: dict[str, Any], source: str = "miniapp_tool") -> dict[str, Any]:
    owner = {"app_scope": "tasks", "instance_id": "ins-1", "conversation_id": "c1", "source": source}
    return {
        "interaction_id": key,
        "owner": owner,
        "kind": request["kind"],
        "request": request,
        "status": "pending",
        "created_at": AT,
        "updated_at": AT,
    }


Story = Callable[[Desk, "Pilot[None]"], Awaitable[None]]


def play(story: Story, size: tuple[int, int] = WIDE, phrases: Phrases = ENGLISH) -> None:
    async def telling() -> None:
        desk = Desk(phrases)
        async with desk.shell.run_test(size=size) as pilot:
            app = {"instance_id": "ins-1", "app_scope": "tasks", "app_title": "Tasks"}
            desk.happens("focus.changed", stack=[app])
            await story(desk, pilot)

    asyncio.run(telling())


async def typed(pilot: Pilot[None], words: str) -> None:
    await pilot.press(*words, "enter")


async def until(pilot: Pilot[None], look: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not look():
            await pilot.pause(0.02)


# --- who answered first ---


@pytest.mark.parametrize(("phrases", "says"), [(ENGLISH, "somebody else answered first"), (CHINESE, "别人已先回答")])
def test_a_late_answer_is_told_that_somebody_else_answered_first(phrases: Phrases, says: str) -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CONFIRM)
        await typed(pilot, "yes")
        desk.ends("q1", CONFIRM, approved=False)
        desk.shell._take(Failed("late", "q1", RejectionCode.INTERACTION_ALREADY_FINAL))
        assert says in desk.shown("state")

        desk.asks("q2", CONFIRM)
        assert says in desk.shown("state")
        await typed(pilot, "yes")
        desk.shell._take(Failed("late", "q2", RejectionCode.INTERACTION_ALREADY_FINAL))
        desk.ends("q2", CONFIRM, approved=False)
        assert says in desk.shown("state")

    play(story, phrases=phrases)


def test_a_question_that_ends_before_it_was_answered_says_how() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CONFIRM)
        await pilot.pause()
        desk.ends("q1", CONFIRM, "expired")
        assert "Close?: expired" in desk.shown("state")

        desk.asks("q2", CONFIRM)
        await typed(pilot, "no")
        desk.ends("q2", CONFIRM, approved=False)
        assert desk.shown("state") == ENGLISH.help

    play(story)


def test_an_answer_that_is_entered_as_its_question_ends_is_not_said_to_the_agent() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CONFIRM)
        await pilot.press(*"yes")
        entered = Input.Submitted(desk.box, "yes")
        desk.ends("q1", CONFIRM, approved=False)
        desk.shell.on_input_submitted(entered)
        await pilot.press("enter")
        assert not desk.session.of("text", "answer")
        assert "somebody else answered first: Close?: no" in desk.shown("state")

    play(story)


# --- drafts ---


def test_what_is_being_typed_is_kept_a_moment_after_the_last_key() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", INPUT)
        await typed(pilot, "Ada")
        await pilot.press(*"3")
        assert [one[3] for one in desk.session.of("draft")] == [{"name": "Ada"}]
        await until(pilot, lambda: len(desk.session.of("draft")) > 1)
        first, second = desk.session.of("draft")
        assert second[3] == {"name": "Ada", "age": "3"}
        assert second[2] > first[2]

    play(story)


def test_what_is_being_typed_is_kept_when_the_shell_is_left() -> None:
    desks: list[Desk] = []

    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desks.append(desk)
        desk.asks("q1", INPUT)
        await pilot.press(*"Ad", "ctrl+q")

    play(story)

    assert [one[3] for one in desks[0].session.of("draft")] == [{"name": "Ad"}]


def test_each_question_has_its_own_half_line() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", INPUT)
        desk.asks("q2", CONFIRM)
        await pilot.press(*"Ad", "f2")
        assert desk.box.value == ""
        assert [one[1:4:2] for one in desk.session.of("draft")] == [("q1", {"name": "Ad"})]
        await pilot.press(*"ye", "f2")
        assert desk.box.value == "Ad"
        await pilot.press("f2")
        assert desk.box.value == "ye"

    play(story)


def test_a_draft_is_restored_into_the_field_in_which_it_was_left() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", INPUT, draft={"name": "Ada", "age": 36})
        await pilot.pause()
        assert desk.box.value == "36"
        assert "Name: Ada" in desk.shown("question")
        await pilot.press("enter")
        assert desk.session.of("answer") == [("answer", "q1", {"values": {"name": "Ada", "age": 36}})]

    play(story)


# --- escape, and lines that were begun for something else ---


def test_escape_clears_the_line_first_and_then_dismisses() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CONFIRM)
        await pilot.press(*"ye", "escape")
        assert desk.box.value == ""
        assert not desk.session.of("dismiss")
        await pilot.press("escape")
        assert desk.session.of("dismiss") == [("dismiss", "q1")]

    play(story)


def test_a_half_typed_answer_is_no_part_of_what_is_said_to_the_agent() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CONFIRM)
        await pilot.press(*"ye")
        desk.ends("q1", CONFIRM, approved=False)
        assert desk.box.value == ""
        assert "not sent: “ye”" in desk.shown("state")
        await typed(pilot, "s")  # so soon that it may still be meant for the question
        assert not desk.session.of("text")
        await pilot.press("escape")
        desk.shell._displaced_at = float("-inf")
        await typed(pilot, "hello")
        assert desk.session.of("text", "answer") == [("text", "c1", "hello")]

    play(story)


def test_a_key_goes_into_the_box_wherever_the_focus_is() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        await pilot.press(*"ab")
        desk.shell.query_one("#apps", ListView).focus()
        await pilot.pause()
        await typed(pilot, "cd")
        assert desk.session.of("text") == [("text", "c1", "abcd")]

    play(story)


# --- force ---


@pytest.mark.parametrize("phrases", [ENGLISH, CHINESE])
def test_closing_by_force_is_asked_for_twice_within_three_seconds(phrases: Phrases) -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        await pilot.press("f9")
        assert desk.shown("state") == phrases.force.format(title="Tasks")
        await until(pilot, lambda: desk.shown("state") == phrases.help)
        await pilot.press("f9")
        assert not desk.session.of("act")
        await pilot.press("f9")
        assert desk.session.of("act") == [("act", "ins-1", "force_close")]

    play(story, phrases=phrases)


# --- room ---


@pytest.mark.parametrize("phrases", [ENGLISH, CHINESE])
@pytest.mark.parametrize(("size", "keys"), [(SMALL, 8), (TINY, 4)])
def test_the_keys_fit_the_footer(phrases: Phrases, size: tuple[int, int], keys: int) -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        footer = desk.shell.query_one(Footer)
        await until(pilot, lambda: len(footer.children) == 8)
        await pilot.pause()
        seen = [key for key in footer.children if Region(0, 0, *size).contains_region(key.region)]
        assert len(seen) >= keys

    play(story, size, phrases)


def test_what_the_status_line_says_wraps_to_a_second_line() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.shell._say(ENGLISH.changed)
        await pilot.pause()
        state = desk.shell.query_one("#state")
        assert state.size.height == 2
        assert state.size.width * 2 > len(ENGLISH.changed)

    play(story, SMALL)


def test_a_long_question_is_scrolled_from_the_box_and_says_all_the_time_who_asks() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CHOICE)
        await pilot.pause()
        card, who = desk.shell.query_one("#asked", VerticalScroll), desk.shell.query_one("#who")
        await pilot.press("pagedown", "pagedown")
        assert card.scroll_y > card.size.height
        assert who.region.height
        assert desk.shown("who") == "Tasks (tasks) asks"
        await pilot.press("pageup", "pageup")
        assert card.scroll_y == 0

    play(story, SMALL)


# --- notices and fields ---


def test_words_typed_at_a_notice_are_for_the_agent_and_an_empty_line_acknowledges() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", NOTICE)
        await pilot.press(*"wait")
        assert desk.shown("how") == ENGLISH.talking
        await pilot.press("enter")
        assert desk.session.of("text", "answer") == [("text", "c1", "wait")]
        await pilot.press("enter")
        assert desk.session.of("answer") == [("answer", "q1", {"acknowledged": True})]

    play(story)


@pytest.mark.parametrize(
    ("phrases", "limits", "wrong"),
    [
        (ENGLISH, "Name (needed, 2 to 40 characters)", "Name: 2 to 40 characters"),
        (CHINESE, "Name (必填, 2 到 40 个字符)", "Name：2 到 40 个字符"),  # noqa: RUF001 - Chinese
    ],
)
def test_limits_are_shown_before_and_what_breaks_them_stays_in_the_box(
    phrases: Phrases, limits: str, wrong: str
) -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", INPUT)
        assert limits in desk.shown("how")
        await typed(pilot, "A")
        assert desk.shown("state") == wrong
        assert desk.box.value == "A"

    play(story, phrases=phrases)


def test_up_goes_back_to_the_field_before_and_loses_nothing() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", INPUT)
        await typed(pilot, "Ada")
        assert "Name: Ada" in desk.shown("question")
        assert "Age (may be empty, a number, 0 to 120)" in desk.shown("how")
        assert ENGLISH.back in desk.shown("how")
        await pilot.press(*"3", "up")
        assert desk.box.value == "Ada"
        await typed(pilot, "h")
        assert desk.box.value == "3"
        await typed(pilot, "6")
        assert desk.session.of("answer") == [("answer", "q1", {"values": {"name": "Adah", "age": 36}})]

    play(story)


# --- questions of the runtime ---


def test_a_question_of_the_runtime_comes_up_in_front_and_names_the_runtime_everywhere() -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CONFIRM)
        desk.asks("q2", CONFIRM | {"title": "Allow?"}, "runtime_policy")
        assert desk.shell.question_id == "q2"
        assert desk.shown("who") == "LineUp Runtime (Tasks) asks"
        assert desk.shell.board.of("c1").timeline[-1].who == "LineUp Runtime (Tasks)"
        await pilot.pause()
        rows = [str(one.content) for one in desk.shell.query("#questions Label").results(Static)]
        assert rows == ["  Tasks: Close?", "> LineUp Runtime (Tasks): Allow?"]

        desk.ends("q2", CONFIRM, approved=True)
        assert desk.shell.question_id == "q1"

    play(story)


@pytest.mark.parametrize("phrases", [ENGLISH, CHINESE])
def test_a_question_of_the_runtime_waits_while_a_line_is_half_typed(phrases: Phrases) -> None:
    async def story(desk: Desk, pilot: Pilot[None]) -> None:
        desk.asks("q1", CONFIRM)
        await pilot.press(*"ye")
        desk.asks("q2", CONFIRM | {"title": "Allow?"}, "runtime_policy")
        assert desk.shell.question_id == "q1"
        assert desk.shown("state") == phrases.waits.format(who="LineUp Runtime (Tasks)")
        await typed(pilot, "s")
        await until(pilot, lambda: desk.shell.question_id == "q2")
        assert desk.session.of("answer") == [("answer", "q1", {"approved": True})]

    play(story, phrases=phrases)
