"""`lineup policy` and `lineup grants`: what apps and agents may do, and what persons permitted."""

from __future__ import annotations

from pathlib import Path

import click

from runtime_actors import policy_file
from runtime_actors.cli.control import order, rows
from runtime_actors.cli.exits import DONE, FAILED, USAGE
from runtime_actors.cli.options import json_option, options_stand_behind, stacked, state_option
from runtime_actors.cli.show import say, show_json, show_rows
from runtime_actors.client import Refused
from runtime_actors.contract.agent import ReloadPolicy, RevokeGrant
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.errors import PolicyRefused
from runtime_actors.rules.policy_text import closed_rules
from runtime_actors.rules.text import neutral

_RULE = ("rule", "app", "agent", "conversation", "about", "name", "decision", "for", "expires_s")
_GRANT = (
    "grant_id",
    "app_scope",
    "conversation_id",
    "capability",
    "span",
    "status",
    "expires_at",
    "call_id",
    "reason",
    "created_at",
)


@click.group()
def policy() -> None:
    """Check, read or reload the rules about what apps and agents may do."""


@policy.command()
@stacked(click.argument("file", type=click.Path(path_type=Path)), json_option)
def check(file: Path, as_json: bool) -> int:
    """Check a policy file. Exit code 1 with one line a mistake: where it is, and what to write instead.

    A rule that can be read and permits nothing, for its capability is never granted, is a warning: exit code 0.
    """
    try:
        found = policy_file.read(file)
    except PolicyRefused as refused:
        for fault in refused.faults:
            if as_json:
                show_json({"fault": fault})
            else:
                click.echo(neutral(fault))
        return FAILED
    for useless in closed_rules(found):
        if as_json:
            show_json({"warning": useless})
        else:
            click.echo(f"warning: {neutral(useless)}")
    if not as_json:
        click.echo(f"{neutral(str(file))}: {len(found.rules)} rules, which can be used")
    return DONE


@policy.command()
@stacked(state_option, json_option)
def reload(state: Path, as_json: bool) -> int:
    """Have the daemon read the policy file of its state folder again. Exit code 2: a mistake, and the old one stays."""
    try:
        data = order(state, "lineup.v1.control.reload_policy", ReloadPolicy())
    except Refused as refused:
        if refused.code != RejectionCode.POLICY_INVALID:
            raise
        say(neutral(refused.detail))
        return USAGE
    if as_json:
        show_json(data)
    else:
        click.echo(f"{data.get('rules')} rules are in force; the inventory is at {neutral(str(data.get('revision')))}")
    return DONE


@policy.command()
@stacked(state_option, json_option)
def show(state: Path, as_json: bool) -> int:
    """List the rules in force, the first matching one of which decides."""
    return show_rows(rows(state, "policy"), _RULE, as_json=as_json)


@click.group(invoke_without_command=True)
@stacked(
    state_option,
    json_option,
    click.option("--limit", type=click.IntRange(1), help="At most so many."),
    click.option("--all", "ended_too", is_flag=True, help="Also those that are denied, used, revoked or expired."),
)
@click.pass_context
def grants(context: click.Context, state: Path, as_json: bool, limit: int | None, ended_too: bool) -> int:
    """List what persons permitted, or are being asked for."""
    if context.invoked_subcommand is not None:
        options_stand_behind(context)
        return DONE
    found = rows(state, "grants", {"all": True} if ended_too else None, limit=limit)
    return show_rows(found, _GRANT, as_json=as_json)


@grants.command()
@stacked(click.argument("grant_id", metavar="ID"), state_option, json_option)
def revoke(grant_id: str, state: Path, as_json: bool) -> int:
    """Take back what was permitted, for all requests to come."""
    try:
        data = order(state, "lineup.v1.control.revoke_grant", RevokeGrant(grant_id=grant_id[:128] or "-"))
    except Refused as refused:
        if as_json:
            show_json(refused.rejected.to_wire())
        raise
    if as_json:
        show_json(data)
    else:
        click.echo(f"{neutral(grant_id)} is {neutral(str(data.get('status')))}")
    return DONE
