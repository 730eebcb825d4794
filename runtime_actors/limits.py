"""Every limit that somebody outside can meet: its value, what happens at it, where it is set.

`docs/limits.md` is printed from this table, and each code in it is reached by a test (`tests/test_limits.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime_actors.channel.door import SocketLimits
from runtime_actors.channel.session import MAX_IDLE_FRAMES, MAX_INVALID
from runtime_actors.commands import agents, permissions, receipts, screens
from runtime_actors.commands import questions as asking
from runtime_actors.config import RuntimeConfig
from runtime_actors.contract import base, codec, interactions, json_schema, lifecycle, manifest, surfaces
from runtime_actors.contract.rejection import RejectionCode as Code
from runtime_actors.gateway.peers import MAX_MISUSE, MISUSE_PERIOD_S
from runtime_actors.registry import MAX_MANIFEST_BYTES
from runtime_actors.rules import artifacts, calls, delivery, flood, grants, policy_text, rates
from runtime_actors.rules import interactions as questions
from runtime_actors.rules import lifecycle as lifecycle_rules
from runtime_actors.rules import surfaces as surface_rules
from runtime_actors.rules.rates import Rate
from runtime_actors.shell import feed

_BOUNDS: Final = "`config.Bounds`"
_PROTOCOL: Final = "the protocol"
_RUNS: Final = RuntimeConfig(state=Path("/"))
_DEFAULTS: Final = _RUNS.bounds
_SOCKETS: Final = SocketLimits()


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit."""

    name: str
    value: str
    code: Code | None
    """What is answered at it; None where something else happens."""
    what: str
    """What happens at it, in words."""
    where: str
    """Where it is set."""


@dataclass(frozen=True, slots=True)
class Section:
    """Limits of one kind."""

    title: str
    limits: tuple[Limit, ...]


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count:,} bytes"


def _rate(rate: Rate) -> str:
    return f"{rate.per_s:,g} a second, {rate.burst:,} at once"


SECTIONS: Final = (
    Section(
        "How often",
        (
            Limit(
                "what one agent invokes, sends and reads of artifacts",
                _rate(_DEFAULTS.agent_rate),
                Code.RATE_EXCEEDED,
                "refused, and nothing is done; over all connections of the agent",
                _BOUNDS,
            ),
            Limit(
                "what one instance asks for",
                _rate(_DEFAULTS.instance_rate),
                Code.RATE_EXCEEDED,
                "refused, and the SDK asks again by itself; what only reads, or ends a call or a message, is exempt",
                _BOUNDS,
            ),
            Limit(
                "requests of one worker without an answer",
                f"{delivery.WINDOW}",
                Code.CREDIT_EXCEEDED,
                "the SDK waits; a worker that does not is ended with this reason",
                _PROTOCOL,
            ),
            Limit(
                "frames of a worker that cannot be read, or have no effect",
                f"{MAX_INVALID}, {MAX_IDLE_FRAMES} a beat",
                None,
                "its process is ended with the reason `protocol_error`; a large frame counts as several",
                "`channel/session.py`",
            ),
            Limit(
                "senseless frames of one process at the doors",
                f"{MAX_MISUSE} points in {MISUSE_PERIOD_S:g} s",
                None,
                "its connection is closed",
                "`gateway/peers.py`",
            ),
            Limit(
                "audit entries of one kind and subject",
                f"{flood.PLAIN} in {flood.PERIOD_S:g} s",
                None,
                "the rest is counted, and one entry says how many",
                "`rules/flood.py`",
            ),
            Limit(
                "audit entries of what was refused for its rate",
                f"1 in {rates.NEWS_EVERY_S:g} s",
                None,
                "those between are only answered",
                "`rules/rates.py`",
            ),
        ),
    ),
    Section(
        "How much at a time",
        (
            Limit("processes of MiniApps", f"{_DEFAULTS.live_processes}", None, "launches wait in order", _BOUNDS),
            Limit(
                "open calls",
                f"{_DEFAULTS.open_calls:,}, of one instance {_DEFAULTS.open_calls_per_instance:,}",
                Code.BUSY,
                "the call is refused",
                _BOUNDS,
            ),
            Limit(
                "texts and actions that one inbox holds",
                f"{_DEFAULTS.inbox_messages:,}",
                Code.BUSY,
                "the text is refused; what a MiniApp asked for itself still gets in",
                _BOUNDS,
            ),
            Limit(
                "deliveries of one agent that it has not acknowledged",
                f"{_DEFAULTS.outbox_deliveries:,}",
                Code.BUSY,
                "its next call is refused; results of open calls still get in",
                _BOUNDS,
            ),
            Limit("progress of one call", "1", None, "a newer report replaces one that was not acknowledged", "fixed"),
            Limit(
                "messages in flight to one worker",
                f"{delivery.WINDOW}, together {_size(delivery.WINDOW_BYTES)}",
                None,
                "the rest waits in the store",
                _PROTOCOL,
            ),
            Limit(
                "deliveries in flight to one attachment of an agent",
                f"{delivery.AGENT_WINDOW}",
                None,
                "the rest waits in the store",
                _PROTOCOL,
            ),
            Limit(
                "events ahead of a host's acknowledgement",
                f"{feed.WINDOW}",
                None,
                "the rest waits in the store",
                _PROTOCOL,
            ),
            Limit(
                "messages that wait for an actor",
                f"{_DEFAULTS.mailbox:,}",
                Code.BUSY,
                "its peers are no longer read; new work that would wait for the store is refused",
                _BOUNDS,
            ),
            Limit(
                "bytes that wait for a peer that does not read",
                _size(_SOCKETS.write_bytes),
                None,
                "its connection is closed as `slow_consumer`",
                "`channel/door.py`",
            ),
        ),
    ),
    Section(
        "Questions",
        (
            Limit(
                "questions that are open, or ended and not acknowledged",
                f"{_DEFAULTS.interactions_per_instance} of one instance, {_DEFAULTS.interactions_per_app} of one app, "
                f"{_DEFAULTS.interactions:,} of all; `chat` and the runtime {_DEFAULTS.interactions:,} more, "
                f"of the runtime {_DEFAULTS.interactions_per_app} about one app",
                Code.BUSY,
                "the question, or the call that needs one, is refused",
                _BOUNDS,
            ),
            Limit(
                "questions of an instance whose end it has acknowledged",
                f"{asking.SETTLED_KEPT}",
                None,
                "the oldest are forgotten, and their keys with them",
                "`commands/questions.py`",
            ),
            Limit(
                "a question in canonical form",
                _size(questions.MAX_REQUEST_BYTES),
                Code.INTERACTION_INVALID,
                "it is refused",
                _PROTOCOL,
            ),
            Limit(
                "a draft, or an answer, in canonical form",
                _size(questions.MAX_RESULT_BYTES),
                Code.INTERACTION_INVALID,
                "it is refused. One draft is kept for each open `input`",
                _PROTOCOL,
            ),
            Limit(
                "actions of a choice, fields of an input",
                f"{interactions.MAX_ACTIONS}, {interactions.MAX_FIELDS}",
                Code.MESSAGE_INVALID,
                "the question is refused",
                _PROTOCOL,
            ),
            Limit(
                "how long a question may stop the clock of its call",
                f"{questions.LONGEST_WITH_CALL_S / 86_400:g} days after the call was made",
                None,
                "it expires",
                _PROTOCOL,
            ),
            Limit(
                "how long a question of policy waits",
                f"{permissions.ANSWER_WITHIN_S:g} s, or the tool's `timeout_ms` if that is longer",
                Code.PERMISSION_DECLINED,
                "it expires, and what waited for it is not done",
                "`commands/permissions.py`",
            ),
            Limit(
                "after a no to a permission",
                f"{grants.DECLINE_REMEMBERED_S:g} s",
                Code.PERMISSION_DECLINED,
                "the person is not asked for it again",
                "`rules/grants.py`",
            ),
            Limit(
                "after a person dismissed or closed an app",
                f"{lifecycle_rules.KEPT_BACK_S:g} s",
                Code.LIFECYCLE_DENIED,
                "its wish for the front is refused, and its questions are listed only",
                "`rules/lifecycle.py`",
            ),
        ),
    ),
    Section(
        "Surfaces and artifacts",
        (
            Limit("open surfaces of one instance", f"{surface_rules.MAX_OPEN}", Code.BUSY, "it is not opened", "fixed"),
            Limit(
                "the state of a surface in canonical form",
                _size(surfaces.MAX_SURFACE_STATE_BYTES),
                Code.SURFACE_INVALID,
                "the surface, or the patch, is refused",
                _PROTOCOL,
            ),
            Limit(
                "an artifact",
                f"{_size(surfaces.MAX_ARTIFACT_BYTES)}, in pieces of {_size(surfaces.CHUNK_BYTES)}",
                Code.MESSAGE_INVALID,
                "it is refused",
                _PROTOCOL,
            ),
            Limit(
                "artifacts of one conversation",
                f"{artifacts.MAX_OF_CONVERSATION}, together {_size(artifacts.MAX_BYTES_OF_CONVERSATION)}",
                Code.BUSY,
                "the next one is refused",
                "`rules/artifacts.py`",
            ),
            Limit(
                "all artifacts",
                _size(artifacts.MAX_BYTES),
                Code.BUSY,
                "the next one is refused",
                "`rules/artifacts.py`",
            ),
            Limit(
                "an artifact that does not become complete",
                f"{artifacts.UNFINISHED_S / 3600:g} h",
                Code.ARTIFACT_NOT_FOUND,
                "it is dropped",
                "`rules/artifacts.py`",
            ),
        ),
    ),
    Section(
        "One message",
        (
            Limit("a frame", _size(codec.MAX_FRAME_BYTES), Code.MESSAGE_TOO_LARGE, "it is refused", _PROTOCOL),
            Limit(
                "nesting and nodes of a frame",
                f"{codec.MAX_DEPTH}, {codec.MAX_NODES:,}",
                Code.MESSAGE_INVALID,
                "it is refused",
                _PROTOCOL,
            ),
            Limit(
                "an input or a result in canonical form",
                f"{_size(base.MAX_PAYLOAD_BYTES)}, nesting {base.MAX_PAYLOAD_DEPTH}, {base.MAX_PAYLOAD_NODES:,} nodes",
                Code.MESSAGE_TOO_LARGE,
                "the call is refused; a result counts as invalid",
                _PROTOCOL,
            ),
            Limit(
                "`data` of a progress report, a failure, a text or an action",
                _size(base.MAX_SIDE_BYTES),
                Code.MESSAGE_INVALID,
                "it is refused",
                _PROTOCOL,
            ),
            Limit(
                "a text of an agent or a person",
                _size(lifecycle.MAX_TEXT_BYTES),
                Code.MESSAGE_INVALID,
                "it is refused",
                _PROTOCOL,
            ),
        ),
    ),
    Section(
        "How long, and how many times",
        (
            Limit(
                "active time of a call",
                f"the tool's `timeout_ms`, {manifest.DEFAULT_TIMEOUT_MS / 60_000:g} minutes if it names none",
                Code.DEADLINE_PASSED,
                "the call ends `expired`",
                "the manifest",
            ),
            Limit(
                "after a wish to cancel",
                f"{_RUNS.cancel_grace_s:g} s",
                Code.CANCEL_GRACE_PASSED,
                "the call ends `cancelled`",
                "`lineup run --cancel-grace`",
            ),
            Limit(
                "deaths of the process that had a call",
                f"{calls.MAX_CRASHES}",
                Code.APP_CRASHED,
                "the call ends `failed`",
                "`rules/calls.py`",
            ),
            Limit(
                "invalid results of a call",
                f"{calls.MAX_REFUSED_OUTPUTS}",
                Code.TOOL_OUTPUT_INVALID,
                "each is refused; with the last one the call ends `failed`",
                "`rules/calls.py`",
            ),
            Limit(
                "answers that are kept for repeated requests of one worker",
                f"{receipts.KEPT}",
                None,
                "older ones are forgotten; twice as many as a worker may have unanswered",
                "`commands/receipts.py`",
            ),
            Limit(
                "deliveries that nobody reads",
                f"{agents.UNREAD_DAYS} days",
                None,
                "dropped; the calls can still be read",
                "`commands/agents.py`",
            ),
            Limit(
                "events that are kept for hosts",
                f"{screens.KEPT:,}",
                None,
                "a host that missed more is told so, and reads the listings",
                "`commands/screens.py`",
            ),
        ),
    ),
    Section(
        "What is written by hand",
        (
            Limit(
                "a manifest",
                _size(MAX_MANIFEST_BYTES),
                Code.MANIFEST_INVALID,
                "the app is left out",
                "`registry.py`",
            ),
            Limit(
                "a schema of a tool",
                f"{_size(json_schema.MAX_SCHEMA_BYTES)}, {json_schema.MAX_SCHEMA_NODES:,} nodes, "
                f"nesting {json_schema.MAX_SCHEMA_DEPTH}",
                Code.MANIFEST_INVALID,
                "the app is left out",
                "`contract/json_schema.py`",
            ),
            Limit(
                "a policy file",
                f"{_size(policy_text.MAX_BYTES)}, {policy_text.MAX_RULES:,} rules, {policy_text.MAX_PARTS} parts "
                "of names a line",
                Code.POLICY_INVALID,
                "a start is refused, a reload keeps the old policy",
                "`rules/policy_text.py`",
            ),
            Limit(
                "what one process of an app may use",
                f"{manifest.MOST_LIMITS.memory_mb:,} MiB, {manifest.MOST_LIMITS.cpu_s:,} s of processor time, "
                f"{manifest.MOST_LIMITS.files:,} descriptors, {manifest.MOST_LIMITS.threads} threads; a manifest that "
                f"names none: {manifest.Limits().memory_mb}, {manifest.Limits().cpu_s:,}, {manifest.Limits().files}, "
                f"{manifest.Limits().threads}",
                None,
                "the process fails at it, or is ended with a reason that names it (isolation.md)",
                "the manifest, `lineup run --max-...`",
            ),
        ),
    ),
)
"""The table."""

_HEAD: Final = """# Limits

Printed by `scripts/limits_page.py` from `runtime_actors/limits.py`; a test fails when this page is not what the code
says, and each code here is reached by a test (`tests/test_limits.py`). *Fixed* and *the protocol* cannot be configured.

A refusal at a limit is one like all others: nothing was done, and the same request may be made again. `busy` says that
somebody has to finish something first, `rate_exceeded` that a second is enough, `message_too_large` and the
`..._invalid` that this request never will do.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for section in SECTIONS:
        lines = [f"## {section.title}", "", "| limit | value | code | at it | set in |", "|---|---|---|---|---|"]
        lines += [
            f"| {one.name} | {one.value} | {f'`{one.code}`' if one.code else ''} | {one.what} | {one.where} |"
            for one in section.limits
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
