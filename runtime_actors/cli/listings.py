"""The commands that list what the daemon knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from runtime_actors.cli.control import rows
from runtime_actors.cli.exits import DONE, FAILED
from runtime_actors.cli.options import json_option, only_conversation_option, stacked, state_option
from runtime_actors.cli.show import say, show_json, show_pairs, show_rows
from runtime_actors.client import Refused
from runtime_actors.contract.agent import Listing
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.text import neutral

_COLUMNS: Final[Mapping[Listing, tuple[str, ...]]] = {
    "apps": ("app_scope", "version", "kind", "enabled", "tools", "folder"),
    "inventory": ("id", "title", "handling", "app_scope", "timeout_ms", "description"),
    "ps": (
        "instance_id",
        "app_scope",
        "conversation_id",
        "state",
        "attempt_id",
        "pid",
        "level",
        "rss_bytes",
        "started_at",
        "end_reason",
    ),
    "calls": ("call_id", "agent_id", "conversation_id", "tool_id", "status", "error_code", "instance_id", "updated_at"),
    "inbox": ("conversation_id", "app_scope", "number", "kind", "call_id", "repeated", "created_at"),
    "outbox": ("agent_id", "number", "conversation_id", "type", "call_id", "bytes", "created_at"),
    "focus": ("conversation_id", "stack"),
    "interactions": (
        "interaction_id",
        "app_title",
        "kind",
        "title",
        "status",
        "source",
        "conversation_id",
        "instance_id",
        "parent_call_id",
        "created_at",
        "expires_at",
    ),
    "audit": ("seq", "at", "event", "subject", "detail"),
    "surfaces": ("surface_id", "app_scope", "conversation_id", "kind", "title", "revision", "status", "updated_at"),
    "artifacts": ("artifact_id", "conversation_id", "app_scope", "name", "media_type", "size", "received", "call_id"),
}

_limit_option: Final = click.option("--limit", type=click.IntRange(1), help="At most so many.")
_shared: Final = stacked(state_option, json_option, _limit_option)


def _list(what: Listing, state: Path, as_json: bool, limit: int | None, wanted: JsonObject | None = None) -> int:
    return show_rows(rows(state, what, wanted, limit=limit), _COLUMNS[what], as_json=as_json)


@click.command()
@_shared
def apps(state: Path, as_json: bool, limit: int | None) -> int:
    """List the MiniApps and whether they are switched on."""
    return _list("apps", state, as_json, limit)


@click.command()
@stacked(state_option, json_option)
def inventory(state: Path, as_json: bool) -> int:
    """Show what agents may use now. With --json one object: the revision, apps and tools with their schemas."""
    found = next(rows(state, "inventory", limit=1), {})
    if as_json:
        show_json(found)
        return DONE
    click.echo(f"revision {neutral(str(found.get('revision')))}")
    return show_rows(found.get("tools", ()), _COLUMNS["inventory"], as_json=False)


@click.command()
@stacked(_shared, click.option("--all", "ended_too", is_flag=True, help="Also instances that have ended."))
def ps(state: Path, as_json: bool, limit: int | None, ended_too: bool) -> int:
    """List instances and their processes."""
    return _list("ps", state, as_json, limit, {"all": True} if ended_too else None)


@click.command()
@stacked(
    _shared,
    click.option("--as", "agent_id", metavar="NAME", help="Only this agent's."),
    only_conversation_option,
    click.option("--scope", "app_scope", metavar="SCOPE", help="Only this app's."),
    click.option("--status", type=click.Choice(tuple(CallStatus)), help="Only those in this status."),
    click.option("--open", "only_open", is_flag=True, help="Only those that have not ended."),
)
def calls(state: Path, as_json: bool, limit: int | None, only_open: bool, **wanted: str | None) -> int:
    """List tool calls, the newest first."""
    filters: JsonObject = {name: value for name, value in wanted.items() if value is not None}
    return _list("calls", state, as_json, limit, filters | ({"open": True} if only_open else {}))


@click.command()
@stacked(click.argument("call_id", metavar="ID"), state_option, json_option)
def call(call_id: str, state: Path, as_json: bool) -> int:
    """Show all about the calls of one id; several agents and conversations may have used it. Exit code 1: none has."""
    try:
        found = list(rows(state, "call", {"call_id": call_id}))
    except Refused as refused:
        if refused.code != RejectionCode.NOT_FOUND:
            raise
        say(neutral(refused.detail))
        return FAILED
    for row in found:
        if as_json:
            show_json(row)
        else:
            show_pairs(row)
    return DONE


@click.command()
@_shared
def inbox(state: Path, as_json: bool, limit: int | None) -> int:
    """List the messages that wait for a MiniApp's acknowledgement."""
    return _list("inbox", state, as_json, limit)


@click.command()
@_shared
def outbox(state: Path, as_json: bool, limit: int | None) -> int:
    """List the deliveries that wait for an agent's acknowledgement."""
    return _list("outbox", state, as_json, limit)


@click.command()
@_shared
def focus(state: Path, as_json: bool, limit: int | None) -> int:
    """Show the instances of each conversation's focus stack; the last one is in front."""
    return _list("focus", state, as_json, limit)


@click.command()
@stacked(
    _shared,
    only_conversation_option,
    click.option("--all", "closed_too", is_flag=True, help="Also those that were closed."),
)
def surfaces(state: Path, as_json: bool, limit: int | None, conversation_id: str | None, closed_too: bool) -> int:
    """List what apps show in containers of their own; --json has the states."""
    filters: JsonObject = {} if conversation_id is None else {"conversation_id": conversation_id}
    return _list("surfaces", state, as_json, limit, filters | ({"all": True} if closed_too else {}))


@click.command()
@stacked(_shared, only_conversation_option)
def artifacts(state: Path, as_json: bool, limit: int | None, conversation_id: str | None) -> int:
    """List what apps made for agents; an agent gets one with: lineup agent artifact ID FILE."""
    filters: JsonObject = {} if conversation_id is None else {"conversation_id": conversation_id}
    return _list("artifacts", state, as_json, limit, filters)


@click.command()
@stacked(
    _shared,
    only_conversation_option,
    click.option("--all", "ended_too", is_flag=True, help="Also questions that have ended."),
)
def interactions(state: Path, as_json: bool, limit: int | None, conversation_id: str | None, ended_too: bool) -> int:
    """List the questions that wait for a person. With --json all that a host draws: the request, and a draft."""
    wanted: JsonObject = {} if conversation_id is None else {"conversation_id": conversation_id}
    found = rows(state, "interactions", wanted | ({"all": True} if ended_too else {}), limit=limit)
    if as_json:
        return show_rows(found, (), as_json=True)
    return show_rows((_as_line(one) for one in found), _COLUMNS["interactions"], as_json=False)


def _as_line(shown: JsonObject) -> JsonObject:
    record: JsonObject = shown["interaction"]
    owner: JsonObject = record.get("owner", {})
    request: JsonObject = record.get("request", {})
    return owner | record | {"app_title": shown.get("app_title"), "title": request.get("title")}


@click.command()
@stacked(click.argument("instance_id", metavar="INSTANCE"), _shared)
def logs(instance_id: str, state: Path, as_json: bool, limit: int | None) -> int:
    """Show the last lines that an instance's processes wrote."""
    found = list(rows(state, "logs", {"instance_id": instance_id}, limit=limit))
    if not found and all(one.get("instance_id") != instance_id for one in rows(state, "ps", {"all": True})):
        say("there is no such instance; look with: lineup ps, or lineup call ID")
        return FAILED
    for row in found:
        if as_json:
            show_json(row)
        else:
            click.echo(neutral(str(row.get("line", ""))))
    return DONE


def list_audit(state: Path, as_json: bool, limit: int | None, from_start: bool) -> int:
    """List the newest audit entries, or all of them."""
    return _list("audit", state, as_json, limit, {"all": True} if from_start else None)
