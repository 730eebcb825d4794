"""The prompt of `lineup agent`.

The session lives in a thread of its own, which the prompt hands its lines to; so what arrives is shown while somebody
types, and the session reconnects without anybody's doing.
"""

from __future__ import annotations

import json
import queue
import shlex
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.patch_stdout import patch_stdout
from pydantic import ValidationError

from runtime_actors.cli.exits import code_of
from runtime_actors.cli.show import as_cell
from runtime_actors.client import (
    AgentSession,
    Attached,
    ClientError,
    Delivered,
    InventoryChanged,
    Lost,
    PersonSaid,
    SessionEvent,
    door_of,
    read_token,
)
from runtime_actors.contract.agent import ClientInventory
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.envelope import describe
from runtime_actors.contract.tools import CallState, ToolProgressDelivery
from runtime_actors.rules.text import neutral
from runtime_actors.simulator import SimulatedAgent

_WORDS: Final = {
    "call": "call TOOL {JSON}           call a tool; its progress and result are shown as they come",
    "cancel": "cancel ID                  say that an answer is wanted no longer",
    "show": "show ID                    read the present state of a call",
    "calls": "calls                      the calls of this prompt",
    "tools": "tools                      what can be called",
    "say": "say SCOPE TEXT             put a text into a MiniApp's inbox",
    "conversation": "conversation NAME          go on in another conversation",
    "help": "help                       this",
    "quit": "quit                       leave; what comes later waits for the next time",
}
_LOOK_S: Final = 0.05
_DRAIN_S: Final = 0.5


class Prompt:
    """Reads lines on the caller's thread: from a terminal with completion and history, otherwise plainly."""

    def __init__(self, state: Path, agent_name: str, conversation: str) -> None:
        self._state = state
        self._agent_name = agent_name
        session = AgentSession(door_of(state, "agent"), agent_name, read_token(state, agent_name))
        self._talk = _Talk(session, conversation)

    def run(self) -> int:
        """Talk until the end of the input, and return the exit code."""
        self._talk.start()
        if not self._talk.ready.wait(15.0) or self._talk.ended_by is not None:
            return self._end()
        if sys.stdin.isatty():
            self._read_terminal()
        else:
            for line in sys.stdin:
                self._talk.lines.put(line)
        return self._end()

    def _read_terminal(self) -> None:
        session: PromptSession[str] = PromptSession(
            history=FileHistory(str(self._state / f"history-{self._agent_name}")), completer=_Words(self._talk)
        )
        print("help lists the commands, Tab completes, Ctrl-D leaves.")  # noqa: T201 - a prompt speaks
        with patch_stdout():
            while self._talk.is_alive():
                try:
                    line = session.prompt(lambda: f"{self._agent_name}@{self._talk.conversation}> ")
                except KeyboardInterrupt:
                    continue
                except EOFError:
                    return
                if line.strip() in {"quit", "exit"}:
                    return
                self._talk.lines.put(line)

    def _end(self) -> int:
        self._talk.lines.put(None)
        self._talk.join(15.0)
        if self._talk.ended_by is not None:
            print(f"lineup: {self._talk.ended_by}", file=sys.stderr)  # noqa: T201
            return code_of(self._talk.ended_by)
        return 0


class _Talk(threading.Thread):
    """The session's thread: does what lines say, and shows what arrives."""

    def __init__(self, session: AgentSession, conversation: str) -> None:
        super().__init__(name="agent session", daemon=True)
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """Lines to be done; None ends the thread."""
        self.ready = threading.Event()
        """Attached, or ended."""
        self.ended_by: ClientError | None = None
        self.conversation = conversation
        self._session = session

    @property
    def inventory(self) -> ClientInventory | None:
        return self._session.inventory

    def run(self) -> None:
        try:
            with SimulatedAgent(self._session, on_event=self._show_event) as agent:
                self._session.attach()
                self.ready.set()
                self._serve(agent)
        except ClientError as error:
            self.ended_by = error
        finally:
            self.ready.set()

    def _serve(self, agent: SimulatedAgent) -> None:
        while True:
            agent.pump(_LOOK_S)
            try:
                line = self.lines.get_nowait()
            except queue.Empty:
                continue
            if line is None:
                while agent.pump(_DRAIN_S) is not None:
                    continue
                return
            if line.strip() in {"quit", "exit"}:
                return
            try:
                self._do(agent, line.strip())
            except ValidationError as error:
                _show(f"! {describe(error)}")
            except (ClientError, ValueError) as error:
                _show(f"! {neutral(str(error), lines=True)}")

    def _do(self, agent: SimulatedAgent, line: str) -> None:  # noqa: C901 - one case a command
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word:
            case "" | "#":
                return
            case "call":
                tool, _, given = rest.partition(" ")
                state = agent.invoke(tool, _object(given), conversation_id=self.conversation).call
                _show(f"  {state.call_id} {state.status}")
            case "cancel":
                state = agent.cancel(self.conversation, rest).call
                _show(f"  {state.call_id} {state.status}, cancel requested")
            case "show":
                _show_state(agent.get(self.conversation, rest).call)
            case "calls":
                for known in agent.calls.values():
                    _show_state(known.state)
            case "tools":
                for tool_ in self.inventory.tools if self.inventory else ():
                    _show(f"  {neutral(tool_.id):32} {neutral(tool_.title, limit=80)}")
            case "say":
                scope, _, text = rest.partition(" ")
                receipt = agent.say(text, conversation_id=self.conversation, app_scope=scope)
                _show(f"  {receipt.message_id} is in the inbox of {neutral(scope)}")
            case "conversation":
                self.conversation = shlex.split(rest)[0] if rest else self.conversation
                _show(f"  now in conversation {neutral(self.conversation)}")
            case _:
                _show("\n".join(f"  {told}" for told in _WORDS.values()))

    def _show_event(self, event: SessionEvent) -> None:
        if isinstance(event, Delivered):
            one = event.delivery
            if isinstance(one, ToolProgressDelivery):
                percent = "" if one.progress.percent is None else f" {one.progress.percent:g} %"
                _show(f"… {one.call_id}{percent} {neutral(one.progress.note or '', limit=200)}".rstrip())
            else:
                _show_state(one.call)
        elif isinstance(event, PersonSaid):
            _show(f"person: {neutral(event.said.text, limit=None)}")
        elif isinstance(event, Lost):
            _show("  connection lost; looking for the daemon")
        elif isinstance(event, Attached):
            _show("  attached")
        elif isinstance(event, InventoryChanged):
            _show(f"  {len(event.inventory.tools)} tools, inventory revision {neutral(event.inventory.revision)}")


class _Words(Completer):
    """Completes command words, tools, and app scopes."""

    def __init__(self, talk: _Talk) -> None:
        self._talk = talk

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002 - the library's signature
        words = document.text_before_cursor.split(" ")
        inventory = self._talk.inventory
        known: Iterable[str] = ()
        if len(words) == 1:
            known = _WORDS
        elif len(words) == 2 and inventory is not None:  # noqa: PLR2004 - the second word
            if words[0] == "call":
                known = (tool.id for tool in inventory.tools)
            elif words[0] == "say":
                known = (app.app_scope for app in inventory.apps)
        for word in known:
            if word.startswith(words[-1]):
                yield Completion(neutral(word), start_position=-len(words[-1]))


def _object(text: str) -> JsonObject:
    value = json.loads(text or "{}")
    if not isinstance(value, dict):
        raise ValueError("the input must be a JSON object, such as {}")  # noqa: TRY004 - what was typed is wrong, no type
    return value


def _show_state(state: CallState) -> None:
    told = f"= {state.call_id} {state.status}"
    if state.error_code:
        told += f" ({neutral(state.error_code)})"
    if state.failure is not None:
        told += f": {neutral(state.failure.message, limit=200)}"
    if state.result is not None:
        told += f" {as_cell(state.result)}"
    _show(told)


def _show(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a prompt speaks
