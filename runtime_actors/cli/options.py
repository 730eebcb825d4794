"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import platformdirs
from click.core import ParameterSource
from pydantic import TypeAdapter, ValidationError

from runtime_actors.client import AddressTooLong, door_of
from runtime_actors.contract.base import AgentName, ConversationId

_F = TypeVar("_F", bound=Callable[..., Any])


def _state_folder(_context: click.Context, _parameter: click.Parameter, given: Path | None) -> Path:
    folder = given if given is not None else platformdirs.user_state_path("lineup", appauthor=False)
    # Not resolved: a symbolic link may be there to keep the sockets' paths short.
    folder = folder.absolute()
    try:
        door_of(folder, "control")
    except AddressTooLong as error:
        raise click.UsageError(str(error)) from None
    return folder


state_option: Final = click.option(
    "--state",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="LINEUP_STATE",
    callback=_state_folder,
    help="State folder. Default: LINEUP_STATE, or the user's own.",
)


def _spelled_as(
    adapter: TypeAdapter[str], what: str
) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    def check(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
        try:
            return None if given is None else adapter.validate_python(given)
        except ValidationError:
            raise click.BadParameter(f"{given!r} is no name of {what}") from None

    return check


as_option: Final = click.option(
    "--as",
    "agent_name",
    metavar="NAME",
    default="local",
    show_default=True,
    callback=_spelled_as(
        TypeAdapter(AgentName), "an agent: a-z, 0-9, _ and -, beginning with a letter, at most 64 characters"
    ),
    help="Agent identity.",
)
_conversation: Final = _spelled_as(
    TypeAdapter(ConversationId), "a conversation: A-Z, a-z, 0-9 and ._:-, at most 128 characters"
)
conversation_option: Final = click.option(
    "--conversation", metavar="C", default="main", show_default=True, callback=_conversation, help="Conversation."
)
only_conversation_option: Final = click.option(
    "--conversation", "conversation_id", metavar="C", callback=_conversation, help="Only this conversation's."
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


def stacked(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Several options as one decorator, shown in the order given."""

    def decorate(function: _F) -> _F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def options_stand_behind(context: click.Context) -> None:
    """Refuse options in front of a subcommand, which would not hear of them.

    Raises:
        click.UsageError: There are such.

    """
    for name in context.params:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"write options behind the word {context.invoked_subcommand!r}")
