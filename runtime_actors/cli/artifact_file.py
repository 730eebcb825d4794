"""`lineup agent artifact`: what an app made, as a file."""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from runtime_actors.cli.exits import DONE, FAILED, REFUSED
from runtime_actors.cli.options import as_option, conversation_option, json_option, stacked, state_option
from runtime_actors.cli.show import say, show_json
from runtime_actors.client import AgentSession, Refused, door_of, read_token
from runtime_actors.client.artifacts import ArtifactDamaged, fetch_artifact, write_whole
from runtime_actors.contract.surfaces import ArtifactId
from runtime_actors.rules.text import neutral


@click.command()
@stacked(
    click.argument("artifact_id", metavar="ID"),
    click.argument("file", type=click.Path(dir_okay=False, path_type=Path)),
    click.option("--force", is_flag=True, help="Replace a file that is there."),
    state_option,
    as_option,
    conversation_option,
    json_option,
)
def artifact(
    *, artifact_id: str, file: Path, force: bool, state: Path, agent_name: str, conversation: str, as_json: bool
) -> int:
    """Get an artifact of the conversation, check its digest, and write FILE: whole, or not at all.

    Exit codes: 0 it is there, 1 it could not be written, or is not what was announced, 3 refused.
    """
    try:
        TypeAdapter(ArtifactId).validate_python(artifact_id)
    except ValidationError:
        raise click.UsageError(f"{artifact_id!r} is no id of an artifact; look with: lineup artifacts") from None
    if not force and file.exists():
        return _not_written(f"{file} is there already; --force replaces it")
    # It follows no conversation: what is posted meanwhile is for others to acknowledge.
    with AgentSession(door_of(state, "agent"), agent_name, read_token(state, agent_name), conversations=()) as session:
        session.attach()
        try:
            found = fetch_artifact(session, artifact_id, conversation_id=conversation)
            write_whole(file, found.content, replace=force)
        except Refused as refused:
            if as_json:
                show_json(refused.rejected.to_wire())
            say(f"refused: {refused.code}: {neutral(refused.detail)}")
            return REFUSED
        except ArtifactDamaged as damaged:
            return _not_written(str(damaged))
        except FileExistsError:
            return _not_written(f"{file} is there already; --force replaces it")
        except OSError as error:
            return _not_written(f"{file} cannot be written: {error.strerror}")
    if as_json:
        show_json({**found.meta.to_wire(), "file": str(file)})
    else:
        click.echo(f"{file}: {found.meta.size} bytes, {found.meta.media_type}, {found.meta.name}")
    return DONE


def _not_written(why: str) -> int:
    say(why)
    return FAILED
