"""The commands by which the operator changes or verifies something."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from runtime_actors.cli.control import order, rows
from runtime_actors.cli.exits import DONE, FAILED, USAGE
from runtime_actors.cli.listings import list_audit
from runtime_actors.cli.options import json_option, options_stand_behind, stacked, state_option
from runtime_actors.cli.show import say, show_json
from runtime_actors.client import Refused
from runtime_actors.contract.agent import Backup, ExportAudit, Kill, Switch, VerifyAudit
from runtime_actors.rules.text import neutral
from runtime_actors.simulator.processes import signal_number

_LONG_S = 600.0
"""For what walks through the whole store."""


@click.group(invoke_without_command=True)
@stacked(
    state_option,
    json_option,
    click.option("--limit", type=click.IntRange(1), help="At most so many."),
    click.option("--all", "from_start", is_flag=True, help="From the first entry on, not only the newest."),
)
@click.pass_context
def audit(context: click.Context, state: Path, as_json: bool, limit: int | None, from_start: bool) -> int:
    """List the audit log, or verify it."""
    if context.invoked_subcommand is not None:
        options_stand_behind(context)
        return DONE
    return list_audit(state, as_json, limit, from_start)


@audit.command(name="verify")
@stacked(state_option, json_option)
def audit_verify(state: Path, as_json: bool) -> int:
    """Walk the whole hash chain. Exit code 1 if it is broken."""
    try:
        data = order(state, "lineup.v1.control.verify_audit", VerifyAudit(), timeout_s=_LONG_S)
    except Refused as refused:
        if as_json:
            show_json(refused.rejected.to_wire())
        say(f"the audit log does not hold: {neutral(refused.detail)}; keep the folder, and restore a backup")
        return FAILED
    if as_json:
        show_json(data)
    else:
        click.echo(f"the chain of {data.get('entries')} entries holds; its head is {data.get('head_hash')}")
    return DONE


@audit.command(name="accept")
@state_option
def audit_accept(state: Path) -> int:
    """Accept that the newest entries are lost, as power failing under --durability process can do.

    The daemon must be stopped.
    """
    from runtime_actors.cli import folders  # noqa: PLC0415 - loads the store, which other commands do not need

    return folders.accept_lost_tail(state)


@audit.command(name="export")
@stacked(
    click.argument("file", type=click.Path(path_type=Path, dir_okay=False)),
    click.option("--keep", type=click.IntRange(1), required=True, help="So many of the newest entries stay."),
    state_option,
    json_option,
)
def audit_export(file: Path, keep: int, state: Path, as_json: bool) -> int:
    """Move all but the newest entries to a file that does not exist yet; the chain goes on behind them."""
    body = ExportAudit(path=str(file.absolute()), keep=keep)
    data = order(state, "lineup.v1.control.export_audit", body, timeout_s=_LONG_S, repeat=False)
    if as_json:
        show_json(data)
    else:
        click.echo(f"{data.get('entries')} entries are in {neutral(str(file))}")
    return DONE


def _switch(state: Path, kind: Literal["app", "tool"], name: str, word: str) -> int:
    order(state, "lineup.v1.control.switch", Switch(kind=kind, name=name, enabled=word == "enable"))
    click.echo(f"{kind} {neutral(name)} is {word}d")
    return DONE


@click.command()
@stacked(click.argument("word", type=click.Choice(("enable", "disable"))), click.argument("name"), state_option)
def app(word: str, name: str, state: Path) -> int:
    """Switch a MiniApp on or off. Its running calls end failed / app_disabled."""
    return _switch(state, "app", name, word)


@click.command()
@stacked(click.argument("word", type=click.Choice(("enable", "disable"))), click.argument("name"), state_option)
def tool(word: str, name: str, state: Path) -> int:
    """Switch a tool on or off. Its running calls end failed / app_disabled."""
    return _switch(state, "tool", name, word)


@click.command()
@stacked(
    click.argument("instance_id", metavar="INSTANCE"),
    click.option("--signal", "name", default="SIGKILL", show_default=True, help="Name of the signal."),
    state_option,
)
def kill(instance_id: str, name: str, state: Path) -> int:
    """Send a signal to an instance's process. The runtime starts it again."""
    try:
        full = signal_number(name).name
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    attempts = (row.get("attempt_id") for row in rows(state, "ps") if row.get("instance_id") == instance_id)
    # With its attempt, so that the order may be repeated and never meets the next process.
    body = Kill(instance_id=instance_id[:128], attempt_id=next(attempts, None), signal=full)
    order(state, "lineup.v1.control.kill", body, repeat=body.attempt_id is not None)
    click.echo(f"{full} sent to {neutral(instance_id)}")
    return DONE


@click.command()
@stacked(click.argument("folder", type=click.Path(path_type=Path)), json_option)
def validate(folder: Path, as_json: bool) -> int:
    """Check a MiniApp's folder. Exit code 1 with one line a fault: its path in the manifest, and what is wrong."""
    from runtime_actors.cli import folders  # noqa: PLC0415 - loads the store, which other commands do not need

    faults = folders.faults_of(folder)
    for path, reason in faults:
        if as_json:
            show_json({"path": path, "reason": reason})
        else:
            click.echo(f"{neutral(path or '/')}: {neutral(reason)}")
    if not faults and not as_json:
        click.echo(f"{neutral(str(folder))} can be registered")
    return FAILED if faults else DONE


@click.command()
@stacked(click.argument("file", type=click.Path(dir_okay=False, path_type=Path)), state_option, json_option)
def backup(file: Path, state: Path, as_json: bool) -> int:
    """Copy the store into FILE while the daemon runs, and verify the copy."""
    target = file.absolute()
    if target.exists():
        say(f"{target} is there already; name a new file")
        return USAGE
    data = order(state, "lineup.v1.control.backup", Backup(path=str(target)), timeout_s=_LONG_S, repeat=False)
    if as_json:
        show_json(data)
    else:
        click.echo(f"{data.get('path')}: {data.get('bytes')} bytes, verified up to audit entry {data.get('audit_seq')}")
    return DONE


@click.command()
@stacked(click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path)), state_option)
def restore(file: Path, state: Path) -> int:
    """Put a backup in the place of the store. The daemon must be stopped; the old store is kept beside it."""
    from runtime_actors.cli import folders  # noqa: PLC0415 - loads the store, which other commands do not need

    return folders.restore(state, file.absolute())
