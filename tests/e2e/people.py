"""Apps that deal with a person, for tests that play the person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.e2e.made_apps import a_tool, write_app

if TYPE_CHECKING:
    from pathlib import Path

ASKS: Final = """
async def main(sdk):
    @sdk.tools.handler("asker.go")
    async def go(call):
        question = {"kind": "confirm", "title": "Sure?", "prompt": call.input["text"]}
        ended = await sdk.ui.ask(question, parent_call_id=call.call_id, key="sure")
        return {"text": f"{ended.status}: {(ended.result or {}).get('approved')}"}

    await sdk.run_until_stopped()
"""
"""Asks the person, and says what became of it."""
HANGS: Final = """
import asyncio

async def main(sdk):
    @sdk.tools.handler("deaf.go")
    async def go(call):
        await sdk.inbox.acknowledge(call.message_id)
        await asyncio.Event().wait()

    async def ignore(action):
        await asyncio.Event().wait()

    sdk.actions.subscribe(ignore)
    await sdk.run_until_stopped()
"""
"""Takes calls over and never ends one, and never takes over what a person does."""


def asker(folder: Path) -> Path:
    """`asker.go` asks whether the person is sure."""
    tools = [a_tool("asker.go", "asker", timeout_ms=600_000)]
    return write_app(folder / "asker", "asker", ASKS, tools=tools)


def deaf(folder: Path) -> Path:
    """`deaf.go` runs for ever."""
    return write_app(folder / "deaf", "deaf", HANGS, tools=[a_tool("deaf.go", "deaf", timeout_ms=600_000)])
