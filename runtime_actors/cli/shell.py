"""`lineup shell`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from runtime_actors.cli.exits import DONE, USAGE
from runtime_actors.cli.options import stacked, state_option
from runtime_actors.cli.show import say
from runtime_actors.client import door_of
from runtime_actors.client.host import HostSession


@click.command(short_help="A host for this terminal: timeline, questions, surfaces, apps.")
@stacked(
    state_option,
    click.option("--conversation", help="Begin with this one."),
    click.option("--name", default="shell", show_default=True, help="Of this host, in the audit log."),
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
