"""New agent identities, and where their tokens are kept."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

import click
from pydantic import ValidationError

from runtime_actors.cli.control import order
from runtime_actors.cli.exits import DONE, REFUSED
from runtime_actors.cli.show import say, show_json
from runtime_actors.client import NoToken, Refused, read_token
from runtime_actors.contract.agent import AddAgent
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.envelope import describe
from runtime_actors.rules.text import neutral


def add_agent(state: Path, name: str, *, public_key: str | None, show: bool, as_json: bool) -> int:
    """Make a token, keep it in `<state>/tokens/NAME`, and make the agent known by its hash.

    A token that is there already is used again: so the command may be repeated when its end is not known.
    """
    try:
        body = AddAgent(name=name, token_hash="0" * 64, public_key=public_key)
    except ValidationError as error:
        raise click.UsageError(describe(error)) from None
    path = state / "tokens" / name
    try:
        token, is_new = read_token(state, name), False
    except NoToken:
        token, is_new = secrets.token_urlsafe(32), True
        _write_private(path, token)
    hashed = body.model_copy(update={"token_hash": hashlib.sha256(token.encode()).hexdigest()})
    try:
        order(state, "lineup.v1.control.add_agent", hashed)
    except Refused as refused:
        if is_new:
            path.unlink(missing_ok=True)
        say(f"refused: {refused.code}: {neutral(refused.detail)}")
        return REFUSED
    said: JsonObject = {"agent": name, "token_file": str(path)} | ({"token": token} if show else {})
    if as_json:
        show_json(said)
    else:
        click.echo("\n".join(f"{key}: {value}" for key, value in said.items()))
    return DONE


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
