"""Who deals with a daemon from outside and may be struck as well: a host and an agent, each as a thread or a process.

`python -m tests.faults.peers host|agent STATE FILE NAME`: until SIGTERM, when what it began has ended. SIGUSR1 cuts its
connection. FILE is its history, a line each, written before anything is
sent; whoever is started again goes on there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from runtime_actors.client import ClientError, HostSession, door_of
from runtime_actors.client.events import Answered
from runtime_actors.client.host import Happened, HostReady
from tests.e2e.agent import AGAIN, Agent, History

_TURN_S: Final = 0.02
_NONCE: Final = "a-nonce-of-the-fault-tests"
_OPEN: Final = frozenset({"pending", "presented"})
_READY: Final = frozenset({"foreground", "background"})
_DRAFTS: Final = 2
_HELD: Final = "-held"
OWN: Final = frozenset({"event", "host-attached"})
"""Lines of a host's history that it writes for itself."""
_ROUND_S: Final = 30.0
LEAVES: Final = "leaves"
"""In a conversation so named, the person wants the app to leave when it has nothing to do."""
FORCED: Final = "forced"
"""In a conversation so named, the person closes the app whatever it does."""


class Journal(list[dict[str, Any]]):
    """A history that is written to a file as it grows."""

    def __init__(self, path: Path) -> None:
        super().__init__(read_journal(path))
        self._file = path.open("a", encoding="utf-8")

    def append(self, row: dict[str, Any]) -> None:
        super().append(row)
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def read_journal(path: Path) -> History:
    """Every whole line; one that a kill cut off never happened."""
    found: History = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


class Host:
    """A person's host. What it does follows from what it is told, under names that another process would choose too."""

    def __init__(self, state: Path, name: str, history: History) -> None:
        self._state, self.name, self.history = state, name, history
        self._prefix = f"{name}-{secrets.token_hex(4)}"
        self._open: dict[str, tuple[str, dict[str, Any], str | None, str]] = {}
        """By the request's id: type, body, conversation, and the operation's id in the history."""
        self._later: list[tuple[float, str]] = []
        self._begun: set[str] = set()
        self._screens = 0
        answered = {row["id"] for row in history if row["what"] in {"ok", "fail"}}
        self._undone = [row for row in history if row["what"] == "invoke" and "host" in row]
        self._undone = [row for row in self._undone if row["id"] not in answered]
        """What an earlier process had begun."""
        self.cut = threading.Event()
        self.over = threading.Event()
        self.answered = 0

    def run(self) -> None:
        """Until it is over."""
        after = max((one["number"] for one in self.history if one["what"] == "event"), default=None)
        stream = next((one["stream"] for one in self.history[::-1] if one["what"] == "host-attached"), None)
        while not self.over.is_set():
            with HostSession(
                door_of(self._state, "host"),
                self.name,
                nonce=_NONCE,
                surfaces=True,
                stream=stream,
                after_number=after if stream is not None else None,
            ) as session:
                self._live(session)
                after, stream = session.acknowledged, session.stream
            self.cut.clear()

    def _live(self, session: HostSession) -> None:
        while not self.over.is_set() and not self.cut.is_set():
            with contextlib.suppress(ClientError):
                self._hear(session)
                self._repeat(session)

    def _hear(self, session: HostSession) -> None:
        news = session.next_news(_TURN_S)
        match news:
            case HostReady(attached):
                self.note("host-attached", stream=attached.stream)
                self._look(session)
            case Happened(event):
                self._happened(session, event.kind, event.conversation_id, event.data)
                self.note("event", number=event.number, kind=event.kind)
                session.acknowledge(news.number)
            case Answered():
                self._take(news)
            case _:
                pass

    def _look(self, session: HostSession) -> None:
        """All that is open, and what was begun and not answered."""
        for request_id, (kind, body, conversation, _) in tuple(self._open.items()):
            session.send(f"lineup.v1.{kind}", body, conversation_id=conversation, request_id=request_id)
        for row in self._undone:
            self._do(session, row["kind"], row["body"], row["request_id"], row["conversation"])
        for row in session.rows("interactions"):
            self._consider(session, row["interaction"])
        for row in session.rows("surfaces"):
            self._draw(session, row)

    def _happened(self, session: HostSession, kind: str, conversation: str, data: dict[str, Any]) -> None:
        if kind in {"interaction.opened", "interaction.changed"}:
            self._consider(session, data["interaction"])
        elif kind == "surface.opened":
            self._draw(session, data["surface"])
        elif kind == "text.agent":
            body = {"text": f"heard {data['text']}"}
            self._do(session, "host.text", body, f"{data['message_id']}/text", conversation)
        elif kind == "instance.changed":
            self._instance(session, conversation, data)

    def _instance(self, session: HostSession, conversation: str, data: dict[str, Any]) -> None:
        name, is_ready = data["instance_id"], data["state"] in _READY
        if data["app_scope"] != "social":
            return
        if is_ready and conversation.startswith(FORCED):
            self._do(session, "host.act", {"instance_id": name, "action": "force_close"}, f"{name}/force")
        elif is_ready:
            self._do(session, "host.act", {"instance_id": name, "action": "focus"}, f"{name}/focus")
            self._do(session, "host.act", {"instance_id": name, "action": "close"}, f"{name}/close")
            self._show(session, conversation)
        if data["state"] == "suspended" and conversation.startswith(LEAVES):
            body = {"instance_id": name, "action": "app", "name": "leave"}
            self._do(session, "host.act", body, f"{name}/leave")

    def _show(self, session: HostSession, conversation: str) -> None:
        self._screens += 1
        session.show(conversation if self._screens % 2 else None)

    def _consider(self, session: HostSession, asked: dict[str, Any]) -> None:
        name, title = asked["interaction_id"], asked.get("request", {}).get("title", "")
        if asked["status"] not in _OPEN or title.startswith(("expire", "cancel", "linger")):
            return
        self._do(session, "host.presented", {"interaction_id": name}, f"{name}/presented")
        if title in {"draft", "wait"}:
            for sequence in range(1, _DRAFTS + 1):
                draft = {"interaction_id": name, "sequence": sequence, "values": {"name": "x" * sequence}}
                self._do(session, "host.draft", draft, f"{name}/draft{sequence}")
        if title == "dismiss":
            self._do(session, "host.dismiss", {"interaction_id": name}, f"{name}/answer")
        elif title != "wait" and (asked["kind"] != "notice" or asked["request"].get("acknowledge_label")):
            self._do(session, "host.answer", {"interaction_id": name, **_answer(asked)}, f"{name}/answer")

    def _draw(self, session: HostSession, surface: dict[str, Any]) -> None:
        name = surface["surface_id"]
        for op, more in (("update", {"patch": {"drawn": {"by": name}}}), ("ask", {}), ("submit", {})):
            self._do(session, "host.surface", {"surface_id": name, "op": op, **more}, f"{name}/{op}")

    # --- asking ---

    def _do(
        self, session: HostSession, kind: str, body: dict[str, Any], request_id: str, conversation: str | None = None
    ) -> None:
        """Once by this process."""
        if request_id in self._begun:
            return
        self._begun.add(request_id)
        operation = f"{self._prefix}/{len(self._begun)}"
        self.note("invoke", id=operation, kind=kind, body=body, conversation=conversation, request_id=request_id)
        self._open[request_id] = kind, body, conversation, operation
        session.send(f"lineup.v1.{kind}", body, conversation_id=conversation, request_id=request_id)

    def _take(self, news: Answered) -> None:
        known = self._open.get(news.request_id)
        if known is None:
            return
        code = news.body.get("code") if news.kind == "lineup.v1.rejected" else None
        if code in AGAIN:
            self.note("info", id=known[3], code=code)
            self._later.append((time.monotonic() + _TURN_S, news.request_id))
            return
        del self._open[news.request_id]
        self.answered += 1
        self.note("ok" if code is None else "fail", id=known[3], body=news.body, code=code)

    def _repeat(self, session: HostSession) -> None:
        """What could not be decided a moment ago."""
        now = time.monotonic()
        for _, request_id in [one for one in self._later if one[0] <= now]:
            kind, body, conversation, _ = self._open[request_id]
            session.send(f"lineup.v1.{kind}", body, conversation_id=conversation, request_id=request_id)
        self._later = [one for one in self._later if one[0] > now]

    def note(self, what: str, **fields: object) -> None:
        self.history.append({"what": what, "at": time.monotonic(), "by": self._prefix, "host": self.name, **fields})


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    match asked["kind"]:
        case "confirm":
            return {"approved": True}
        case "choice":
            return {"action_ids": [asked["request"]["actions"][0]["id"]]}
        case "input":
            return {"values": {asked["request"]["fields"][0]["id"]: "x"}}
        case _:
            return {"acknowledged": True}


# --- as a process ---


class Struck:
    """What signals say."""

    def __init__(self, journal: Path) -> None:
        self.over = threading.Event()
        self.cut = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.over.set())
        signal.signal(signal.SIGUSR1, lambda *_: self.cut.set())
        ready(journal).write_text(str(os.getpid()))


def ready(journal: Path) -> Path:
    """The file that names the process that hears signals by now."""
    return journal.with_suffix(".ready")


def be_host(state: Path, path: Path, name: str) -> None:
    struck = Struck(path)
    host = Host(state, name, Journal(path))
    host.cut, host.over = struck.cut, struck.over
    host.run()


def be_agent(state: Path, path: Path, name: str) -> None:
    """As many rounds of calls as are wanted, each call under a name that a later process would choose too."""
    struck, history = Struck(path), Journal(path)
    with Agent(state, name, history=history) as agent:
        agent.attached(_ROUND_S)
        number = _go_on(agent, history)
        while not struck.over.is_set():
            agent.pump(_TURN_S)
            if number < wanted(path):
                number += 1
                _round(agent, struck, f"{name}{number}")
        _until_done(agent, struck)


def wanted(journal: Path) -> int:
    """How many rounds an agent is to play: a number in a file beside its journal, which outlives it."""
    path = journal.with_suffix(".rounds")
    return int(path.read_text()) if path.exists() else 0


def want_another(journal: Path) -> None:
    """One more."""
    new = journal.with_suffix(".new")
    new.write_text(str(wanted(journal) + 1))
    new.replace(journal.with_suffix(".rounds"))


def _go_on(agent: Agent, history: History) -> int:
    """Ask again for what an earlier process of this name had asked for, and hear how it ends."""
    asked = {
        (row["conversation"], row["body"]["call_id"]): row["body"]
        for row in tuple(history)
        if row["what"] == "invoke" and row["kind"] == "tool.invoke"
    }
    done = {
        (row["conversation"], row["body"]["call"]["call_id"])
        for row in tuple(history)
        if row["what"] == "delivered" and "call" in row["body"]
    }
    for (conversation, call_id), body in asked.items():
        if (conversation, call_id) not in done:
            agent.invoke_with(
                body["tool_id"],
                body["input"],
                conversation=conversation,
                call_id=call_id,
                revision=body["inventory_revision"],
            )
            if call_id.endswith(_HELD):
                agent.accepted((conversation, call_id), _ROUND_S)
                agent.cancel((conversation, call_id))
    return len({conversation for conversation, _ in asked})


def _round(agent: Agent, struck: Struck, here: str) -> None:
    for name, tool, text in (
        ("echo", "probe.echo", "echo"),
        ("ask", "social.ask", "answer"),
        ("draw", "social.draw", "shut"),
        ("guarded", "social.guarded", "guarded"),
    ):
        agent.invoke(tool, text, conversation=here, call_id=f"{here}-{name}")
    question = {"title": "Sure?", "prompt": here}
    agent.invoke_with("chat.confirm", question, conversation=here, call_id=f"{here}-confirm")
    held = agent.invoke("probe.hold", "held", conversation=here, call_id=f"{here}{_HELD}")
    agent.accepted(held, _ROUND_S)
    agent.cancel(held)
    _until_done(agent, struck)


def _until_done(agent: Agent, struck: Struck) -> None:
    deadline = time.monotonic() + _ROUND_S
    while agent.open_calls() and time.monotonic() < deadline:
        agent.pump(_TURN_S)
        if struck.cut.is_set():
            struck.cut.clear()
            agent.disconnect()


KINDS: Final[dict[str, Callable[[Path, Path, str], None]]] = {"host": be_host, "agent": be_agent}


if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
