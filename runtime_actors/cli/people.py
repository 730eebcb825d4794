"""The commands by which a person, or a script in a person's place, answers and acts: each is a host for a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from runtime_actors.cli.agents import json_object
from runtime_actors.cli.exits import DONE, REFUSED
from runtime_actors.cli.options import json_option, stacked, state_option
from runtime_actors.cli.show import say, show_json
from runtime_actors.client import HostSession, Refused, door_of
from runtime_actors.contract.host import HostDone
from runtime_actors.rules.text import neutral

_HINTS: Final = {
    "interaction_not_found": "; look with: lineup interactions",
    "interaction_invalid": "; look at the question with: lineup interactions --json",
    "app_instance_not_found": "; look with: lineup ps",
    "not_found": "; look for conversations with: lineup ps --all",
    "app_disabled": "; switch it on with: lineup app enable NAME",
}


def _do(state: Path, as_json: bool, done: str, act: Callable[[HostSession], HostDone]) -> int:
    with HostSession(door_of(state, "host"), "cli") as host:
        host.attach()
        try:
            answer = act(host)
        except Refused as refused:
            if as_json:
                show_json(refused.rejected.to_wire())
            say(f"refused: {refused.code}: {neutral(refused.detail)}{_HINTS.get(refused.code, '')}")
            return REFUSED
    if as_json:
        show_json(answer.to_wire())
    else:
        click.echo(done.format(**{name: neutral(str(value)) for name, value in answer.data.items()}))
    return DONE


@click.command()
@stacked(
    click.argument("interaction_id", metavar="ID"),
    click.argument("given", metavar="JSON|-"),
    state_option,
    json_option,
)
def answer(interaction_id: str, given: str, state: Path, as_json: bool) -> int:
    """Answer the question ID with a JSON object, given here or on stdin (-).

    \b
    notice    {"acknowledged": true}
    choice    {"action_ids": ["one"]}
    confirm   {"approved": true}
    input     {"values": {"name": "..."}}

    The first valid answer counts. Exit code 3 if it is refused: it does not fit, or the question has ended.
    """  # noqa: D301 - click's mark for lines that are kept as they are
    value = json_object(given, '{"approved": true}')
    if "interaction_id" in value:
        raise click.UsageError("the answer does not name the question again")
    return _do(state, as_json, "{interaction_id} is {status}", lambda host: host.answer(interaction_id, value))


@click.command()
@stacked(click.argument("interaction_id", metavar="ID"), state_option, json_option)
def dismiss(interaction_id: str, state: Path, as_json: bool) -> int:
    """Do not answer the question ID. To one that asks for a yes that is a no."""
    return _do(state, as_json, "{interaction_id} is {status}", lambda host: host.dismiss(interaction_id))


@click.command()
@stacked(click.argument("instance_id", metavar="INSTANCE"), state_option, json_option)
def front(instance_id: str, state: Path, as_json: bool) -> int:
    """Bring an instance to the front of its conversation; it wakes if it is suspended."""
    told = f"{neutral(instance_id)} is in front"
    return _do(state, as_json, told, lambda host: host.act(instance_id, "focus"))


@click.command()
@stacked(
    click.argument("instance_id", metavar="INSTANCE"),
    click.option("--force", is_flag=True, help="Close it whatever the app says; its open calls end failed."),
    state_option,
    json_option,
)
def close(instance_id: str, force: bool, state: Path, as_json: bool) -> int:
    """Tell an app that a person wants it closed. It may ask first; --force does not let it."""
    told = f"{neutral(instance_id)} is closed" if force else f"{neutral(instance_id)} was told to close"
    return _do(state, as_json, told, lambda host: host.act(instance_id, "force_close" if force else "close"))


@click.command(name="say")
@stacked(click.argument("conversation"), click.argument("text"), state_option, json_option)
def say_text(conversation: str, text: str, state: Path, as_json: bool) -> int:
    """Write TEXT into CONVERSATION as a person does; its agent gets it."""
    return _do(state, as_json, "{action_id} is with the app", lambda host: host.text(conversation, text))
