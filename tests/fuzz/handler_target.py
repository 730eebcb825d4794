"""Every message kind that anybody may say at a door, each at the real handlers; the kinds are the contract's own."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError

from runtime_actors.channel.door import Door as SocketDoor
from runtime_actors.channel.intake import REQUESTS
from runtime_actors.channel.session import Phase, Session
from runtime_actors.contract import codec, envelope
from runtime_actors.contract.protocol import KINDS, Door
from runtime_actors.contract.rejection import RejectionCode
from tests.fuzz import pools as known
from tests.fuzz.scene import AT, HOST, NONCE, Said, Scene, Stage
from tests.fuzz.shapes import Shape, spoil
from tests.fuzz.source import Source, packed
from tests.fuzz.target import ACCEPTED, Cost, Input, expect
from tests.golden_files import every_case

PREFIX: Final = "lineup.v1."
ANY: Final = "any"
"""The target of a door that is told anything at all."""
CLOSED: Final = "closed"
IDLE: Final = "idle"
"""A worker's request that it cannot make now: it repeats it after its next welcome."""

_UNANSWERED: Final = frozenset(
    {"delivery.ack", "agent.relay", "host.ack", "host.show", "session.pong", "session.ready", "session.bye"}
)
_READ_ONLY: Final = frozenset(
    {"ping", "inventory.get", "tool.get", "audit.get", "control.query", "control.verify_audit", "control.kill"}
    | {"control.backup", "control.export_audit", "control.shutdown", "inbox.list", "tools.get", "agent.attach"}
    | {"agent.relay", "host.ack", "ui.get", "ui.list", "surfaces.get", "surfaces.list", "artifact.get", "artifact.read"}
    | {"session.hello", "session.confined", "session.pong"}
)
_ONCE: Final = frozenset(
    {"tool.invoke", "tool.cancel", "message", "delivery.ack", "control.add_agent", "inbox.acknowledge"}
    | {"tools.complete", "tools.fail", "tools.cancel", "tool.call", "conversation.send_text", "capabilities.request"}
    | {"host.answer", "host.dismiss", "host.act", "host.text", "host.surface", "ui.request", "ui.cancel"}
    | {"surfaces.open", "surfaces.update", "surfaces.close", "artifacts.begin", "artifacts.chunk"}
    | {"lifecycle.request_foreground", "lifecycle.request_background", "lifecycle.request_close"}
)
"""Said again by the same peer, they change nothing."""
_COUNTED: Final = frozenset({RejectionCode.TOOL_OUTPUT_INVALID})
"""A refusal that is counted in the call: the third one ends it."""
_NEVER: Final = frozenset({RejectionCode.INTERNAL_ERROR, RejectionCode.STORE_UNAVAILABLE, RejectionCode.BUSY})
"""Codes that no input is to bring about: a bug, a full disk, too much work."""
_MAY_BE_FULL: Final = frozenset({"surfaces.open", "ui.request", "control.revoke_grant"})
"""So few are allowed at a time that an input meets the bound; and a grant that is being asked for waits."""
_HOSTS: Final = frozenset({"host", "newhost"})
_PHASES: Final = {
    "session.hello": Phase.EXPECTED,
    "session.confined": Phase.SEALING,
    "session.ready": Phase.LOADING,
    "session.resume": Phase.RESETTING,
    "session.bye": Phase.OPEN,
}
"""Where a worker must be to be heard; it is put there again after each word."""
_PEERS: Final[dict[Door, tuple[str, ...]]] = {
    "agent": ("alice",) * 14 + ("bob", "bob", "stranger", "stranger", "host", "control", "others"),
    "host": ("host",) * 14 + ("newhost", "newhost", "alice", "control"),
    "control": ("control",) * 16 + ("host", "alice"),
    "worker": ("open",) * 9 + ("asker",) * 4 + ("chat",) * 2 + ("others", "others", "alice"),
}
_NEW: Final = {"agent.attach": "stranger", "agent.relay": "stranger", "host.attach": "newhost"}
_FRESH_WORKERS: Final = 3
_LIFE: Final = 150
_LIFE_OF_WORKERS: Final = 60
"""Shorter, because calls end."""
_CROWDED: Final = frozenset({"control.query", "inbox.list"})
"""What they are answered may be larger than a frame."""


def handler_names() -> Iterator[tuple[str, Door, str]]:
    """Name, door and kind of each target: whatever the contract lets in, wherever it lets it in."""
    for name, kind in KINDS.items():
        for door in kind.doors if kind.direction == "in" else ():
            yield f"{door}/{name.removeprefix(PREFIX)}", door, name.removeprefix(PREFIX)
    for door in _PEERS:
        yield f"{door}/{ANY}", door, ANY


class HandlerTarget:
    """One kind at one door. `to` is the peer that says it."""

    allowance = 12 * 1024 * 1024
    """What comes of a frame goes out again, is kept, and is kept by the played sockets."""

    def __init__(self, name: str, door: Door, kind: str) -> None:
        self.name, self._door, self._kind = name, door, kind
        self.life = _LIFE_OF_WORKERS if kind.startswith("tools.") or kind == ANY else _LIFE
        self.cost = Cost()
        self.worn = False
        self._stage = Stage()
        self._scene: Scene | None = None
        self._said: dict[tuple[str, bytes], str] = {}
        self._kept: dict[str, Session] = {}
        self._doors: dict[str, SocketDoor] = {}
        self._golden = [
            case.sent for case in every_case() if case.door == door and kind in {ANY, case.kind[len(PREFIX) :]}
        ]
        self._golden = [frame for frame in self._golden if len(frame) < 16_384]
        self._shapes = _shapes()

    @property
    def scene(self) -> Scene:
        if self._scene is None:
            self.renew()
        assert self._scene is not None
        return self._scene

    def renew(self) -> None:
        phase = _PHASES.get(self._kind)
        self._scene = self._stage.set(phase, _FRESH_WORKERS if phase else 0)
        if self._kind in _CROWDED:
            self._stage.crowd()
        self._said.clear()
        sessions = self._scene.channel._sessions.of_attempt.values()
        self._kept = {one.attempt_id: copy.deepcopy(one) for one in sessions if phase is not None}
        self._doors = dict(self._scene.golden.rig.sockets.doors)
        self.worn = False

    def close(self) -> None:
        self._stage.close()

    # --- making ---

    def make(self, source: Source) -> Input:
        if self._said and source.chance(0.06):
            to, data = source.pick(list(self._said))
            return Input(data, to if source.chance(0.7) else self._peer(source))
        to = self._peer(source)
        kind = source.random.random()
        if self._golden and kind < 0.12:
            frame = source.pick(self._golden)
            return Input(source.broken(frame, source.below(3)), to)
        tree = self._envelope(source, to)
        if kind < 0.14:
            return Input(_stretched(source, tree), to)
        pool = known.pools(self.scene, self._door, self._kind, to)
        if kind > 0.55:
            for _ in range(1 + source.below(3)):
                inner = tree.get("body")
                spoil(source, inner if inner and isinstance(inner, dict) and source.chance(0.6) else tree, pool)
        data = source.spelt(tree) if source.chance(0.2) else packed(tree)
        return Input(source.broken(data) if source.chance(0.07) else data, to)

    def _peer(self, source: Source) -> str:
        if self._kind in _PHASES and source.chance(0.9):
            return f"{_PHASES[self._kind]}-{1 + source.random.randrange(_FRESH_WORKERS)}"
        if self._kind in _NEW and source.chance(0.6):
            return _NEW[self._kind]
        return source.pick(_PEERS[self._door])

    def _envelope(self, source: Source, to: str) -> dict[str, Any]:
        kind = source.pick(sorted(self._shapes)) if self._kind == ANY else self._kind
        if self._kind == ANY and source.chance(0.1):
            kind = source.pick(("tool.call", "nothing", "x" * 33, "", "a.b.c.d"))
        pool = known.pools(self.scene, self._door, kind, to)
        made: dict[str, Any] = {"v": 1, "id": f"q{source.random.getrandbits(40)}", "type": PREFIX + kind, "sent_at": AT}
        made["body"] = self._shapes[kind].body(source, pool) if kind in self._shapes else {"call_id": "c-run"}
        if self._door == "agent" or source.chance(0.1):
            own = "bobs" if to == "bob" else "talk"
            made["conversation_id"] = own if source.chance(0.85) else source.pick(("talk", "bobs", "new", "talk1"))
        if source.chance(0.1):
            made["trace"] = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
        return made

    # --- reading ---

    def feed(self, one: Input) -> str:
        scene, is_known = self.scene, self._said.get((one.to, one.data))
        session = scene.session(one.to)
        was_open = (
            session is not None and session.proven and session.phase in {Phase.ATTACHING, Phase.OPEN, Phase.ENDING}
        )
        was_dead = session is not None and session.condemned is not None
        said = self.cost.of(scene.say, one.to, one.data)
        verdict = CLOSED if was_dead else self._verdict(scene, one, said, was_open=was_open)
        self._nothing_changed_by(one, verdict, said, is_known)
        self._said[one.to, one.data] = verdict
        self._go_on(scene, one, said)
        return verdict

    def _verdict(self, scene: Scene, one: Input, said: Said, *, was_open: bool) -> str:
        request, answers = _read(one.data), said.by_peer.get(one.to, [])
        refusals = [code for code in map(_refusal, answers) if code is not None]
        request_id = request.id if request is not None else None
        for each in answers:
            named = each.body.get("request_id")
            expect(named is None or request_id in {named, None}, "an answer names another request")
        finals = [each for each in answers if "request_id" in each.body and each.body["request_id"] is not None]
        expect(len(finals) <= 1 or _refusal(finals[0]) is None, "a request was answered twice")
        for code in refusals:
            expect(code in set(RejectionCode), f"{code} is no code of the contract")
            is_full = code == RejectionCode.BUSY and _kind_of(request) in _MAY_BE_FULL
            expect(code not in _NEVER or is_full, f"an input was answered {code}")
        if refusals:
            return refusals[0]
        if said.closed:
            return CLOSED
        if answers:
            return ACCEPTED
        kind = request.type.removeprefix(PREFIX) if request is not None else ""
        if PREFIX + kind in REQUESTS and one.to in scene.attempts and (not was_open or self._is_undecided(one)):
            return IDLE
        expect(kind in _UNANSWERED and _holds(request), f"there is no answer to {kind or 'what is no frame'}")
        return ACCEPTED

    def _is_undecided(self, one: Input) -> bool:
        session = self.scene.session(one.to)
        return session is not None and bool(session.held or session.undecided)

    def _nothing_changed_by(self, one: Input, verdict: str, said: Said, is_known: str | None) -> None:
        request = _read(one.data)
        kind = request.type.removeprefix(PREFIX) if request is not None else ""
        changed = f"{said.rows_changed} rows changed"
        expect(not said.others_touched, "it changed what is another agent's")
        if verdict == ACCEPTED:
            expect(kind not in _READ_ONLY or not said.rows_changed, f"{kind} only reads, and {changed}")
            again = is_known == ACCEPTED and kind in _ONCE
            expect(not again or not said.rows_changed, f"{kind} was said again, and {changed}")
        elif kind == "artifacts.chunk" and verdict == RejectionCode.ARTIFACT_INVALID and said.rows_changed:
            # The last piece of another content than was announced: the artifact is forgotten (docs/people.md, 6).
            named = "" if request is None else str(request.body.get("artifact_id"))
            expect(not self.scene.has_artifact(named), f"it was refused ({verdict}), and {changed}")
        elif verdict not in _COUNTED:
            left = said.closed and one.to in _HOSTS  # a host that is hung up on is not there any more
            expect(said.rows_changed <= left, f"it was refused ({verdict}), and {changed}")
            expect(said.entries <= 1 + left, f"a refusal left {said.entries} audit entries")

    def _go_on(self, scene: Scene, one: Input, said: Said) -> None:
        """Who was hung up on comes again; a worker cannot."""
        name = one.to
        session = scene.session(name)
        if session is not None:
            session.invalid = session.idle = 0  # it is to be heard further
            kept = self._kept.get(session.attempt_id)
            scene.golden.rig.sockets.doors |= self._doors
            for part in dataclasses.fields(session) if kept is not None else ():
                setattr(session, part.name, copy.deepcopy(getattr(kept, part.name)))
            self.worn = session.condemned is not None and name in {"open", "asker", "chat"}
        elif said.closed or (name in {"stranger", "newhost"} and said.by_peer.get(name)):
            scene.reconnect(name)
        elif any(each.body.get("agent", name) != name for each in said.by_peer.get(name, [])):
            scene.attach(name)  # it had a token of another one, and is to be itself again
        elif name == "host" and _names_another_host(_read(one.data)):
            scene.attach(name)  # the ids of its requests were those of another one


@functools.cache
def _shapes() -> dict[str, Shape]:
    return {name.removeprefix(PREFIX): Shape(one.body) for name, one in KINDS.items()}


def _stretched(source: Source, tree: dict[str, Any]) -> bytes:
    """As large as a frame may be, or nearly: by one text in its body, or in the envelope."""
    name = source.pick(("call_id", "message_id", "x", *tree["body"]))
    place = tree if source.chance(0.1) else tree["body"]
    place[name] = ""
    room = codec.MAX_FRAME_BYTES - len(packed(tree)) - source.pick((-1, 0, 4, 5, 50, 90, 120, 200, 400))
    place[name] = source.pick("x/") * room
    return packed(tree)


def _read(frame: bytes) -> envelope.Envelope | None:
    try:
        return envelope.decode(frame)
    except codec.IntakeError as error:
        if error.request_id is not None:
            return envelope.Envelope.model_construct(id=error.request_id, type="", body={})
        return None


def _refusal(answer: envelope.Envelope) -> str | None:
    refused = answer.type in {f"{PREFIX}rejected", f"{PREFIX}session.refused"} or answer.body.get("accepted") is False
    return str(answer.body["code"]) if refused else None


def _kind_of(request: envelope.Envelope | None) -> str:
    return request.type.removeprefix(PREFIX) if request is not None else ""


def _names_another_host(request: envelope.Envelope | None) -> bool:
    named = None if request is None else (request.body.get("host"), request.body.get("nonce"))
    return _kind_of(request) == "host.attach" and named != (HOST, NONCE)


def _holds(request: envelope.Envelope | None) -> bool:
    if request is None:
        return False
    try:
        KINDS[request.type].body.model_validate(request.body)
    except ValidationError:
        return False
    return True
