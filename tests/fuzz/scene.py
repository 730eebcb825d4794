"""A runtime on the test's own thread in the middle of its work: two agents, a host, an operator, workers in any phase.

The actors, their store and its files are the real ones; processes and sockets are played (`tests/golden_runtime.py`).
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import miniapps
from runtime_actors import registry
from runtime_actors.channel.actor import ChannelActor
from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened, PeerOversized
from runtime_actors.channel.session import Phase, Session
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.protocol import KINDS
from runtime_actors.contract.session import CORE_CAPABILITIES
from runtime_actors.machinery import DaemonMachinery
from runtime_actors.records.audit import anchor, walk
from runtime_actors.records.transaction import Transaction
from runtime_actors.rules.audit import Break
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.store.messages import UsePolicy
from tests.fakes import a_manifest, a_tool, an_app
from tests.fuzz.target import expect
from tests.golden_files import TOKENS, WORKER_TOKEN
from tests.golden_runtime import GoldenRuntime, catalogue
from tests.golden_runtime import _Machinery as GoldenMachinery
from tests.permission_fakes import ruled

AT: Final = "2026-01-01T12:00:00Z"
PID: Final = 4242
CAPABILITIES: Final = [one.to_wire() for one in CORE_CAPABILITIES]
_FIRST_PEER: Final = 1000
_SOON_S: Final = 0.1
"""What was put off for so long only to share a transaction belongs to what caused it."""
_ROOMY: Final = a_manifest(
    "roomy", a_tool("roomy.run", input_schema={"type": "object"}, output_schema={"type": "object"})
)
"""Takes and gives whatever an input or a result may be."""
_ASKER: Final = a_manifest("asker", a_tool("asker.run"), requested_capabilities=["notify", "print", "network.http"])
"""Asks for capabilities, about which there is a rule."""
_RULES: Final = (
    'capability = "notify", decision = "ask"',
    'capability = "print", decision = "ask", for = "always"',
    'tool = "roomy.run", agent = "bob", decision = "ask"',
)
_OTHERS: Final = dict.fromkeys(("alice", "open", "asker", "chat", "stranger"), "bob") | dict.fromkeys(
    ("bob", "others"), "alice"
)
"""By who speaks: whose things that must leave alone."""
HOST: Final = "screen"
NONCE: Final = "n" * 16
CONTENT: Final = b"what was made" * 9
SURE: Final = {"kind": "confirm", "title": "Sure?", "prompt": "It cannot be undone"}
NAME: Final = {
    "kind": "input",
    "title": "Who?",
    "prompt": "",
    "fields": [{"id": "name", "label": "Name", "type": "text", "required": True}],
}
PICK: Final = {"kind": "choice", "title": "Which?", "prompt": "", "mode": "multi-choice",
               "actions": [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]}  # fmt: skip
_FULL: Final = {"a": [0] * 7990}
_FULL_SIDE: Final = {"a": [0] * 990}


@dataclass(frozen=True, slots=True)
class Said:
    """What the runtime said, and did, upon one frame."""

    by_peer: dict[str, list[envelope.Envelope]]
    closed: bool
    """The connection of whoever sent it."""
    rows_changed: int
    """In all tables but the audit's."""
    entries: int
    """Of the audit log."""
    others_touched: bool
    """Something of an agent that the speaker does not speak for is not as it was."""


@dataclass(slots=True)
class _Peer:
    box: str
    door: str
    number: int


@dataclass(slots=True)
class Scene:
    """`peers` by name: alice, bob, stranger (agents' door), host, newhost, control, and workers."""

    golden: GoldenRuntime
    peers: dict[str, _Peer] = field(default_factory=dict)
    attempts: dict[str, str] = field(default_factory=dict)
    """Of a worker."""
    _next_number: int = _FIRST_PEER
    _heard: int = 0
    _hung_up: int = 0
    _ids: int = 0

    @property
    def revision(self) -> str:
        inventory: str = self.golden.rig.actors["gateway"]._inventory.revision  # type: ignore[attr-defined]
        return inventory

    # --- who is there ---

    def connect(self, name: str, door: str) -> None:
        """A new connection of a peer."""
        box = "channel" if door.startswith("w-") else "gateway"
        self._next_number += 1
        self.peers[name] = _Peer(box, door, self._next_number)
        # At the gateway each connection counts for itself, as those behind the relay do.
        self.golden.rig.tell(box, PeerOpened(door, self._next_number, PID if box == "channel" else 0, 0))

    def reconnect(self, name: str) -> None:
        """Its connection was closed: the next one, attached again."""
        peer = self.peers[name]
        self.golden.rig.tell(peer.box, PeerClosed(peer.door, peer.number, CloseReason.CLOSED))
        self.connect(name, peer.door)
        self.attach(name)

    def attach(self, name: str) -> None:
        """Say the first word, if it has one."""
        if name in TOKENS:
            self.must(name, "agent.attach", {"agent": name, "token": TOKENS[name]})
        elif name == "host":
            self.must(name, "host.attach", {"host": HOST, "nonce": NONCE, "surfaces": True})

    def a_worker(self, name: str, phase: Phase, conversation: str, agent: str = "alice") -> None:
        """An instance with a call, and its process as far as `phase`."""
        self.invoke(agent, f"{conversation}.1", conversation)
        self.golden._start_processes()
        self.a_worker_of_the_latest(name, phase)

    def a_worker_of_the_latest(self, name: str, phase: Phase = Phase.OPEN) -> None:
        """The process of the newest attempt comes."""
        sessions = self.channel._sessions.of_attempt
        self.attempts[name] = attempt = next(reversed(sessions))
        self.connect(name, f"w-{attempt}")
        words: list[tuple[str, dict[str, Any]]] = [
            ("session.hello", self.hello(attempt)),
            ("session.confined", {"namespaces": ["mnt"], "landlock_abi": 4, "canaries": {"seal": True}}),
            ("session.ready", {}),
        ]
        steps = {Phase.EXPECTED: 0, Phase.SEALING: 1, Phase.LOADING: 2}.get(phase, 3)
        for kind, body in words[:steps]:
            self.must(name, kind, body)
        if phase is Phase.RESETTING:
            self.channel._reset(sessions[attempt])

    def hello(self, attempt: str) -> dict[str, Any]:
        return {
            "attempt_id": attempt,
            "token": WORKER_TOKEN,
            "sdk_version": "1.0.0",
            "sdkCapabilities": CAPABILITIES,
            "ready": False,
        }

    @property
    def channel(self) -> ChannelActor:
        actor = self.golden.rig.actors["channel"]
        assert isinstance(actor, ChannelActor)
        return actor

    def session(self, name: str) -> Session | None:
        """Of a worker."""
        return self.channel._sessions.of_attempt.get(self.attempts.get(name, ""))

    # --- what is said ---

    def invoke(self, agent: str, call_id: str, conversation: str, tool_id: str = "desk.write") -> None:
        body = {"call_id": call_id, "tool_id": tool_id, "inventory_revision": self.revision, "input": {"text": "hello"}}
        self.must(agent, "tool.invoke", body, conversation)

    def must(self, name: str, kind: str, body: dict[str, Any], conversation: str | None = None) -> None:
        """Something that is accepted."""
        self._ids += 1
        frame = envelope.encode(f"lineup.v1.{kind}", body, id=f"s{self._ids}", sent_at=AT, conversation_id=conversation)
        said = self.say(name, frame)
        answers = said.by_peer.get(name, [])
        refused = [
            one.body
            for one in answers
            if one.type.endswith((".rejected", ".refused")) or not one.body.get("accepted", True)
        ]
        assert not refused, (name, kind, body, refused)

    def say(self, name: str, frame: bytes) -> Said:
        """A peer says something; all that comes of it has come when this returns."""
        rig, peer = self.golden.rig, self.peers[name]
        rows, entries = rig.sql.total_changes, self._entries()
        before = self._of(other := _OTHERS.get(name, ""))
        if len(frame) > codec.MAX_FRAME_BYTES:
            rig.tell(peer.box, PeerOversized(peer.door, peer.number, len(frame)))
        else:
            rig.tell(peer.box, PeerMessage(peer.door, peer.number, frame))
        for soon in [one for one in rig.timers.asked if one.after_s <= _SOON_S]:
            rig.timers.asked.remove(soon)
            soon.mailbox.tell(soon.message)
        rig.settle()
        noted = self._entries() - entries
        hung_up = rig.sockets.closed[self._hung_up :]
        self._hung_up = len(rig.sockets.closed)
        self._no_actor_failed()
        return Said(self._heard_since(), peer.number in hung_up, rig.sql.total_changes - rows - noted, noted,
                    self._of(other) != before)  # fmt: skip

    def _of(self, agent_id: str) -> list[Any]:
        """What nobody but this agent, and its apps, may change."""
        if not agent_id:
            return []
        sql = self.golden.rig.sql
        calls = "select status, cancel_requested, error_code, refused_outputs, length(progress) from calls"
        return [
            *sql.execute(f"{calls} where agent_id = ?", (agent_id,)),
            *sql.execute("select count(*) from inbox where agent_id = ?", (agent_id,)),
            *sql.execute("select count(*) from outbox where agent_id = ?", (agent_id,)),
        ]

    def has_artifact(self, artifact_id: str) -> bool:
        """Whether the store knows it."""
        found = "select 1 from artifacts where artifact_id = ?"
        return self.golden.rig.sql.execute(found, (artifact_id,)).fetchone() is not None

    def _entries(self) -> int:
        return int(self.golden.rig.sql.execute("select coalesce(max(seq), 0) from audit").fetchone()[0])

    def _heard_since(self) -> dict[str, list[envelope.Envelope]]:
        """New frames, each of which its receiver must be able to read."""
        names = {peer.number: name for name, peer in self.peers.items()}
        found: dict[str, list[envelope.Envelope]] = {}
        for number, frame in self.golden.rig.sockets.sent[self._heard :]:
            try:
                said = envelope.decode(frame)
            except codec.IntakeError as error:
                expect(holds=False, what=f"it said what nobody can read: {error}")
            kind = KINDS[said.type]
            kind.body.model_validate(said.body)
            expect(kind.direction == "out", f"it said {said.type}, which others say")
            found.setdefault(names.get(number, ""), []).append(said)
        self._heard = len(self.golden.rig.sockets.sent)
        return found

    def _no_actor_failed(self) -> None:
        rig = self.golden.rig
        expect(not rig.gave_up, f"an actor gave up: {rig.gave_up}")
        expect(not rig.unusable, f"the store broke: {rig.unusable}")
        expect(not rig.aside, f"a message was set aside: {rig.aside[:1]}")
        rebuilt = [name for name, actor in rig.actors.items() if actor.rebuilt]
        expect(not rebuilt, f"an exception escaped, and an actor was rebuilt: {rebuilt}")

    # --- the end ---

    def check(self) -> None:
        """What must hold whatever was said."""
        sql = self.golden.rig.sql
        broken = walk(sql, *anchor(sql))
        expect(not isinstance(broken, Break), f"the audit chain is broken: {broken}")
        expect(not sql.execute("pragma foreign_key_check").fetchall(), "a row refers to nothing")
        [(counted,)] = sql.execute("select cast(total(open_calls) as integer) from agents").fetchall()
        [(opened,)] = sql.execute("select count(*) from calls where due_boot_s is not null").fetchall()
        expect(counted == opened, "the count of open calls is wrong")


class _Machinery(GoldenMachinery):
    """As the daemon reads a log, and an app that has written what no terminal likes."""

    def log_tail(self, instance_id: str, lines: int) -> list[str]:
        return DaemonMachinery.log_tail(cast("DaemonMachinery", SimpleNamespace(logs=self)), instance_id, lines)

    def tail(self, _instance_id: str, lines: int) -> list[str]:
        return ["\U0001f600" * 2000, "a\0b", "\x1b[31m", *["\u4e2d" * 1000] * 197][:lines]


class Stage:
    """A folder, and a new scene in it as often as wanted."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lu-")
        self._made = 0
        self.scene: Scene | None = None

    def set(self, phase: Phase | None = None, workers: int = 0) -> Scene:
        """A new scene; with a phase, also workers in it, named `phase-1` and so on."""
        self.clear()
        self._made += 1
        chat = registry.read_app(Path(miniapps.__file__).parent / "chat", packaged=True)
        apps = {**catalogue().apps, "roomy": an_app(_ROOMY), "asker": an_app(_ASKER), "chat": chat}
        golden = GoldenRuntime(Path(self._folder.name) / str(self._made), Catalogue.of(apps.values()))
        golden.rig.tell("store", UsePolicy(ruled(*_RULES), lambda _: None))
        golden.rig.actors["gateway"]._control._machinery = _Machinery()  # type: ignore[attr-defined]
        scene = self.scene = Scene(golden)
        for name, door in (("alice", "agent"), ("bob", "agent"), ("stranger", "agent"), ("host", "host")):
            scene.connect(name, door)
            scene.attach(name)
        scene.connect("newhost", "host")
        scene.connect("control", "control")
        _play(scene)
        for number in range(1, workers + 1) if phase is not None else ():
            scene.a_worker(f"{phase}-{number}", phase or Phase.OPEN, f"talk{number}")
        return scene

    def crowd(self) -> None:
        """More in it, and larger, than fits one answer."""
        assert self.scene is not None
        _crowd(self.scene)

    def clear(self) -> None:
        """Check the scene, and take it away."""
        scene, self.scene = self.scene, None
        if scene is not None:
            try:
                scene.check()
            finally:
                scene.golden.close()

    def close(self) -> None:
        try:
            self.clear()
        finally:
            self._folder.cleanup()


def _play(scene: Scene) -> None:
    """Calls in every status, texts, results that nobody acknowledged."""
    scene.a_worker("open", Phase.OPEN, "talk")
    for call_id in ("c-run", "c-cancel", "c-done", "c-failed", "c-wait"):
        scene.invoke("alice", call_id, "talk")
    for text in ("t1", "t2"):
        scene.must("alice", "message", {"message_id": text, "app_scope": "desk", "text": "hello"}, "talk")
    for call_id in ("c-run", "c-cancel"):
        scene.must("open", "tools.report_progress", {"call_id": call_id, "progress": {"percent": 10}})
    scene.must("open", "tools.complete", {"call_id": "c-done", "result": {"ok": True}})
    scene.must("open", "tools.fail", {"call_id": "c-failed", "failure": {"code": "app.broken", "message": "it broke"}})
    scene.must("alice", "tool.cancel", {"call_id": "c-cancel"}, "talk")
    scene.a_worker("others", Phase.OPEN, "bobs", "bob")
    _meet_people(scene)
    scene.invoke("bob", "b-wait", "bobs", "desk.open")


def _meet_people(scene: Scene) -> None:
    """Questions with every way to be answered, of policy and an agent too; surfaces, artifacts, what people wrote."""
    for request, call_id in ((SURE, "c-run"), (NAME, None), (PICK, None), (SURE, None)):
        scene.must("open", "ui.request", {"request": request} | ({"parent_call_id": call_id} if call_id else {}))
    scene.must("host", "host.answer", {"interaction_id": "int-4", "approved": True})
    for call_id in ("c-run", None):
        surface = {"kind": "board", "title": "A board", "state": {"a": 1}}
        scene.must("open", "surfaces.open", {"surface": surface} | ({"call_id": call_id} if call_id else {}))
    digest = hashlib.sha256(CONTENT).hexdigest()
    begun = {"name": "made.txt", "media_type": "text/plain", "size": len(CONTENT), "sha256": digest}
    scene.must("open", "artifacts.begin", begun)
    scene.must("open", "artifacts.begin", begun | {"name": "other.txt"})
    whole = {"artifact_id": "art-2", "offset": 0, "content": base64.b64encode(CONTENT).decode()}
    scene.must("open", "artifacts.chunk", whole)
    scene.invoke("alice", "a-run", "talk", "asker.run")
    scene.golden._start_processes()
    scene.a_worker_of_the_latest("asker")
    for capability in ("print", "notify"):
        scene.must("asker", "capabilities.request", {"capability": capability, "reason": "to tell you"})
    scene.must("host", "host.answer", {"interaction_id": _asked(scene), "approved": True})
    scene.must(
        "alice", "tool.call", {"call_id": "q-old", "tool": "confirm", "input": {"title": "?", "prompt": ""}}, "talk"
    )
    scene.golden._start_processes()
    scene.a_worker_of_the_latest("chat")
    for text in ("hello", "again"):
        scene.must("host", "host.text", {"text": text}, "talk")
    scene.must("asker", "tools.complete", {"call_id": "a-run", "result": {"ok": True}})


def _asked(scene: Scene) -> str:
    """The first question of policy that is open."""
    found = (
        "select interaction_id from interactions where source = 'runtime_policy' and status = 'pending' order by rowid"
    )
    [name, *_] = scene.golden.rig.sql.execute(found).fetchone()
    return str(name)


def _crowd(scene: Scene) -> None:
    scene.must("alice", "tool.invoke", {"call_id": "c-full", "tool_id": "roomy.run",
               "inventory_revision": scene.revision, "input": _FULL}, "talk")  # fmt: skip
    scene.golden._start_processes()
    scene.a_worker_of_the_latest("roomy")
    scene.must("roomy", "tools.complete", {"call_id": "c-full", "result": _FULL})
    for number in range(12):
        text = {"message_id": f"full{number}", "app_scope": "desk", "text": "\u00e9" * 1000, "data": _FULL_SIDE}
        scene.must("alice", "message", text, "talk")
    for number in range(40):
        scene.golden.rig.run(_note_settled, number)


def _note_settled(tx: Transaction, number: int) -> None:
    """As when an agent acknowledges as much as it may at once."""
    tx.note("delivery.settled", detail={"numbers": [*range(number * 256, number * 256 + 256)]}, agent_id="alice")
