"""Values that mean something to the runtime of a scene: ids that exist, of oneself and of others, and near misses."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final

from runtime_actors.contract.protocol import Door
from tests.fuzz.scene import CAPABILITIES, CONTENT, NAME, NONCE, PICK, SURE, Scene
from tests.fuzz.shapes import Pools
from tests.fuzz.source import ODD_TEXTS, Source
from tests.golden_files import RELAY_SECRET, TOKENS, WORKER_TOKEN

_CALLS: Final = ("c-run", "c-cancel", "c-done", "c-failed", "c-wait", "talk.1", "b-wait", "bobs.1", "never")
_TOOLS: Final = (*("desk.write",) * 8, "desk.open", "desk.edit", "deaf.run", "vault.read", "screen.draw", "desk.none")
_INPUTS: Final[tuple[Any, ...]] = (
    *({"text": "hello"},) * 6,
    {"text": "", "at": 1.0},
    {"text": "x" * 21},
    {"text": 1},
    {},
    {"at": True},
)
_RESULTS: Final[tuple[Any, ...]] = (*({"ok": True},) * 6, {"ok": False}, {"ok": 1}, {}, {"ok": True, "more": 1})
_FILTERS: Final[tuple[Any, ...]] = (
    *({}, {"call_id": "c-run"}, {"call_id": "c-done"}, {"call_id": "c-full"}, {"call_id": ["c-run"]}),
    *({"all": True}, {"all": {}}, {"status": "running"}, {"status": "' or 1=1 --"}, {"open": 1}),
    *({"agent_id": "bob"}, {"instance_id": "ins-1"}, {"instance_id": "../.."}),
)
_PLACES: Final = ("0", "1", "3", "10", "00", "-1", "", "\u00b2", "\u0663", "9" * 18, "9" * 19, "9" * 30, "9" * 5000)
NOTE: Final = {"kind": "notice", "title": "By the way", "message": "It is late"}
_TEXTS: Final = (
    *("", "hello", "\u202e", "\u00e9\u4e2d\U0001f600", "x" * 2000, "x" * 2001),
    *("x" * 65_536, "\u00e9" * 40_000),
)


def pools(scene: Scene, door: Door, kind: str, to: str) -> Pools:
    """For one kind that one peer says."""
    found: dict[str, Any] = {
        "call_id": _call_id if kind == "tool.invoke" else _CALLS,
        "tool_id": _TOOLS,
        "inventory_revision": (*(scene.revision,) * 9, "r-old"),
        "input": _INPUTS,
        "result": _RESULTS,
        "conversation_id": ("talk", "bobs", "new"),
        "app_scope": (*("desk",) * 6, "deaf", "chat", "vault", "none"),
        "instance_id": ("ins-1", "ins-2", "ins-99"),
        "numbers": _numbers,
        "audit_seq": (1, 2, 3, 7, 10_000, 2**53 - 1),
        "text": _TEXTS,
        "note": _TEXTS[:6],
        "message": _TEXTS[:6],
        "reason": _TEXTS[:6],
        "data": ({}, {"a": 1}, {"a": "x" * 16_384}, {"a": [0] * 1000}),
    }
    found |= _of_people()
    if door == "agent":
        found |= {
            "message_id": lambda source: f"t{source.random.randrange(200)}",
            "agent": (*TOKENS, *TOKENS, "nobody"),
            "token": (*TOKENS.values(), *TOKENS.values(), "wrong", "", "\u00e9", None),
            "secret": (RELAY_SECRET, RELAY_SECRET, "wrong", "\u00e9" * 20, ""),
            "conversations": (None, [], ["talk"], ["talk", "talk"], ["bobs", "new"]),
        }
    elif door == "worker":
        session = scene.session(to)
        others = tuple(scene.attempts.values())
        found |= {
            "message_id": lambda source: f"m{source.random.randrange(12)}" if source.chance(0.9) else source.text(),
            "after_message_id": ("m0", "m1", "m5", "m999999999999999", "m9999999999999999999", None),
            "attempt_id": (*(scene.attempts.get(to, "att-1"),) * 40, *others),
            "token": (*(WORKER_TOKEN,) * 8, "0" * 32, "\u00e9" * 32),
            "session": (*(session.number if session else 1,) * 6, 2, 99),
            "snapshot_digest": (*(session.digest if session else "x",) * 6, "x"),
            "sdkCapabilities": (*(CAPABILITIES,) * 6, [], CAPABILITIES[:1], CAPABILITIES * 20),
        }
    else:
        found |= {
            "name": ("desk", "desk.write", "deaf", "nothing", "alice", "carol", "dave"),
            "filter": _FILTERS,
            "after": lambda source: source.pick((*_PLACES, source.pick(ODD_TEXTS), None, None)),
            "signal": ("SIGKILL", "SIGTERM", "SIG", "", "kill", "__doc__"),
            "attempt_id": (None, "att-1", "att-2"),
            "token_hash": ("a" * 64, "b" * 64, "g" * 64),
            "public_key": (None, None, "k" * 40, "\u00e9" * 40, "x" * 39),
            "path": ("/tmp/x", "", "x", "/", "../x", "\u202e"),  # noqa: S108 - nobody opens it
        }
    return found


def _of_people() -> dict[str, Any]:
    """What is between apps and people."""
    content = base64.b64encode(CONTENT).decode()
    return {
        "interaction_id": (*(f"int-{number}" for number in range(1, 8)), "int-99", "never"),
        "parent_call_id": (None, "c-run", "c-run", "c-done", "b-wait"),
        "surface_id": ("srf-1", "srf-1", "srf-2", "srf-99"),
        "artifact_id": ("art-1", "art-1", "art-2", "art-99"),
        "action_id": ("act-1", "act-1", "act-2", "act-99", None),
        "grant_id": ("gra-1", "gra-2", "gra-99"),
        "key": (None, None, "k1", "k2"),
        "request": (
            SURE,
            NAME,
            PICK,
            NOTE,
            NOTE | {"acknowledge_label": "OK"},
            SURE | {"title": "\u202e"},
            {"kind": "x"},
        ),
        "surface": ({"kind": "board", "title": "B"}, {"kind": "board", "title": "B", "state": {"a": [1, {"b": None}]}}),
        "patch": ({"a": 2}, {"a": None}, {"b": {"c": {"d": 1}}}, {}, {"a": "x" * 65_000}, {"deep": _deep(40)}, None),
        "state": ({}, {"a": 1}, {"a": "x" * 70_000}, {"deep": _deep(70)}),
        "expires_at": (
            None,
            "2026-01-01T13:00:00Z",
            "2020-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
        ),
        "approved": (True, False, None),
        "acknowledged": (True, None, False),
        "action_ids": (None, ["a"], ["b", "a"], ["a", "a"], [], ["c"]),
        "values": (None, {"name": "x"}, {"name": ""}, {"name": 1}, {}, {"name": "x" * 10_001}, {"x": "y"}),
        "sequence": (0, 1, 2, 2**53 - 1),
        "capability": ("notify", "notify", "network.http", "network", "fetch", "print", "x"),
        "host": ("screen", "screen", "other"),
        "nonce": (NONCE, NONCE, "m" * 16, "short"),
        "on_screen": (None, "talk", "bobs", "new"),
        "content": (
            content,
            content,
            content[:8],
            content + "=",
            "",
            "=",
            "not base64 \u00e9",
            content[:-1],
            "A" * 131_072,
        ),
        "sha256": (hashlib.sha256(CONTENT).hexdigest(), "0" * 64, "A" * 64, "0" * 63),
        "size": (len(CONTENT), len(CONTENT), 0, 1, 8 * 1024 * 1024, 8 * 1024 * 1024 + 1),
        "offset": (0, 0, 6, len(CONTENT), 10_000, -1),
        "media_type": ("text/plain", "text/plain", "x"),
        "name": ("made.txt", "made.txt", "../x", "app.leave", "leave"),
    }


def _deep(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


def _call_id(source: Source) -> str:
    return source.pick(_CALLS) if source.chance(0.4) else f"n{source.random.randrange(10_000)}"


def _numbers(source: Source) -> list[int]:
    made = [source.random.randrange(12) for _ in range(1 + source.below(6))]
    return [*made, source.pick((-1, 2**53 - 1, 10_000))] if source.chance(0.2) else made
