"""A run of any size that keeps every promise, made up without a runtime: for what depends on its size."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any, Final

from runtime_actors.checker import Evidence
from runtime_actors.checker.chain import GENESIS, digest_of, next_head

ENTRIES_A_CALL: Final = 5
_AT: Final = "2026-01-01T00:00:00.000Z"
_PLACE: Final = {"conversation": "c", "scope": "app"}


class MadeUp:
    """One agent, one instance, one call after the other."""

    def __init__(self) -> None:
        self.audit: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self._head = GENESIS
        self._clock = itertools.count(1)

    def note(self, event: str, subject: dict[str, str], detail: dict[str, Any], digest: str = "") -> dict[str, Any]:
        """Append an entry; the mark that a receipt would carry."""
        row: dict[str, Any] = {"seq": len(self.audit) + 1, "at": _AT, "event": event, "subject": subject}
        row |= {"detail": detail, "digest": digest}
        self._head = next_head(self._head, row)
        row["head_hash"] = self._head.hex()
        self.audit.append(row)
        return {"audit_seq": row["seq"], "head_hash": row["head_hash"]}

    def say(self, what: str, by: str, **fields: object) -> None:
        """Append a line; those of the agent say so."""
        row = {"what": what, "at": next(self._clock) / 1000, "by": by} | fields
        self.history.append(row | ({"agent": "local"} if by == "agent" else {}))


def run(calls: int) -> Evidence:
    """Evidence with `ENTRIES_A_CALL` audit entries a call, and a few."""
    made = MadeUp()
    instance = {"instance_id": "ins", "conversation_id": "c", "app_scope": "app"}
    attempt = {"instance_id": "ins", "attempt_id": "att"}
    made.say("attached", "agent", stream="s")
    made.note("conversation.opened", {"agent_id": "local", "conversation_id": "c"}, {})
    made.note("instance.changed", instance, {"state": "starting"})
    made.note("attempt.started", attempt, {})
    made.note("instance.changed", instance, {"state": "background"})
    made.note("attempt.ready", attempt, {})
    rows = list(_calls(made, calls))
    shown = instance | {"state": "background", "attempt_id": "att"}
    last = {"audit_seq": len(made.audit), "head_hash": made.audit[-1]["head_hash"]}
    status = {"open_calls": 0, "inbox_messages": 0, "outbox_deliveries": 0, "agents": 1, "audit": last}
    listings = {"calls": rows, "inbox": [], "outbox": [], "ps": [shown], "focus": [], "status": [status]}
    return Evidence(made.history, made.audit, listings, echo="text")


def _calls(made: MadeUp, calls: int) -> Iterator[dict[str, Any]]:
    for number in range(1, calls + 1):
        call_id, message_id = f"call-{number}", f"m{number}"
        key = {"agent_id": "local", "conversation_id": "c", "call_id": call_id, "instance_id": "ins"}
        state: dict[str, Any] = {"conversation_id": "c", "call_id": call_id, "status": "waiting_for_app"}
        body = {"call_id": call_id, "tool_id": "app.do", "inventory_revision": "r", "input": {"text": call_id}}
        result = {"text": call_id}

        made.say("invoke", "agent", id=call_id, kind="tool.invoke", conversation="c", body=body)
        path = {"path": ["received", "routing", "waiting_for_app"], "tool_id": "app.do"}
        mark = made.note("call.admitted", key, path, digest_of(body))
        made.say("ok", "agent", id=call_id, body={"repeated": False, "call": state, "audit": mark})
        made.say("given", "worker", **_PLACE, message_id=message_id, call_id=call_id, tool="app.do", repeated=False)
        ack = {"id": f"ack {number}", "kind": "inbox.acknowledge", "body": {"message_id": message_id}}
        made.say("invoke", "worker", **_PLACE, **ack)
        subject = {name: key[name] for name in ("conversation_id", "instance_id", "call_id")}
        made.note("message.acknowledged", subject | {"message_id": message_id}, {})
        made.note("call.running", key, {})
        made.say("ok", "worker", id=f"ack {number}")
        detail = {"from": "running", "to": "completed", "code": None}
        mark = made.note("call.ended", key, detail, digest_of(result))
        end = state | {"status": "completed", "result": result}
        frame = hashlib.sha256(call_id.encode()).hexdigest()
        place = {"stream": "s", "number": number, "kind": "tool.result", "conversation": "c", "frame": frame}
        made.say("delivered", "agent", **place, body={"number": number, "call": end, "audit": mark})
        made.say("settled", "agent", stream="s", numbers=[number])
        made.note("delivery.settled", {"agent_id": "local"}, {"numbers": [number]})
        yield key | {
            "seq": number,
            "tool_id": "app.do",
            "app_scope": "app",
            "status": "completed",
            "error_code": None,
            "cancel_requested": False,
            "crashes": 0,
            "created_at": _AT,
        }
