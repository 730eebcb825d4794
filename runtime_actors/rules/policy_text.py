"""Reads what a policy file says: every mistake by its line, its rule and its field, and what to write instead."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import TypeAdapter, ValidationError

from runtime_actors.contract.base import AgentName, AppScope, Capability, ConversationId, ToolId
from runtime_actors.contract.capabilities import is_closed
from runtime_actors.rules.policy import KNOWN, Kind, Policy, Rule, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES: Final = 256 * 1024
MAX_RULES: Final = 1000
MAX_EXPIRES_S: Final = 10 * 366 * 24 * 3600

MAX_PARTS: Final = 32
"""Of dotted names, a line: tomllib's memory grows with their square."""
_PART: Final = re.compile(rb"[\w\"'-][ \t]*\.")

_KINDS: Final[tuple[Kind, ...]] = ("tool", "capability", "presentation", "lifecycle")
_FIELDS: Final = ("app", "agent", "conversation", *_KINDS, "decision", "for", "expires_s")
_HEADER: Final = re.compile(r"\s*\[\[\s*(?:rule|\"rule\"|'rule')\s*\]\]")
_AT_LINE: Final = re.compile(r"\(at line ([0-9]+)")

_NAMES: Final[Mapping[str, tuple[TypeAdapter[str], str]]] = {
    "app": (TypeAdapter(AppScope), 'the app_scope of a MiniApp, such as "whiteboard"'),
    "agent": (TypeAdapter(AgentName), 'the name of an agent, such as "local"'),
    "conversation": (TypeAdapter(ConversationId), 'the id of a conversation, such as "main"'),
    "tool": (TypeAdapter(ToolId), 'the id of a tool, such as "whiteboard.open"'),
    "capability": (TypeAdapter(Capability), 'the name of a capability, such as "notify"'),
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "presentation": ("modal", "inline"),
    "lifecycle": ("foreground", "background", "close"),
    "decision": ("allow", "ask", "deny", "inline"),
    "for": ("once", "always"),
}


@dataclass(frozen=True, slots=True)
class PolicyFault:
    """One mistake in a file."""

    what: str
    """What is wrong and what to write instead."""
    line: int | None = None
    rule: int | None = None
    """Its place among the rules, from 1."""
    field: str | None = None

    def __str__(self) -> str:
        """For a person: `line 4, rule 2, decision: write ...`."""
        at = [f"line {self.line}"] if self.line is not None else []
        at += [f"rule {self.rule}"] if self.rule is not None else []
        at += [self.field] if self.field is not None else []
        return f"{', '.join(at)}: {self.what}" if at else self.what


def parse(text: bytes) -> Policy | list[PolicyFault]:
    """The rules of a file, or everything that is wrong with it, in the order of the file."""
    if len(text) > MAX_BYTES:
        return [PolicyFault(f"it takes more than {MAX_BYTES} bytes, and no more are read")]
    for number, line in enumerate(text.splitlines(), 1):
        if len(_PART.findall(line)) > MAX_PARTS:
            return [PolicyFault("it holds a name of too many parts; write [[rule]] tables", line=number)]
    try:
        spelled = text.decode()
        raw = tomllib.loads(spelled)
    except UnicodeDecodeError as error:
        return [PolicyFault("it is not UTF-8; save it as that", line=text.count(b"\n", 0, error.start) + 1)]
    except tomllib.TOMLDecodeError as error:
        at = _AT_LINE.search(str(error))
        return [PolicyFault(f"it is not TOML: {error}", line=int(at[1]) if at else None)]
    except RecursionError:
        return [PolicyFault("it is nested too deeply; write [[rule]] tables")]
    return _Reader(spelled.splitlines(), raw).read(hashlib.sha256(text).hexdigest())


def closed_rules(policy: Policy) -> list[str]:
    """Of each rule that allows or asks for what is never granted: a sentence that says so."""
    return [
        str(PolicyFault(f'"{rule.name}" is never granted, whatever a rule says', rule=rule.number, field="capability"))
        for rule in policy.rules
        if rule.kind == "capability" and rule.verdict is not Verdict.DENY and is_closed(rule.name or "")
    ]


class _Reader:
    """One file. Where a rule stands is looked up in its lines, for tomllib keeps no places."""

    def __init__(self, lines: list[str], raw: dict[str, Any]) -> None:
        self._lines, self._raw = lines, raw
        self._headers = [number for number, line in enumerate(lines, 1) if _HEADER.match(line)]
        self._faults: list[PolicyFault] = []

    def read(self, digest: str) -> Policy | list[PolicyFault]:
        for name in self._raw.keys() - {"rule"}:
            self._faults.append(
                PolicyFault("there is no such table; write [[rule]]", self._line_of(name, 0), None, name)
            )
        tables = self._raw.get("rule", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._faults.append(PolicyFault("rules are a list of tables; write [[rule]] above each"))
            tables = []
        if len(tables) > MAX_RULES:
            self._faults.append(PolicyFault(f"there are {len(tables)} rules; at most {MAX_RULES} are read"))
            tables = []
        if len(self._headers) != len(tables):  # written inline, or inside a text: better no line than a wrong one
            self._headers = []
        rules = [self._rule(number, table) for number, table in enumerate(tables, 1)]
        return self._faults or Policy(tuple(rule for rule in rules if rule is not None), digest)

    def _rule(self, number: int, table: dict[str, Any]) -> Rule | None:
        before = len(self._faults)
        for field, value in table.items():
            self._check(number, field, value)
        kinds = [kind for kind in _KINDS if kind in table]
        if len(kinds) > 1:
            self._wrong(number, kinds[1], f"a rule is about one thing; leave out all but one of {', '.join(kinds)}")
        if "decision" not in table:
            self._wrong(number, "decision", f"it is missing; write one of {_listed(_CHOICES['decision'])}")
        if len(self._faults) > before:
            return None
        self._check_together(number, table, kinds[0] if kinds else None)
        if len(self._faults) > before:
            return None
        return Rule(
            number=number,
            verdict=Verdict(table["decision"]),
            app=table.get("app"),
            agent=table.get("agent"),
            conversation=table.get("conversation"),
            kind=kinds[0] if kinds else None,
            name=table[kinds[0]] if kinds else None,
            span=table.get("for", "once"),
            expires_s=table.get("expires_s"),
        )

    def _check(self, number: int, field: str, value: object) -> None:
        if field in _NAMES:
            adapter, what = _NAMES[field]
            try:
                adapter.validate_python(value, strict=True)
            except ValidationError:
                self._wrong(number, field, f"write {what}, or leave it out to match every one")
        elif field in _CHOICES:
            if value not in _CHOICES[field]:
                self._wrong(number, field, f"write one of {_listed(_CHOICES[field])}")
        elif field == "expires_s":
            if type(value) is not int or not 1 <= value <= MAX_EXPIRES_S:
                self._wrong(number, field, f"write a whole number of seconds from 1 to {MAX_EXPIRES_S}")
        else:
            self._wrong(number, field, f"a rule has no such field; it has {', '.join(_FIELDS)}")

    def _check_together(self, number: int, table: Mapping[str, Any], kind: Kind | None) -> None:
        verdict = Verdict(table["decision"])
        if kind is not None and verdict not in KNOWN[kind]:
            self._wrong(number, "decision", f"a {kind} knows {_listed(sorted(KNOWN[kind]))} only; write one of them")
        if verdict is not Verdict.ASK:
            for field in ("for", "expires_s"):
                if field in table:
                    self._wrong(number, field, 'it belongs to decision = "ask"; leave it out here')
        tool, app = cast("str | None", table.get("tool")), table.get("app")
        if tool is not None and app is not None and tool.partition(".")[0] != app:
            self._wrong(number, "tool", f"no tool of {app} has this id, so the rule would never match; leave out app")

    def _wrong(self, number: int, field: str, what: str) -> None:
        self._faults.append(PolicyFault(what, self._line_of(field, number), number, field))

    def _line_of(self, field: str, rule: int) -> int | None:
        """Of a field of a rule, or of the rule if the field is not there; `rule` 0 is what stands outside of rules."""
        if rule == 0:
            spelled = re.compile(rf"\s*\[*\s*[\"']?{re.escape(field)}\b")
            return next((number for number, line in enumerate(self._lines, 1) if spelled.match(line)), None)
        if not self._headers:
            return None
        begin = self._headers[rule - 1]
        end = self._headers[rule] if rule < len(self._headers) else len(self._lines) + 1
        spelled = re.compile(rf"\s*(?:[\"']?){re.escape(field)}(?:[\"']?)\s*[.=]")
        return next((number for number in range(begin + 1, end) if spelled.match(self._lines[number - 1])), begin)


def _listed(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)
