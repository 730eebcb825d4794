"""`lineup agent`: an agent for people and scripts."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Final, TextIO

import click
from pydantic import ValidationError

from runtime_actors.cli import identities
from runtime_actors.cli.artifact_file import artifact
from runtime_actors.cli.exits import DONE, FAILED, REFUSED, WAIT_ENDED
from runtime_actors.cli.options import (
    as_option,
    conversation_option,
    json_option,
    options_stand_behind,
    stacked,
    state_option,
)
from runtime_actors.cli.show import as_cell, say, show_json
from runtime_actors.cli.watcher import watcher_pid
from runtime_actors.client import (
    AgentSession,
    ConnectionLost,
    DaemonNotRunning,
    Delivered,
    Lost,
    NoAnswer,
    PersonSaid,
    Refused,
    SessionEvent,
    door_of,
    read_token,
)
from runtime_actors.contract import codec
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.envelope import describe
from runtime_actors.contract.tools import CallState, CallStatus, ToolProgressDelivery
from runtime_actors.rules.text import neutral
from runtime_actors.simulator import Player, ScenarioInvalid, SimulatedAgent, read_scenario


@click.group(invoke_without_command=True)
@stacked(state_option, as_option, conversation_option)
@click.pass_context
def agent(context: click.Context, state: Path, agent_name: str, conversation: str) -> int:
    """Be an agent: a prompt that calls tools and shows what comes back."""
    if context.invoked_subcommand is not None:
        options_stand_behind(context)
        return DONE
    from runtime_actors.cli.prompt import Prompt  # noqa: PLC0415 - slow to load, and scripts do not need it

    return Prompt(state, agent_name, conversation).run()


@agent.command()
@stacked(
    click.argument("tool"),
    click.argument("given", metavar="[JSON|-]", default="{}"),
    state_option,
    as_option,
    conversation_option,
    click.option("--call-id", metavar="ID", help="Default: a new one."),
    click.option("--revision", metavar="N", help="Inventory revision. Default: the present one."),
    click.option("--timeout", "timeout_s", type=click.FloatRange(0), metavar="S", help="How long to wait for the end."),
    json_option,
)
def call(
    *,
    tool: str,
    given: str,
    state: Path,
    agent_name: str,
    conversation: str,
    call_id: str | None,
    revision: str | None,
    timeout_s: float | None,
    as_json: bool,
) -> int:
    """Call TOOL with a JSON object, given here or on stdin (-), and wait for its end.

    Exit codes: 0 completed, 1 failed, cancelled or expired, 3 rejected or refused, 4 the wait ended and the
    call goes on.
    """
    if timeout_s is not None and math.isnan(timeout_s):
        raise click.UsageError("--timeout needs a number of seconds")
    value = json_object(given)
    shown = _Shown(as_json)
    with _attached(state, agent_name, conversation, shown) as one:
        try:
            answer = one.invoke(tool, value, conversation_id=conversation, call_id=call_id, revision=revision)
        except ValidationError as error:
            raise click.UsageError(describe(error)) from None
        except Refused as refused:
            return shown.refused(refused)
        made = answer.call
        try:
            known = one.wait(conversation, made.call_id, timeout_s=timeout_s)
            one.settle(known)
        except (NoAnswer, KeyboardInterrupt):
            return shown.waited(one.calls[conversation, made.call_id].state)
    return shown.final(known.state)


@agent.command()
@stacked(
    click.argument("call_id", metavar="ID"),
    state_option,
    as_option,
    conversation_option,
    click.option("--reason", metavar="TEXT"),
    json_option,
)
def cancel(*, call_id: str, state: Path, agent_name: str, conversation: str, reason: str | None, as_json: bool) -> int:
    """Say that the answer of a call is wanted no longer. Its app decides, or a grace period ends it."""
    shown = _Shown(as_json)
    with _attached(state, agent_name, conversation, shown) as one:
        try:
            now = one.cancel(conversation, call_id, reason=reason).call
        except ValidationError as error:
            raise click.UsageError(describe(error)) from None
        except Refused as refused:
            return shown.refused(refused)
    if as_json:
        show_json(now.to_wire())
    else:
        click.echo(f"{now.call_id}: {now.status}, cancel requested")
    return DONE


@agent.command(name="say")
@stacked(
    click.argument("text"),
    click.option("--to", "app_scope", metavar="SCOPE", help="Whose inbox it goes to."),
    click.option("--message-id", metavar="ID", help="Default: a new one."),
    state_option,
    as_option,
    conversation_option,
    json_option,
)
def say_text(
    *,
    text: str,
    app_scope: str | None,
    message_id: str | None,
    state: Path,
    agent_name: str,
    conversation: str,
    as_json: bool,
) -> int:
    """Put TEXT into the inbox of a MiniApp."""
    if app_scope is None:
        raise click.UsageError("there is no app for plain talk yet: name one with --to SCOPE (see: lineup apps)")
    shown = _Shown(as_json)
    with _attached(state, agent_name, conversation, shown) as one:
        try:
            receipt = one.say(text, conversation_id=conversation, app_scope=app_scope, message_id=message_id)
        except ValidationError as error:
            raise click.UsageError(describe(error)) from None
        except Refused as refused:
            return shown.refused(refused)
    if as_json:
        show_json(receipt.to_wire())
    else:
        click.echo(f"{receipt.message_id}: in the inbox of {app_scope}{' already' if receipt.repeated else ''}")
    return DONE


@agent.command()
@stacked(
    state_option,
    as_option,
    conversation_option,
    click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many texts."),
    click.option("--timeout", "timeout_s", type=click.FloatRange(0), metavar="S", help="End after so long."),
    json_option,
)
def listen(
    *, state: Path, agent_name: str, conversation: str, count: int | None, timeout_s: float | None, as_json: bool
) -> int:
    """Show what the person writes into the conversation, until --count, --timeout or Ctrl-C.

    What it shows is acknowledged, and comes no second time. Results of calls are left to whoever made them. Exit code
    4 if the time ended before --count texts.
    """
    if timeout_s is not None and math.isnan(timeout_s):
        raise click.UsageError("--timeout needs a number of seconds")
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    heard = 0
    with _attached(state, agent_name, conversation, _Shown(as_json)) as one:
        while (left_s := deadline - time.monotonic()) > 0 and (count is None or heard < count):
            event = one.session.next_event(min(left_s, 3600))
            if isinstance(event, PersonSaid):
                _show_text(event, as_json=as_json)
                one.session.acknowledge(event.said.number)
                heard += 1
    return WAIT_ENDED if count is not None and heard < count else DONE


def _show_text(event: PersonSaid, *, as_json: bool) -> None:
    """What the person wrote."""
    if as_json:
        show_json({"conversation_id": event.conversation_id, **event.body})
    else:
        click.echo(f"person: {neutral(event.said.text, limit=None)}")


@agent.command()
@stacked(click.argument("file", type=click.File("r", encoding="utf-8")), state_option, json_option)
def script(file: TextIO, state: Path, as_json: bool) -> int:
    """Play a scenario, one JSON step a line (docs/simulator.md). Exit code 1 at the first step that fails."""
    try:
        steps = read_scenario(file)
    except (ScenarioInvalid, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file.name}: {error}") from None
    ok = True
    with Player(state) as player:
        for done in player.play(steps):
            ok = done.ok
            if as_json:
                show_json(done.to_json())
            else:
                click.echo(f"{'ok  ' if done.ok else 'FAIL'} {done.number:3} {done.step.do:7} {neutral(done.detail)}")
    return DONE if ok else FAILED


@agent.command()
@stacked(
    click.argument("name"),
    click.option("--public-key", metavar="Z85", help="CURVE key by which it is known on TCP."),
    click.option("--show", is_flag=True, help="Also print the token."),
    state_option,
    json_option,
)
def add(name: str, public_key: str | None, show: bool, state: Path, as_json: bool) -> int:
    """Make a new agent identity. Its token is kept in the state folder, readable for you alone."""
    return identities.add_agent(state, name, public_key=public_key, show=show, as_json=as_json)


agent.add_command(artifact)


class _Shown:
    """What of a call is shown, and the exit code that says how it ended."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def hear(self, event: SessionEvent) -> None:
        if isinstance(event, Delivered):
            self._delivered(event)
        elif isinstance(event, Lost):
            say("the connection is lost; looking for the daemon")

    def _delivered(self, event: Delivered) -> None:
        one = event.delivery
        if self._as_json:
            show_json(event.body)
        elif isinstance(one, ToolProgressDelivery):
            percent = "" if one.progress.percent is None else f" {one.progress.percent:g} %"
            say(f"{one.call_id}:{percent} {neutral(one.progress.note or '', limit=200)}".rstrip())

    def refused(self, refused: Refused) -> int:
        if self._as_json:
            show_json(refused.rejected.to_wire())
        say(f"refused: {refused.code}: {neutral(refused.detail)}{_HINTS.get(refused.code, '')}")
        return REFUSED

    def waited(self, state: CallState) -> int:
        if self._as_json:
            show_json(state.to_wire())
        say(f"{state.call_id} is {state.status} and goes on; read it later with: lineup call {state.call_id}")
        return WAIT_ENDED

    def final(self, state: CallState) -> int:
        if self._as_json:
            show_json(state.to_wire())
        elif state.status == CallStatus.COMPLETED:
            click.echo(as_cell(state.result, limit=None))
        else:
            why = f": {neutral(state.failure.message)}" if state.failure else ""
            say(f"{state.call_id} {state.status}{f' ({state.error_code})' if state.error_code else ''}{why}")
        if state.status == CallStatus.COMPLETED:
            return DONE
        return REFUSED if state.status == CallStatus.REJECTED else FAILED


_RESTART_S: Final = 10.0
_HINTS: Final = {
    "inventory_revision_mismatch": "; leave --revision out, or look with: lineup inventory",
    "tool_not_advertised": "; look with: lineup inventory",
    "app_disabled": "; switch it on with: lineup app enable NAME, or lineup tool enable NAME",
    "tool_input_invalid": "; look at its schema with: lineup inventory --json",
    "app_instance_not_found": "; open the app first, by one of its launching tools",
    "call_id_conflict": "; choose another --call-id",
    "conversation_denied": "; choose another --conversation",
    "attach_denied": "; make the agent with: lineup agent add NAME",
}


def _attached(state: Path, agent_name: str, conversation: str, shown: _Shown) -> SimulatedAgent:
    """Attach; a daemon that its watcher is just starting again is waited for."""
    give_up = time.monotonic() + _RESTART_S
    while True:
        try:
            return _attached_once(state, agent_name, conversation, shown)
        except (DaemonNotRunning, ConnectionLost):
            if watcher_pid(state) is None or time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def _attached_once(state: Path, agent_name: str, conversation: str, shown: _Shown) -> SimulatedAgent:
    session = AgentSession(
        door_of(state, "agent"), agent_name, read_token(state, agent_name), conversations=[conversation]
    )
    one = SimulatedAgent(session, only_own=True, on_event=shown.hear)
    try:
        session.attach()
    except BaseException:
        session.close()
        raise
    return one


def json_object(given: str, example: str = '{"task_id": "t1"}') -> JsonObject:
    """A JSON object as it was typed, or from stdin (-).

    Raises:
        click.UsageError: It is none, or cannot be sent.

    """
    text = sys.stdin.read(codec.MAX_FRAME_BYTES + 1) if given == "-" else given
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
        if not isinstance(value, dict):
            raise click.UsageError(f"it must be a JSON object, such as '{example}'")
        codec.check(value)
    except codec.IntakeError as error:
        raise click.UsageError(f"the input cannot be sent: {error.detail}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"the input is no JSON: {error}") from None
    return value


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
