"""Policy files, as an operator may leave them; and merge patches, as a MiniApp or a surface may send them."""

from __future__ import annotations

import json
from typing import Any, Final

from runtime_actors.checker.people import merged as merged_by_others
from runtime_actors.contract import codec, payload
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.surfaces import MAX_SURFACE_STATE_BYTES
from runtime_actors.rules import policy_text
from runtime_actors.rules.merge_patch import merged
from runtime_actors.rules.policy import Policy, Verdict
from runtime_actors.rules.surfaces import Surface, patched
from tests.fuzz.source import Source
from tests.fuzz.target import ACCEPTED, Input, Stateless, expect

REFUSED: Final = "policy_invalid"
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "app": ('"desk"', '"chat"', '"Desk"', '"../x"', '""', "1", "[]"),
    "agent": ('"local"', '"bob"', '"\\u0000"', "true"),
    "conversation": ('"c1"', '"c 1"', "{}"),
    "tool": ('"desk.write"', '"desk."', '"other.write"', '"desk"'),
    "capability": ('"notify"', '"network.http"', '"fetch"', '"N"'),
    "presentation": ('"modal"', '"inline"', '"none"'),
    "lifecycle": ('"foreground"', '"close"', '"x"'),
    "decision": ('"allow"', '"ask"', '"deny"', '"inline"', '"ALLOW"', "0"),
    "for": ('"once"', '"always"', '"ever"'),
    "expires_s": ("1", "3600", "0", "-1", "1e3", "9999999999999999999999", "true", "inf", "nan"),
    "x": ("1", '"\\u202e"'),
}
_STRANGE: Final = (
    b"",
    b"\xef\xbb\xbf[[rule]]\n",
    b"\xff\xfe",
    b"[rule]\n",
    b"rule = 1\n",
    b"rule = [1, 2]\n",
    b"[[rule]]\n" * 1001,
    b"x = " + b"[" * 10_000,
    b"a." * 5000 + b"b = 1\n",
    b"#" * 300_000,
    b'[[rule]]\ndecision = """\n[[rule]]\n"""\n',
)
_MOST_FAULTS: Final = 20_000


class PolicyTarget(Stateless):
    """`rules.policy_text`."""

    name = "policy"

    def make(self, source: Source) -> Input:
        if source.chance(0.05):
            return Input(source.pick(_STRANGE), "file")
        lines = []
        for _ in range(source.below(5)):
            lines.append("[[rule]]")
            chosen = [name for name in _FIELDS if source.chance(0.3)]
            if source.chance(0.8):
                chosen = [name for name in chosen if name in {"app", "agent", "conversation"}][:2]
                chosen += [source.pick(("tool", "capability", "presentation", "lifecycle")), "decision"]
            lines += [f"{name} = {_value(source, name)}" for name in dict.fromkeys(chosen)]
        text = "\n".join(lines).encode()
        return Input(source.broken(text) if source.chance(0.15) else text, "file")

    def feed(self, one: Input) -> str:
        read = self.cost.of(policy_text.parse, one.data)
        if not isinstance(read, Policy):
            expect(read, "a file was refused, and nothing is said of what is wrong")
            expect(len(read) <= _MOST_FAULTS, "there is no end to what is wrong")
            lines = one.data.count(b"\n") + 1
            expect(all(fault.line is None or 1 <= fault.line <= lines for fault in read), "there is no such line")
            return REFUSED
        expect(policy_text.parse(one.data) == read, "the same file was read as something else")
        for rule in read.rules:
            expect(rule.verdict in set(Verdict), "a rule decides nothing")
            expect(rule.expires_s is None or rule.expires_s > 0, "a grant that is over before it begins")
        for tool in ("desk.write", "other.x"):
            read.decide("desk", "local", "c1", tool=tool)
        return ACCEPTED


def _value(source: Source, name: str) -> str:
    """Mostly the first one, which holds."""
    return _FIELDS[name][0] if source.chance(0.6) else source.pick(_FIELDS[name])


class PatchTarget(Stateless):
    """`rules.merge_patch` and `rules.surfaces`, against another implementation of RFC 7396."""

    name = "patch"

    def make(self, source: Source) -> Input:
        state = source.plain()
        made: dict[str, Any] = {"state": state if isinstance(state, dict) else {"a": state}, "patch": source.json()}
        if source.chance(0.6):
            made["patch"] = _like(source, made["state"])
        if source.chance(0.03):
            made["patch"] = {"a": "x" * source.pick((65_000, MAX_SURFACE_STATE_BYTES, 200_000))}
        return Input(json.dumps(made, default=str).encode(), "surface")

    def feed(self, one: Input) -> str:
        made = json.loads(one.data)
        state, patch = made["state"], made["patch"]
        before = json.dumps(state), json.dumps(patch)
        outcome = self.cost.of(merged, state, patch)
        expect((json.dumps(state), json.dumps(patch)) == before, "a patch changed what it was made for")
        by_others = merged_by_others(state, patch)
        same = json.dumps(outcome, sort_keys=True) == json.dumps(by_others, sort_keys=True)  # also what is no number
        expect(same, "others read the patch as something else")
        if not isinstance(patch, dict):
            return "no patch"
        try:
            written = payload.canonical(state)
        except codec.IntakeError:
            return "no state"
        return self._of_surface(_a_surface(written), patch)

    def _of_surface(self, surface: Surface, patch: dict[str, Any]) -> str:
        after = self.cost.of(patched, surface, patch, None, "2026-01-01T12:00:01Z")
        if isinstance(after, Rejection):
            return str(after.code)
        expect(len(after.state) <= MAX_SURFACE_STATE_BYTES, "a state is larger than it may be")
        expect((after.revision == surface.revision) == (after.state == surface.state), "the revision is wrong")
        again = patched(after, patch, after.revision, "2026-01-01T12:00:02Z")
        expect(again is after, "the same patch changed it twice")
        return ACCEPTED


def _like(source: Source, state: dict[str, Any]) -> dict[str, Any]:
    """A patch for what is there."""
    made: dict[str, Any] = {}
    for name, value in state.items():
        if source.chance(0.6):
            made[name] = _like(source, value) if isinstance(value, dict) and source.chance(0.6) else source.plain(3)
        if source.chance(0.2):
            made[name] = None
    return made


def _a_surface(state: bytes) -> Surface:
    return Surface(
        surface_id="srf-1",
        instance_id="ins-1",
        conversation_id="c1",
        app_scope="desk",
        call_id=None,
        key=None,
        digest=b"",
        kind="board",
        title="Board",
        state=state,
        revision=1,
        status="open",
        created_at="2026-01-01T12:00:00Z",
        updated_at="2026-01-01T12:00:00Z",
    )
