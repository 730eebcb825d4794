"""The runtime's end of the golden stories: its own actors over a real store, with a peer at each door.

Processes are left out: whoever needs one is told at once that it was forked, and its worker's words are the story's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import miniapps
from runtime_actors import registry
from runtime_actors.channel import messages as channel
from runtime_actors.channel.events import PeerMessage, PeerOpened, PeerOversized, SocketEvent
from runtime_actors.channel.session import Verdict
from runtime_actors.commands import agents, apps, follow_ups, instances, interactions
from runtime_actors.commands.policy_changes import PolicyInForce
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.protocol import KINDS
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.session import MiniAppContextModel
from runtime_actors.gateway.actor import GatewayActor
from runtime_actors.gateway.control import Control
from runtime_actors.outbox.actor import OutboxActor
from runtime_actors.router.actor import RouterActor
from runtime_actors.rules.inventory import Catalogue, Inventory
from runtime_actors.rules.registration import RegisteredApp, register
from runtime_actors.shell.actor import ShellActor
from runtime_actors.store.messages import UsePolicy
from runtime_actors.supervisor.messages import Signal
from tests.actor_fakes import SWEEP_S, Rig, a_channel
from tests.commands.people import CHAT
from tests.fakes import some_settings
from tests.golden_files import RELAY_SECRET, TOKENS, WORKER_TOKEN, Case, manifests
from tests.permission_fakes import ruled

VOLATILE: Final = frozenset({"audit_seq", "head_hash", "stream", "entries", "detail"})
"""Places on the audit chain, and sentences for people: only their type belongs to a shape."""
WITH_PEOPLE: Final = frozenset({"hosts"})
"""Stories whose runtime has `chat`. The others have their own inventory revisions in them."""
WITH_QUESTIONS: Final = frozenset({"questions", "agent_questions"})
"""Likewise, those whose `chat` is the packaged one, with the tools by which agents ask."""
_REFUSALS: Final = frozenset({"lineup.v1.rejected", "lineup.v1.session.refused"})


@dataclass(frozen=True, slots=True)
class Said:
    """One frame that the runtime said to a peer."""

    peer: str
    said: envelope.Envelope


def catalogue(story: str = "") -> Catalogue:
    """Of the manifests that are to be accepted; with the app for plain talk in the stories that people take part in."""
    found = [register(one.manifest, f"/apps/{one.name}", packaged=False) for one in manifests()]
    if story in WITH_PEOPLE:
        found.append(register(CHAT, "/apps/chat", packaged=True))
    if story in WITH_QUESTIONS:
        found.append(registry.read_app(Path(miniapps.__file__).parent / "chat", packaged=True))
    return Catalogue.of(one for one in found if isinstance(one, RegisteredApp))


class GoldenRuntime:
    """Plays one story."""

    def __init__(self, state: Path, known: Catalogue | None = None) -> None:
        known = known or catalogue()
        self.rig = Rig(state, some_settings(known))
        self.said: list[Said] = []
        """Since the last thing that happened, in order; what was compared with a case is taken out."""
        self._peers: dict[str, tuple[str, int]] = {}
        self._doors: dict[str, str] = {"agent": "agent", "host": "host", "control": "control"}
        self._heard = 0
        for name, token in TOKENS.items():
            self.rig.run(agents.add_agent, agents.NewAgent(name, hashlib.sha256(token.encode()).digest(), None))
        self._plug(known)

    def play(self, case: Case) -> str:
        """Let it happen, and say what became of it: `accepted`, or the code of a refusal."""
        if case.when is not None:
            self._happen(case.when)
        if case.direction == "out":
            return self._compare(case)
        box, number = self._peer(case)
        self.said.clear()
        self.rig.tell(box, self._event(case, number))
        self._start_processes()
        self._listen()
        answers = [one.said for one in self.said if one.peer == case.peer and _answers(one.said, case)]
        if case.answer is not None:
            assert [answer.type for answer in answers] == [case.answer], (case.name, answers)
        return _outcome(answers)

    def close(self) -> None:
        self.rig.close()

    # --- what happens ---

    def _compare(self, case: Case) -> str:
        found = next((one for one in self.said if one.peer == case.peer and one.said.type == case.kind), None)
        assert found is not None, f"{case.name}: {case.kind} was not said to {case.peer}"
        self.said.remove(found)
        said = found.said
        got = (said.conversation_id, settled(said.body))
        assert case.envelope is not None
        assert got == (case.envelope.get("conversation_id"), settled(case.body)), case.name
        return "accepted"

    def _happen(self, what: str) -> None:
        happenings: dict[str, Callable[[], None]] = {
            "a beat is due": lambda: self.rig.due(channel.BeatDue),
            "policy asks": self._use_policy,
            "the channel is rebuilt": self._rebuild_channel,
            "its time is over": self._let_a_day_pass,
            "the process is killed": self._kill_process,
            "the worker is to stop": lambda: self.rig.tell("channel", channel.StopSession("att-1", "closed", 2.0)),
        }
        self.said.clear()
        happenings[what]()
        self._listen()

    def _let_a_day_pass(self) -> None:
        self.rig.clock.move(86_400)
        self.rig.run(interactions.expire_interactions, None)

    def _use_policy(self) -> None:
        self.rig.tell("store", UsePolicy(ruled('decision = "ask"'), lambda _: None))

    def _kill_process(self) -> None:
        self.rig.tell("channel", channel.ProcessGone("att-1"))
        self.rig.run(instances.end_attempt, instances.AttemptEnd("att-1", "exited", counted=True))
        self._start_processes()

    def _rebuild_channel(self) -> None:
        self.rig.actors["channel"].rebuild()
        self.rig.settle()

    def _start_processes(self) -> None:
        """Play orchestrator and supervisor: each instance that wants a process has one at once."""
        for wanted in self.rig.boxes["orchestrator"].of(follow_ups.InstanceWanted):
            begun = self.rig.run(instances.begin_attempt, wanted.instance_id)
            if isinstance(begun, instances.AttemptBegun):
                record = begun.instance
                context = MiniAppContextModel(
                    app_scope=record.app_scope,
                    instance_id=record.instance_id,
                    conversation_id=record.conversation_id,
                    app_version=record.app_version,
                    state="starting",
                )
                expect = channel.Expect(begun.attempt_id, WORKER_TOKEN, context)
                self.rig.tell("channel", expect, channel.Forked(begun.attempt_id, 4242))
                name = "worker again" if "worker" in self._doors else "worker"
                self._doors.setdefault(name, f"w-{begun.attempt_id}")

    def _peer(self, case: Case) -> tuple[str, int]:
        """Where a peer is heard, and its number; it connects with its first word."""
        if case.peer not in self._peers:
            box = "channel" if case.door == "worker" else "gateway"
            self._peers[case.peer] = (box, len(self._peers) + 1)
            self._doors.setdefault(case.peer, case.door)
            self.rig.tell(box, PeerOpened(self._doors[case.peer], self._peers[case.peer][1], 4242, 0))
        return self._peers[case.peer]

    def _event(self, case: Case, number: int) -> SocketEvent:
        """What the socket thread would tell."""
        door = self._doors[case.peer]
        if len(case.sent) > codec.MAX_FRAME_BYTES:
            return PeerOversized(door, number, len(case.sent))
        return PeerMessage(door, number, case.sent)

    def _listen(self) -> None:
        names = {number: peer for peer, (_, number) in self._peers.items()}
        for number, frame in self.rig.sockets.sent[self._heard :]:
            said = envelope.decode(frame)
            kind = KINDS[said.type]
            kind.body.model_validate(said.body)
            assert kind.direction == "out", said.type
            self.said.append(Said(names[number], said))
        self._heard = len(self.rig.sockets.sent)

    def _plug(self, known: Catalogue) -> None:
        rig = self.rig
        inventory = rig.run(apps.current_inventory, None)
        assert isinstance(inventory, Inventory)
        rig.verdict = Verdict("strong", enough=True, sealed=True)
        a_channel(rig)
        rig.plug(
            "outbox",
            OutboxActor(
                rig.care,
                store=rig.store,
                sockets=rig.socket_thread,
                me=rig.boxes["outbox"],
                timers=rig.timers,
                sweep_s=SWEEP_S,
            ),
        )
        rig.plug(
            "shell",
            ShellActor(
                rig.care,
                store=rig.store,
                sockets=rig.socket_thread,
                me=rig.boxes["shell"],
                timers=rig.timers,
                sweep_s=SWEEP_S,
            ),
        )
        rig.plug(
            "router",
            RouterActor(
                rig.care,
                store=rig.store,
                channel=rig.boxes["channel"],
                supervisor=rig.boxes["supervisor"],
                gateway=rig.boxes["gateway"],
                me=rig.boxes["router"],
                timers=rig.timers,
                clock=rig.clock,
                catalogue=known,
                inventory=inventory,
                sweep_s=SWEEP_S,
            ),
        )
        rig.plug(
            "gateway",
            GatewayActor(
                rig.care,
                store=rig.store,
                store_backlog=lambda: 0,
                most_backlog=100,
                sockets=rig.socket_thread,
                router=rig.boxes["router"],
                outbox=rig.boxes["outbox"],
                shell=rig.boxes["shell"],
                me=rig.boxes["gateway"],
                control=Control(rig.store, _Supervisor(), _Machinery()),
                clock=rig.clock,
                inventory=inventory,
                relay_secret=RELAY_SECRET,
            ),
        )


class _Supervisor:
    """Signals the one process there is."""

    def tell(self, message: object) -> None:
        assert isinstance(message, Signal)
        message.answer("att-1" if message.instance_id == "ins-1" else None)


class _Machinery:
    """What a daemon would say of itself."""

    def status(self) -> JsonObject:
        return {"pid": 1}

    def rss_bytes(self, pid: int) -> int | None:
        return pid

    def log_tail(self, instance_id: str, lines: int) -> list[str]:
        return [f"{instance_id} said this"][:lines]

    def backup(self, path: str, done: Callable[[JsonObject | Rejection], None]) -> None:
        done({"path": path, "bytes": 4096, "audit_seq": 1, "head_hash": "0" * 64})

    def export_audit(self, path: str, keep: int, done: Callable[[JsonObject | Rejection], None]) -> None:
        moved = {"path": path, "entries": keep, "from_seq": 1, "through_seq": 1, "head_hash": "0" * 64}
        done(moved)

    def reload_policy(self, done: Callable[[PolicyInForce | Rejection], None]) -> None:
        done(PolicyInForce(1, "0" * 64, "r-05268852ec866718"))

    def shutdown(self) -> None:
        """The story goes on."""

    def anchor(self) -> tuple[int, bytes]:
        return 0, bytes(32)

    def keys_changed(self, keys: dict[str, str]) -> None:
        assert all(keys)


def settled(value: Any) -> Any:  # noqa: ANN401 - JSON
    """With the type of what is volatile in its place."""
    if isinstance(value, dict):
        return {name: type(inner).__name__ if name in VOLATILE else settled(inner) for name, inner in value.items()}
    return [settled(one) for one in value] if isinstance(value, list) else value


def _answers(said: envelope.Envelope, case: Case) -> bool:
    if said.type == "lineup.v1.session.refused":
        return True
    if case.envelope is None:  # it names the request only if that much could be read
        return said.type == "lineup.v1.rejected"
    return bool(said.body.get("request_id") == case.envelope["id"])


def _outcome(answers: list[envelope.Envelope]) -> str:
    for answer in answers:
        if answer.type in _REFUSALS or answer.body.get("accepted") is False:
            return str(answer.body["code"])
    return "accepted"
