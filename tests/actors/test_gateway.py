"""The doors: who may say what, and what is answered."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from runtime_actors.channel.events import CloseReason, PeerClosed, PeerMessage, PeerOpened
from runtime_actors.commands import agents, apps
from runtime_actors.commands.apps import current_inventory
from runtime_actors.commands.follow_ups import Shown
from runtime_actors.commands.policy_changes import PolicyInForce
from runtime_actors.contract import codec, envelope
from runtime_actors.contract import host as h
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.rejection import Rejection
from runtime_actors.gateway.actor import GatewayActor
from runtime_actors.gateway.control import Control
from runtime_actors.gateway.peers import ROLES, Role
from runtime_actors.outbox import messages as outbox
from runtime_actors.rules.delivery import AGENT_WINDOW
from runtime_actors.rules.rates import Rate, Rates
from runtime_actors.shell import messages as shell
from runtime_actors.shell.feed import WINDOW
from runtime_actors.supervisor.messages import Signal
from tests.actor_fakes import SENT_AT, Ear, Heard, Rig, a_router

MOST_BACKLOG: Final = 10
SECRET: Final = "the relay's secret"
DOORS: Final[tuple[Role, ...]] = ("agent", "host", "control")
KNOWN: Final = sorted({kind for allowed in ROLES.values() for kind in allowed})
AGENTS_ONLY: Final = (
    "agent.attach",
    "tool.invoke",
    "tool.cancel",
    "tool.get",
    "tool.call",
    "message",
    "artifact.get",
    "artifact.read",
    "delivery.ack",
    "inventory.get",
    "audit.get",
)
HOSTS_ONLY: Final = (
    "attach", "ack", "show", "presented", "answer", "dismiss", "draft", "act", "text", "surface",
)  # fmt: skip
SCREEN: Final = {"host": "screen", "nonce": "0123456789abcdef"}
CONTROL_ONLY: Final = (
    "kill", "switch", "add_agent", "backup", "verify_audit", "shutdown", "reload_policy", "revoke_grant",
)  # fmt: skip
UNKNOWN_TOOL: Final = {"call_id": "c9", "tool_id": "notes.write", "inventory_revision": "r6", "input": {}}
_peers = itertools.count(1)


@dataclass
class Machine:
    """What only `boot` can reach, written down."""

    asked: list[str] = field(default_factory=list)
    keys: list[dict[str, str]] = field(default_factory=list)

    def status(self) -> JsonObject:
        return {"pid": 1}

    def rss_bytes(self, pid: int) -> int | None:
        return pid * 100

    def log_tail(self, instance_id: str, lines: int) -> list[str]:
        return [f"{instance_id} {lines}"]

    def backup(self, path: str, done: Callable[[JsonObject | Rejection], None]) -> None:
        self.asked.append(f"backup {path}")
        done({"path": path})

    def export_audit(self, path: str, keep: int, done: Callable[[JsonObject | Rejection], None]) -> None:
        self.asked.append(f"export {path} {keep}")
        done({"path": path})

    def reload_policy(self, done: Callable[[PolicyInForce | Rejection], None]) -> None:
        self.asked.append("reload")
        done(PolicyInForce(1, "00", "r-1"))

    def shutdown(self) -> None:
        self.asked.append("shutdown")

    def anchor(self) -> tuple[int, bytes]:
        return 0, bytes(32)

    def keys_changed(self, keys: dict[str, str]) -> None:
        self.keys.append(keys)


@dataclass
class Doors:
    """A gateway, and peers of it."""

    rig: Rig
    actor: GatewayActor
    machine: Machine
    backlog: list[int]


class Client:
    """One connection to a door."""

    def __init__(self, doors: Doors, door: Role) -> None:
        self.rig, self.door, self.number = doors.rig, door, next(_peers)
        self._ear: Ear[object] = Ear(doors.rig.sockets, self.number)
        self._ids = itertools.count(1)
        self.rig.tell("gateway", PeerOpened(door, self.number, 1, 0))

    def say(
        self,
        kind: str,
        body: Mapping[str, Any] | None = None,
        *,
        conversation_id: str | None = None,
        id: str | None = None,  # noqa: A002 - the envelope's word
    ) -> str:
        said_as = id or f"{self.number}.{next(self._ids)}"
        frame = envelope.encode(
            f"lineup.v1.{kind}", body or {}, id=said_as, sent_at=SENT_AT, conversation_id=conversation_id
        )
        self.rig.tell("gateway", PeerMessage(self.door, self.number, frame))
        return said_as

    def hear(self) -> list[Heard]:
        return [Heard(one.type.removeprefix("lineup.v1."), one.body) for one in self._ear.hear()]

    def ask(self, kind: str, body: Mapping[str, Any] | None = None, *, conversation_id: str | None = None) -> Heard:
        """The one answer to a request."""
        request_id = self.say(kind, body, conversation_id=conversation_id)
        [answer] = [one for one in self.hear() if one.body.get("request_id") == request_id]
        return answer

    def code(self, kind: str, body: Mapping[str, Any] | None = None, *, conversation_id: str | None = None) -> str:
        """The code of the refusal that answers it."""
        answer = self.ask(kind, body, conversation_id=conversation_id)
        assert answer.type == "rejected", answer
        return str(answer.body["code"])

    def attach(self, **changes: Any) -> list[Heard]:  # noqa: ANN401 - JSON
        self.say("agent.attach", {"agent": "local", "token": self.rig.token} | changes)
        return self.hear()

    def invoke(self, call_id: str = "c1", tool_id: str = "notes.write", **changes: Any) -> Heard:  # noqa: ANN401 - JSON
        body = {"call_id": call_id, "tool_id": tool_id, "inventory_revision": revision(self.rig), "input": {}}
        return self.ask("tool.invoke", body | changes, conversation_id="talk")

    def leave(self) -> None:
        self.rig.tell("gateway", PeerClosed(self.door, self.number, CloseReason.PEER_GONE))


def revision(rig: Rig) -> str:
    return rig.run(current_inventory, None).revision


@pytest.fixture
def doors(rig: Rig) -> Iterator[Doors]:
    a_router(rig)
    machine, backlog = Machine(), [0]
    actor = GatewayActor(
        rig.care,
        store=rig.store,
        store_backlog=lambda: backlog[0],
        most_backlog=MOST_BACKLOG,
        sockets=rig.socket_thread,
        router=rig.boxes["router"],
        outbox=rig.boxes["outbox"],
        shell=rig.boxes["shell"],
        me=rig.boxes["gateway"],
        control=Control(rig.store, rig.boxes["supervisor"], machine),
        clock=rig.clock,
        inventory=rig.run(current_inventory, None),
        relay_secret=SECRET,
    )
    rig.plug("gateway", actor)
    yield Doors(rig, actor, machine, backlog)
    assert rig.aside == []


@pytest.fixture
def agent(doors: Doors) -> Client:
    """Attached."""
    client = Client(doors, "agent")
    client.attach()
    return client


# --- roles ---


def test_the_table_of_roles_is_the_protocols() -> None:
    assert {f"lineup.v1.{kind}" for kind in (*AGENTS_ONLY, "agent.relay", "ping")} == set(ROLES["agent"])
    assert {f"lineup.v1.host.{kind}" for kind in HOSTS_ONLY} | {
        "lineup.v1.control.query",
        "lineup.v1.ping",
    } == set(ROLES["host"])
    assert {f"lineup.v1.control.{kind}" for kind in (*CONTROL_ONLY, "query")} | {"lineup.v1.ping"} <= set(
        ROLES["control"]
    )
    assert not set(ROLES["control"]) & (set(ROLES["agent"]) - {"lineup.v1.ping"})


@pytest.mark.parametrize("door", DOORS)
def test_a_type_of_another_door_is_role_denied_and_one_of_this_door_never_is(doors: Doors, door: Role) -> None:
    client = Client(doors, door)
    if door == "agent":
        client.attach()
    elif door == "host":
        client.ask("host.attach", SCREEN)

    codes = {kind: client.code(kind.removeprefix("lineup.v1."), {"no_such_field": 1}) for kind in KNOWN}

    assert codes == {kind: "message_invalid" if kind in ROLES[door] else "role_denied" for kind in KNOWN}
    assert doors.rig.events()[-1] == "request.refused"


@pytest.mark.parametrize("door", DOORS)
def test_a_type_that_no_door_has_is_invalid(doors: Doors, door: Role) -> None:
    client = Client(doors, door)

    for kind in ("tool.explode", "session.hello", "inbox.message", "tool.state"):
        assert client.code(kind) == "message_invalid"


@pytest.mark.parametrize("door", DOORS)
def test_a_ping_is_answered_before_any_attach(doors: Doors, door: Role) -> None:
    assert Client(doors, door).ask("ping").type == "pong"


def test_an_agent_attaches_first(doors: Doors) -> None:
    client = Client(doors, "agent")

    for kind in AGENTS_ONLY[1:]:
        assert client.code(kind, conversation_id="talk") == "not_attached"


def test_a_host_attaches_first(doors: Doors) -> None:
    client = Client(doors, "host")

    before = client.code("control.query", {"what": "ps"})
    attached = client.ask("host.attach", SCREEN)

    assert before == "not_attached"
    assert attached.type == "host.attached"
    assert client.ask("control.query", {"what": "ps"}).type == "control.rows"


@pytest.mark.parametrize("kind", ["tool.invoke", "tool.cancel", "tool.get", "message"])
def test_what_concerns_a_conversation_names_it(agent: Client, kind: str) -> None:
    assert agent.code(kind, {"call_id": "c1"}) == "message_invalid"


@pytest.mark.parametrize("frame", [b"", b"\xc1", b"\x80", codec.encode({"v": 2}), b"x" * 300_000])
def test_a_frame_that_cannot_be_read_is_refused_without_a_request_id(agent: Client, frame: bytes) -> None:
    agent.rig.tell("gateway", PeerMessage("agent", agent.number, frame))

    [refused] = agent.hear()
    assert refused.type == "rejected"
    assert refused.body["code"] in {"message_invalid", "message_too_large"}
    assert "request_id" not in refused.body


def test_an_unknown_peer_is_not_answered(doors: Doors) -> None:
    client = Client(doors, "agent")
    client.leave()

    client.say("ping")

    assert client.hear() == []
    assert doors.actor.connected == 0


# --- attach ---


def test_an_agent_is_attached_gets_the_inventory_and_its_deliveries_are_asked_for(doors: Doors) -> None:
    client = Client(doors, "agent")

    attached, inventory = client.attach(conversations=["a", "b"])

    assert (attached.type, inventory.type) == ("agent.attached", "client.inventory")
    assert (attached.body["agent"], attached.body["window"], attached.body["last_number"]) == ("local", AGENT_WINDOW, 0)
    assert attached.body["inventory_revision"] == inventory.body["revision"] == revision(doors.rig)
    assert len(attached.body["stream"]) == 16
    assert "request_id" not in inventory.body
    assert doors.rig.boxes["outbox"].seen == [outbox.Attach(client.number, "local", frozenset({"a", "b"}))]


@pytest.mark.parametrize(
    "changes",
    [{"token": "wrong"}, {"agent": "nobody"}, {"agent": "other"}, {"token": None}, {"agent": "nobody", "token": None}],
)
def test_a_wrong_agent_or_token_is_denied_and_audited(doors: Doors, changes: dict[str, Any]) -> None:
    client = Client(doors, "agent")

    body = {"agent": "local", "token": doors.rig.token} | changes
    denied = client.code("agent.attach", {key: value for key, value in body.items() if value is not None})

    assert denied == "attach_denied"
    assert doors.rig.events()[-1] in {"agent.refused", "request.refused"}
    assert client.code("inventory.get") == "not_attached"
    assert doors.rig.boxes["outbox"].seen == []


def test_only_the_relay_can_vouch_for_an_agent(doors: Doors) -> None:
    client = Client(doors, "agent")

    assert client.code("agent.relay", {"agent": "local", "secret": "guessed"}) == "attach_denied"
    assert client.code("agent.attach", {"agent": "local"}) == "attach_denied"
    client.say("agent.relay", {"agent": "local", "secret": SECRET})
    assert client.hear() == []

    assert client.code("agent.attach", {"agent": "other"}) == "attach_denied"
    assert client.ask("agent.attach", {"agent": "local"}).type == "agent.attached"


def test_what_is_relayed_for_one_connection_proves_nothing_on_another(doors: Doors) -> None:
    Client(doors, "agent").say("agent.relay", {"agent": "local", "secret": SECRET})

    assert Client(doors, "agent").code("agent.attach", {"agent": "local"}) == "attach_denied"


def test_attaching_again_on_a_connection_starts_it_over(doors: Doors, agent: Client) -> None:
    again = agent.attach(conversations=["a"])
    as_other = agent.attach(agent="other", token="other's token")

    assert [one.type for one in again] == [one.type for one in as_other] == ["agent.attached", "client.inventory"]
    assert doors.rig.boxes["outbox"].seen == [
        outbox.Attach(agent.number, "local", None),
        outbox.Attach(agent.number, "local", frozenset({"a"})),
        outbox.Attach(agent.number, "other", None),
    ]
    assert agent.invoke().type == "tool.state"
    assert doors.rig.rows("select agent_id from calls") == [("other",)]


def test_a_peer_that_is_gone_is_detached(doors: Doors, agent: Client) -> None:
    doors.rig.boxes["outbox"].forget()

    agent.leave()

    assert doors.rig.boxes["outbox"].seen == [outbox.Detach(agent.number)]


def test_a_peer_that_left_before_it_was_known_is_not_attached(doors: Doors) -> None:
    client = Client(doors, "agent")
    doors.rig.hold("store")
    client.attach()
    client.leave()

    doors.rig.let_go("store")

    assert client.hear() == []
    assert doors.rig.boxes["outbox"].seen == []


def test_an_attach_that_the_store_cannot_check_is_refused(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("the planted fault")

    monkeypatch.setattr("runtime_actors.commands.agents.hmac", fail)

    assert Client(doors, "agent").code("agent.attach", {"agent": "local", "token": "any"}) == "internal_error"


# --- what agents ask ---


def test_a_call_is_answered_with_its_state_and_repeats_say_so(agent: Client) -> None:
    first, again = agent.invoke(), agent.invoke()
    got = agent.ask("tool.get", {"call_id": "c1"}, conversation_id="talk")
    cancelled = agent.ask("tool.cancel", {"call_id": "c1", "reason": "no need"}, conversation_id="talk")

    assert [one.type for one in (first, again, got, cancelled)] == ["tool.state"] * 4
    assert (first.body["repeated"], again.body["repeated"]) == (False, True)
    assert first.body["audit"]["audit_seq"] > 0
    assert first.body["call"] == got.body["call"]
    assert cancelled.body["call"]["cancel_requested"] is True


def test_a_refused_call_names_the_call_and_a_stale_one_the_revision(agent: Client) -> None:
    stale = agent.invoke(inventory_revision="r-old")
    unknown = agent.invoke(tool_id="notes.gone")

    assert (stale.body["code"], stale.body["call_id"]) == ("inventory_revision_mismatch", "c1")
    assert stale.body["inventory_revision"] == revision(agent.rig)
    assert (unknown.body["code"], unknown.body.get("inventory_revision")) == ("tool_not_advertised", None)


def test_another_agents_conversation_is_denied(doors: Doors, agent: Client) -> None:
    agent.invoke()
    other = Client(doors, "agent")
    other.attach(agent="other", token="other's token")

    assert other.invoke("c2").body["code"] == "conversation_denied"
    assert other.code("tool.get", {"call_id": "c1"}, conversation_id="talk") == "conversation_denied"
    assert other.code("tool.cancel", {"call_id": "c1"}, conversation_id="talk") == "conversation_denied"


def test_a_text_is_received_once(agent: Client) -> None:
    text = {"message_id": "t1", "app_scope": "notes", "text": "hello"}

    first = agent.ask("message", text, conversation_id="talk")
    again = agent.ask("message", text, conversation_id="talk")
    other = agent.code("message", text | {"text": "bye"}, conversation_id="talk")

    assert [first.type, again.type] == ["message.receipt", "message.receipt"]
    assert [first.body["repeated"], again.body["repeated"]] == [False, True]
    assert other == "message_id_conflict"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"app_scope": "nothing"}, "app_scope_mismatch"),
        ({"app_scope": "board"}, "message_not_subscribed"),
        ({"text": "ä" * 40_000}, "message_invalid"),
        ({"data": {"fill": "x" * 20_000}}, "message_invalid"),
    ],
)
def test_a_text_that_cannot_be_received_is_refused(agent: Client, changes: dict[str, Any], code: str) -> None:
    text = {"message_id": "t1", "app_scope": "notes", "text": "hello"} | changes

    assert agent.code("message", text, conversation_id="talk") == code
    assert agent.rig.rows("select 1 from inbox") == []


def test_an_acknowledgement_goes_to_the_outbox_and_has_no_answer(agent: Client) -> None:
    agent.say("delivery.ack", {"numbers": [1, 3]})

    assert agent.hear() == []
    assert agent.rig.boxes["outbox"].of(outbox.Acked) == [outbox.Acked("local", (1, 3))]


@pytest.mark.parametrize("numbers", [[], ["1"], list(range(257))])
def test_an_acknowledgement_with_a_wrong_body_is_refused(agent: Client, numbers: list[object]) -> None:
    assert agent.code("delivery.ack", {"numbers": numbers}) == "message_invalid"


def test_the_inventory_can_be_asked_for(agent: Client) -> None:
    inventory = agent.ask("inventory.get")

    assert (inventory.type, inventory.body["revision"]) == ("client.inventory", revision(agent.rig))


def test_a_changed_inventory_is_sent_to_every_attachment_and_to_nobody_else(doors: Doors, agent: Client) -> None:
    second, stranger, host = Client(doors, "agent"), Client(doors, "agent"), Client(doors, "host")
    second.attach()
    host.ask("host.attach", SCREEN)

    doors.rig.run(apps.switch, apps.SwitchTo("app", "notes", enabled=False))

    for client in (agent, second):
        [told] = client.hear()
        assert (told.type, told.body["revision"]) == ("client.inventory", revision(doors.rig))
        assert "request_id" not in told.body
        assert "notes.write" not in {tool["id"] for tool in told.body["tools"]}
    assert (stranger.hear(), host.hear()) == ([], [])
    assert agent.attach()[0].body["inventory_revision"] == revision(doors.rig)


def test_a_mark_of_the_audit_chain_can_be_compared(agent: Client) -> None:
    mark = agent.invoke().body["audit"]

    assert agent.ask("audit.get", {"audit_seq": mark["audit_seq"]}).body["audit"] == mark
    assert agent.code("audit.get", {"audit_seq": 1_000_000}) == "not_found"


def test_while_too_much_waits_for_the_store_new_work_is_refused_and_the_rest_is_not(
    doors: Doors, agent: Client
) -> None:
    agent.invoke()
    doors.backlog[0] = MOST_BACKLOG + 1

    assert agent.invoke("c2").body["code"] == "busy"
    assert agent.code("message", {"message_id": "t1", "text": "x"}, conversation_id="talk") == "busy"
    assert agent.ask("tool.get", {"call_id": "c1"}, conversation_id="talk").type == "tool.state"
    assert agent.ask("tool.cancel", {"call_id": "c1"}, conversation_id="talk").type == "tool.state"

    doors.backlog[0] = MOST_BACKLOG
    assert agent.invoke("c2").type == "tool.state"


def test_an_agent_that_asks_too_often_is_refused_and_nobody_else_is(doors: Doors, agent: Client) -> None:
    doors.rig.run(agents.add_agent, agents.NewAgent("writer", hashlib.sha256(b"others-token").digest(), None))
    other, again = Client(doors, "agent"), Client(doors, "agent")
    other.attach(agent="writer", token="others-token")
    again.attach()
    doors.actor._rates = Rates(Rate(burst=2, per_s=0))
    before = doors.rig.events().count("request.refused")

    assert [agent.invoke(f"c{number}").type for number in range(2)] == ["tool.state", "tool.state"]
    assert agent.invoke("c2").body["code"] == "rate_exceeded"
    assert again.code("message", {"message_id": "t1", "text": "x"}, conversation_id="talk") == "rate_exceeded"
    assert agent.ask("tool.get", {"call_id": "c1"}, conversation_id="talk").type == "tool.state"
    assert other.code("tool.invoke", UNKNOWN_TOOL, conversation_id="other") == "inventory_revision_mismatch"
    assert doors.rig.events().count("request.refused") == before + 1


def test_answers_to_a_peer_that_left_go_to_nobody(doors: Doors, agent: Client) -> None:
    doors.rig.hold("store")
    agent.say("tool.get", {"call_id": "c9"}, conversation_id="talk")
    agent.leave()
    late = Client(doors, "agent")

    doors.rig.let_go("store")

    assert agent.hear() == []
    assert late.hear() == []


# --- hosts and operators ---


def the_shell(doors: Doors) -> list[object]:
    """What it was told and has not taken."""
    return [one for one in doors.rig.boxes["shell"].seen if not isinstance(one, Shown)]


def test_a_host_is_attached_once_its_record_is_made_and_the_shell_is_told(doors: Doors) -> None:
    host = Client(doors, "host")

    attached = host.ask("host.attach", SCREEN | {"conversations": ["talk"], "surfaces": True})

    stream = doors.rig.rows("select value from meta where name = 'stream'")[0][0]
    assert attached.body == {
        "request_id": attached.body["request_id"],
        "stream": stream,
        "last_number": 0,
        "complete": True,
        "window": WINDOW,
    }
    nonce = SCREEN["nonce"]
    assert the_shell(doors) == [shell.Attach(host.number, "screen", nonce, frozenset({"talk"}), 0)]
    assert doors.rig.rows("select host, nonce, peer, surfaces from hosts") == [("screen", nonce, host.number, 1)]


def test_a_host_that_left_before_its_record_was_made_leaves_none(doors: Doors) -> None:
    host = Client(doors, "host")
    doors.rig.hold("store")
    host.say("host.attach", SCREEN)
    host.leave()

    doors.rig.let_go("store")

    assert the_shell(doors) == [shell.Detach(host.number)]


def test_what_a_host_says_goes_to_the_shell_and_an_answer_comes_back(doors: Doors) -> None:
    host = Client(doors, "host")
    host.ask("host.attach", SCREEN)
    doors.rig.boxes["shell"].forget()

    host.say("host.ack", {"number": 3})
    host.say("host.show", {"on_screen": "talk"})
    request_id = host.say("host.text", {"text": "hello"}, conversation_id="talk")
    host.leave()

    acked, showing, write, gone = the_shell(doors)
    assert (acked, showing) == (shell.Acked(host.number, 3), shell.Showing(host.number, "talk"))
    assert isinstance(write, shell.Write)
    assert (write.by.host, write.by.nonce, write.by.request_id) == ("screen", SCREEN["nonce"], request_id)
    assert (write.conversation_id, write.body) == ("talk", h.HostText(text="hello"))
    assert gone == shell.Detach(host.number)


def test_the_same_text_for_another_conversation_is_another_request(doors: Doors) -> None:
    host = Client(doors, "host")
    host.ask("host.attach", SCREEN)

    for conversation_id in ("a", "b", "a"):
        host.say("host.text", {"text": "hello"}, conversation_id=conversation_id, id="q1")

    first, second, third = [one.by.digest for one in doors.rig.boxes["shell"].of(shell.Write)]
    assert first == third
    assert first != second


def test_what_would_grow_the_store_is_refused_while_too_much_waits(doors: Doors) -> None:
    host = Client(doors, "host")
    host.ask("host.attach", SCREEN)
    doors.backlog[0] = MOST_BACKLOG + 1

    assert host.code("host.text", {"text": "hello"}, conversation_id="talk") == "busy"
    assert host.say("host.answer", {"interaction_id": "int-1", "approved": True})
    assert len(doors.rig.boxes["shell"].of(shell.Write)) == 1


@pytest.mark.parametrize("what", ["status", "inventory", "calls", "call", "inbox", "outbox", "audit", "logs"])
def test_a_host_may_not_read_everything(doors: Doors, what: str) -> None:
    host = Client(doors, "host")
    host.ask("host.attach", SCREEN)

    assert host.code("control.query", {"what": what}) == "role_denied"


@pytest.mark.parametrize(
    "what", ["status", "inventory", "calls", "inbox", "outbox", "audit", "logs", "ps", "apps", "focus"]
)
def test_an_operator_reads_everything_without_an_attach(doors: Doors, agent: Client, what: str) -> None:
    agent.invoke()

    rows = Client(doors, "control").ask("control.query", {"what": what})

    assert rows.type == "control.rows"


def test_an_operator_is_answered_what_no_row_knows(doors: Doors) -> None:
    control = Client(doors, "control")

    status = control.ask("control.query", {"what": "status"}).body["rows"][0]
    log = control.ask("control.query", {"what": "logs", "filter": {"instance_id": "ins-1"}, "limit": 7}).body["rows"]

    assert status["pid"] == 1
    assert log == [{"line": "ins-1 7"}]


def test_a_next_that_no_page_gave_is_refused(doors: Doors) -> None:
    assert Client(doors, "control").code("control.query", {"what": "calls", "after": "x"}) == "message_invalid"


def test_orders_are_carried_out_and_answered(doors: Doors) -> None:
    control = Client(doors, "control")
    token_hash = "0" * 64

    switched = control.ask("control.switch", {"kind": "app", "name": "notes", "enabled": False})
    added = control.ask("control.add_agent", {"name": "new", "token_hash": token_hash, "public_key": "k" * 40})
    copied = control.ask("control.backup", {"path": "/somewhere"})
    verified = control.ask("control.verify_audit")
    stopped = control.ask("control.shutdown")

    assert [one.type for one in (switched, added, copied, verified, stopped)] == ["control.done"] * 5
    assert switched.body["data"] == {"revision": revision(doors.rig), "changed": True}
    assert verified.body["data"]["entries"] == len(doors.rig.events())
    assert doors.machine.asked == ["backup /somewhere", "shutdown"]
    assert doors.machine.keys == [{"k" * 40: "new"}]


def test_orders_that_cannot_be_carried_out_have_their_codes(doors: Doors) -> None:
    control = Client(doors, "control")
    control.ask("control.add_agent", {"name": "new", "token_hash": "0" * 64})

    assert control.code("control.switch", {"kind": "app", "name": "nothing", "enabled": True}) == "not_found"
    assert control.code("control.add_agent", {"name": "new", "token_hash": "1" * 64}) == "agent_exists"
    assert control.code("control.kill", {"instance_id": "ins-1", "signal": "SIGNOTHING"}) == "message_invalid"


def test_a_signal_is_audited_once_it_reached_a_process(doors: Doors) -> None:
    control = Client(doors, "control")
    hit = control.say("control.kill", {"instance_id": "ins-1", "signal": "SIGTERM"})
    missed = control.say("control.kill", {"instance_id": "ins-9"})
    first, second = doors.rig.boxes["supervisor"].of(Signal)

    first.answer("att-7")
    second.answer(None)
    doors.rig.settle()

    done, refused = control.hear()
    assert (first.number, second.number) == (15, 9)
    assert (done.body["request_id"], done.body["data"]) == (hit, {"attempt_id": "att-7"})
    assert (refused.body["request_id"], refused.body["code"]) == (missed, "not_found")
    assert doors.rig.events().count("worker.signalled") == 1


# --- faults ---


def test_a_request_that_fails_twice_is_set_aside_and_its_peer_is_served_on(
    doors: Doors, agent: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("the planted fault")

    with monkeypatch.context() as planted:
        planted.setattr(doors.actor, "_send_inventory", fail)
        agent.say("inventory.get")

    assert [aside.message for aside in doors.rig.aside] == ["PeerMessage"]
    assert agent.ask("inventory.get").type == "client.inventory"
    doors.rig.aside.clear()
