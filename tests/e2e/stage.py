"""A daemon with two agents, and the proof that something bad left a code, an audit entry, and nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from runtime_actors.client import Connection, door_of
from runtime_actors.contract import envelope
from tests.e2e.agent import Agent
from tests.e2e.daemon import APPS, QUICK, Daemon, wait_until
from tests.faults.world import worker_words

AT: Final = "2026-01-01T00:00:00Z"
_KEPT: Final = ("calls", "inbox", "outbox", "ps", "focus", "inventory")
_VOLATILE: Final = frozenset({"rss_bytes"})

Entry = tuple[str, str]
"""Event and code."""


class Stage:
    """`agent` and `other` are two identities of one daemon."""

    def __init__(self, state: Path, *apps: Path, options: Sequence[str] = ()) -> None:
        found = (APPS / "probe", APPS / "guest", APPS / "hostile", *apps)
        self.daemon = Daemon(state, apps=found, options=(*QUICK, *options))
        self.agent = Agent(state)
        self.other = Agent(state, "other")

    def __enter__(self) -> Self:
        self.daemon.start()
        token = secrets.token_urlsafe(32)
        (self.daemon.state / "tokens" / "other").write_text(f"{token}\n")
        hashed = hashlib.sha256(token.encode()).hexdigest()
        self.daemon.control("add_agent", {"name": "other", "token_hash": hashed})
        self.agent.attached()
        self.other.attached()
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.close()
        self.other.close()
        self.daemon.close()

    # --- doing ---

    def serves(self) -> None:
        """Another app's call, of another agent, in another conversation, still completes."""
        revision = self.other.ask("inventory.get", {})[1]["revision"]
        given = {"text": "still there"}
        key = self.other.invoke_with("guest.echo", given, conversation="elsewhere", revision=revision)
        assert self.other.final(key)["result"]["text"] == "still there"

    def hold(self, conversation: str) -> tuple[str, str]:
        """A call that stays open until its agent cancels it."""
        key = self.agent.invoke("probe.hold", "held", conversation=conversation)
        self.agent.wait("it runs", lambda: self.agent.get(key)[1]["call"]["status"] == "running")
        return key

    def release(self, key: tuple[str, str]) -> None:
        """Cancel what `hold` made."""
        self.agent.cancel(key)
        assert self.agent.final(key)["status"] == "cancelled"

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection of its own to the agents' door."""
        made = Connection(self.agent._context, door_of(self.daemon.state, "agent"))
        try:
            made.wait_open(5)
            yield made
        finally:
            made.close()

    # --- looking ---

    @contextlib.contextmanager
    def nothing_changes_but(self, *expected: Entry) -> Iterator[None]:
        """What happens within leaves these audit entries and no other trace, and the daemon serves afterwards."""
        self.settle()
        before, seq = self.records(), self.last_seq()

        yield

        found = wait_until("the audit entries", lambda: self._entries(seq, len(expected)))
        assert sorted(found) == sorted(expected)
        assert self.records() == before
        self.serves()

    def settle(self) -> None:
        """Until every delivery was acknowledged and no instance is between two states."""

        def look() -> bool:
            self.agent.pump(0.01)
            self.other.pump(0.01)
            states = {row["state"] for row in self.daemon.listed("ps")}
            return not self.daemon.listed("outbox") and states <= {"foreground", "background"}

        wait_until("quiet", look, 20)

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """All records but the audit log."""
        return {
            what: [{key: row[key] for key in row.keys() - _VOLATILE} for row in self.daemon.listed(what)]
            for what in _KEPT
        }

    def last_seq(self) -> int:
        """Where the audit log ends."""
        return int(self.daemon.control("verify_audit", {})["data"]["audit_seq"])

    def refusals(self, seq: int = 0) -> list[Entry]:
        """The refusals noted since."""
        return [one for one in self._entries(seq, 0) if one[0].endswith("refused")]

    def ends(self, instance_id: str) -> list[str]:
        """The reasons with which processes of an instance ended."""
        rows = self.daemon.audit("attempt.ended")
        return [row["detail"]["reason"] for row in rows if row["subject"]["instance_id"] == instance_id]

    def said(self, call_id: str) -> list[tuple[str, bool, str | None]]:
        """What the hostile app was answered: word, whether it was accepted, and the code."""
        rows = [one for one in worker_words(self.daemon) if one["what"] == "said" and one["call_id"] == call_id]
        return [(one["word"], one["accepted"], one["code"]) for one in rows]

    def _entries(self, seq: int, at_least: int) -> list[Entry]:
        rows = [row for row in self.daemon.audit() if row["seq"] > seq]
        return [(row["event"], row["detail"].get("code", "")) for row in rows] if len(rows) >= at_least else []


def a_frame(kind: str, body: dict[str, Any], request_id: str = "q", **more: Any) -> bytes:  # noqa: ANN401
    """A frame that holds, of an agent."""
    return envelope.encode(f"lineup.v1.{kind}", body, id=request_id, sent_at=AT, **more)
