"""`lineup shell`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pydantic import TypeAdapter, ValidationError

from runtime_actors.cli.exits import DONE, USAGE
from runtime_actors.cli.options import stacked, state_option
from runtime_actors.cli.show import say
from runtime_actors.client import door_of
from runtime_actors.client.host import HostSession
from runtime_actors.contract.base import AgentName, ConversationId


def _spelled(spelling: Any) -> Callable[[click.Context, click.Parameter, str | None], str | None]:  # noqa: ANN401 - an annotated str
    adapter: TypeAdapter[str] = TypeAdapter(spelling)

    def check(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
        try:
            return None if given is None else adapter.validate_python(given)
        except ValidationError as error:
            raise click.BadParameter(error.errors(include_url=False)[0]["msg"]) from None

    return check


@click.command(short_help="A host for this terminal: timeline, questions, surfaces, apps.")
@stacked(
    state_option,
    click.option("--conversation", callback=_spelled(ConversationId), help="Begin with this one."),
    click.option(
        "--name",
        default="shell",
        show_default=True,
        callback=_spelled(AgentName),
        help="Of this host, in the audit log.",
    ),
)
def shell(state: Path, conversation: str | None, name: str) -> int:
    """Show what agents and apps want of you, and answer by keyboard.

    Several shells may run at once: the first valid answer to a question counts.
    """
    from runtime_actors.terminal.app import make_shell  # noqa: PLC0415 - slow to load, and scripts do not need it

    if not sys.stdin.isatty():
        say("a shell needs a terminal; scripts use: lineup answer, dismiss, front, close, say")
        return USAGE
    with HostSession(door_of(state, "host"), name) as session:
        session.attach()  # whoever cannot is told so before the screen is taken
    session = HostSession(door_of(state, "host"), name, surfaces=True, on_screen=conversation)
    make_shell(session, conversation).run()
    return DONE
