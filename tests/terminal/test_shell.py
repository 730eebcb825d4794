"""The shell on a real daemon: what an agent asks is on the screen, and what the person types reaches the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Input, Static

from runtime_actors.client import door_of
from runtime_actors.client.host import HostSession
from runtime_actors.terminal.app import Shell, make_shell
from tests.e2e.daemon import short_folder
from tests.faults.world import World

if TYPE_CHECKING:
    from textual.pilot import Pilot

CONFIRM = {"title": "Deploy?", "prompt": "To everybody."}
FIELDS = {
    "title": "Who?",
    "prompt": "",
    "fields": [
        {"id": "name", "label": "Name", "type": "text", "required": True},
        {"id": "age", "label": "Age", "type": "number"},
    ],
}
LIMIT_S = 20.0


@pytest.fixture
def world() -> Iterator[World]:
    with short_folder() as folder:
        world = World(folder / "s")
        world.start()
        yield world
        world.close()


def play(world: World, story: Callable[[Shell, Pilot[None]], Awaitable[None]], conversation: str | None = "c1") -> None:
    """Tell a story to a shell that is attached to the daemon."""

    async def telling() -> None:
        shell = make_shell(HostSession(door_of(world.daemon.state, "host"), "shell", surfaces=True), conversation)
        async with shell.run_test(size=(120, 50)) as pilot:
            await story(shell, pilot)

    asyncio.run(telling())


async def until(pilot: Pilot[None], what: str, look: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not look():
            await pilot.pause(0.02)
    assert look(), what


async def typed(pilot: Pilot[None], words: str) -> None:
    await pilot.press(*words, "enter")


def said(shell: Shell) -> str:
    return str(shell.query_one("#state", Static).content)


def in_background(do: Callable[[], object]) -> Coroutine[Any, Any, object]:
    return asyncio.to_thread(do)


def test_a_question_of_an_agent_is_answered_by_keyboard(world: World) -> None:
    with world.agent() as agent:
        key = agent.invoke_with("chat.confirm", CONFIRM)

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            assert shell.question is not None
            assert shell.question.app_title
            await typed(pilot, "maybe")
            assert shell.query_one("#line", Input).value == "maybe"
            await pilot.press("escape")
            assert shell.question is not None
            await typed(pilot, "yes")
            await until(pilot, "its end", lambda: shell.question is None)

        play(world, story)

        assert agent.final(key)["result"] == {"approved": True}


def test_the_fields_of_an_input_are_filled_in_one_after_the_other(world: World) -> None:
    with world.agent() as agent:
        key = agent.invoke_with("chat.input", FIELDS)

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            await typed(pilot, "Ada")
            await typed(pilot, "36")
            await until(pilot, "its end", lambda: shell.question is None)

        play(world, story)

        assert agent.final(key)["result"] == {"values": {"name": "Ada", "age": 36}}


def test_what_was_written_into_an_input_is_there_for_the_next_shell(world: World) -> None:
    with world.agent() as agent:
        key = agent.invoke_with("chat.input", FIELDS)

        async def begin(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            await typed(pilot, "Ada")

        async def go_on(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            assert shell.question is not None
            assert shell.question.draft == {"name": "Ada"}
            assert shell.query_one("#line", Input).value == "Ada"
            await typed(pilot, "")
            await typed(pilot, "36")
            await until(pilot, "its end", lambda: shell.question is None)

        play(world, begin)
        play(world, go_on)

        assert agent.final(key)["result"] == {"values": {"name": "Ada", "age": 36}}


def test_a_field_that_is_half_typed_when_the_shell_is_left_is_there_for_the_next_shell(world: World) -> None:
    with world.agent() as agent:
        key = agent.invoke_with("chat.input", FIELDS)

        async def begin(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            await typed(pilot, "Ada")
            await pilot.press(*"3", "ctrl+q")

        async def go_on(shell: Shell, pilot: Pilot[None]) -> None:
            line = shell.query_one("#line", Input)
            await until(pilot, "the second field", lambda: line.value == "3")
            await pilot.press("ctrl+u", *"4", "ctrl+q")

        async def end(shell: Shell, pilot: Pilot[None]) -> None:
            line = shell.query_one("#line", Input)
            await until(pilot, "what the second shell kept", lambda: line.value == "4")
            await typed(pilot, "2")
            await until(pilot, "its end", lambda: shell.question is None)

        for story in (begin, go_on, end):
            play(world, story)

        assert agent.final(key)["result"] == {"values": {"name": "Ada", "age": 42}}


def test_of_two_answers_the_later_one_is_told_that_it_is(world: World) -> None:
    with world.agent() as agent:
        key = agent.invoke_with("chat.confirm", CONFIRM)

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            await pilot.press(*"yes")
            answer_elsewhere(world, "Deploy?")
            await pilot.press("enter")
            await until(pilot, "the news", lambda: "somebody else answered first" in said(shell))
            await until(pilot, "its end", lambda: shell.question is None)
            assert "somebody else answered first" in said(shell)

        play(world, story)

        assert agent.final(key)["result"] == {"approved": False}


def test_the_timeline_is_there_again_in_the_next_shell(world: World) -> None:
    with world.agent() as agent:
        key = agent.invoke_with("chat.confirm", CONFIRM)
        seen: list[list[str]] = []

        async def begin(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            await typed(pilot, "yes")
            await until(pilot, "its end", lambda: shell.question is None)
            seen.append([line.text for line in shell.board.of("c1").timeline])

        async def look(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the timeline", lambda: shell.board.of("c1").timeline)
            await typed(pilot, "thanks")
            lines = shell.board.of("c1").timeline
            await until(pilot, "the line", lambda: lines[-1].text == "thanks")
            seen.append([line.text for line in lines])

        play(world, begin)
        assert agent.final(key)["result"] == {"approved": True}
        play(world, look)

    first, second = seen
    assert second[-len(first) - 1 :] == [*first, "thanks"]


def test_a_dismissed_question_is_cancelled(world: World) -> None:
    with world.agent() as agent:
        key = agent.invoke_with("chat.input", FIELDS)

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            await pilot.press("escape")
            await until(pilot, "its end", lambda: shell.question is None)

        play(world, story)

        assert agent.final(key)["status"] == "cancelled"


def test_a_line_that_was_begun_for_another_question_answers_nothing(world: World) -> None:
    with world.agent() as agent:
        first = agent.invoke_with("chat.confirm", CONFIRM)
        agent.accepted(first)
        second = agent.invoke_with("chat.confirm", CONFIRM | {"title": "Delete?"})
        agent.accepted(second)

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the questions", lambda: len(shell.board.of("c1").questions) == 2)
            await until(pilot, "the first", lambda: shell.question is not None and shell.question.title == "Deploy?")
            await pilot.press(*"yes")
            await in_background(lambda: answer_elsewhere(world, "Deploy?"))
            await until(pilot, "the second", lambda: shell.question is not None and shell.question.title == "Delete?")
            assert shell.query_one("#line", Input).value == ""
            assert "Deploy?: no" in said(shell)
            assert "yes" in said(shell)
            await pilot.press("enter")
            await typed(pilot, "yes")  # so soon that it may be meant for the first
            await pilot.pause(0.3)
            assert shell.question is not None
            assert shell.query_one("#line", Input).value == "yes"

        play(world, story)

        assert agent.final(first)["result"] == {"approved": False}
        assert agent.get(second)[1]["call"]["status"] == "running"


def answer_elsewhere(world: World, title: str) -> None:
    with HostSession(door_of(world.daemon.state, "host"), "other") as other:
        other.attach()
        rows = other.rows("interactions")
        asked = next(row["interaction"] for row in rows if row["interaction"]["request"]["title"] == title)
        other.answer(asked["interaction_id"], {"approved": False})


def test_words_for_the_agent_are_no_answer_to_a_question_that_comes_up_meanwhile(world: World) -> None:
    with world.agent() as agent:
        agent.accepted(agent.invoke_with("chat.notice", {"title": "Hello", "message": "I am here."}))

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the conversation", lambda: "c1" in shell.board.conversations)
            await until(pilot, "no question", lambda: shell.question is None)
            await pilot.press(*"stop")
            notice = {"title": "Read", "message": "This.", "acknowledge_label": "ok"}
            await in_background(lambda: agent.accepted(agent.invoke_with("chat.notice", notice)))
            await until(pilot, "the notice", lambda: shell.question is not None)
            await pilot.press("enter")
            await until(pilot, "the line", lambda: any(line.who == "person" for line in shell.board.of("c1").timeline))
            assert shell.question is not None

        play(world, story)


def test_an_input_that_was_refused_begins_again_with_what_was_written(world: World) -> None:
    fields = [{"id": "name", "label": "Name", "type": "text"}, {"id": "x", "label": "X", "type": "text"}]
    with world.agent() as agent:
        key = agent.invoke_with("chat.input", {"title": "Who?", "prompt": "", "fields": fields})

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the question", lambda: shell.question is not None)
            await typed(pilot, "Ada")
            assert shell.form is not None
            shell.form.texts["name"] = "A\x1bB"  # what no terminal lets a person type, and the runtime refuses
            await typed(pilot, "y")
            line = shell.query_one("#line", Input)
            await until(pilot, "the first field again", lambda: line.value == "A\x1bB")
            line.value = ""
            await typed(pilot, "Ada")
            await typed(pilot, "")
            await until(pilot, "its end", lambda: shell.question is None)

        play(world, story)

        assert agent.final(key)["result"]["values"] == {"name": "Ada", "x": "y"}


def test_what_the_person_says_reaches_the_agent_and_the_timeline(world: World) -> None:
    with world.agent() as agent:
        agent.accepted(agent.invoke_with("chat.notice", {"title": "Hello", "message": "I am here."}))

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the conversation", lambda: "c1" in shell.board.conversations)
            await until(pilot, "no question", lambda: shell.question is None)
            await typed(pilot, "good morning")
            await until(pilot, "the line", lambda: any(line.who == "person" for line in shell.board.of("c1").timeline))

        play(world, story)

        agent.wait("the text", lambda: agent.texts)
        assert agent.texts == [("c1", "good morning")]


def test_a_shell_attaches_again_when_the_daemon_is_back(world: World) -> None:
    with world.agent() as agent:
        agent.attached()

        async def story(shell: Shell, pilot: Pilot[None]) -> None:
            await until(pilot, "the listings", lambda: shell.query_one("#state"))
            await in_background(world.daemon.kill)
            await in_background(world.start)
            await in_background(lambda: agent.accepted(agent.invoke_with("chat.confirm", CONFIRM)))
            await until(pilot, "the question", lambda: shell.question is not None)
            await typed(pilot, "no")
            await until(pilot, "its end", lambda: shell.question is None)

        play(world, story)
