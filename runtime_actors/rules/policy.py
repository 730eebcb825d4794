"""Policy: what a person wrote down about which app, agent and conversation may do what (docs/policy.md).

The rules of one file, in its order; the first that matches decides. Nothing here needs a record.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["tool", "capability", "presentation", "lifecycle"]
Span = Literal["once", "always"]


class Verdict(StrEnum):
    """What a rule says."""

    ALLOW = "allow"
    ASK = "ask"
    INLINE = "inline"
    """Of a presentation: allowed, and not more prominent than that."""
    DENY = "deny"


KNOWN: Final[Mapping[Kind, frozenset[Verdict]]] = {
    "tool": frozenset({Verdict.ALLOW, Verdict.ASK, Verdict.DENY}),
    "capability": frozenset({Verdict.ALLOW, Verdict.ASK, Verdict.DENY}),
    "presentation": frozenset({Verdict.ALLOW, Verdict.INLINE, Verdict.DENY}),
    "lifecycle": frozenset({Verdict.ALLOW, Verdict.DENY}),
}
"""What may be decided about each kind. A rule that names no kind speaks of those that know its decision."""

UNRULED: Final[Mapping[Kind, Verdict]] = {
    "tool": Verdict.ALLOW,
    "capability": Verdict.DENY,
    "presentation": Verdict.ALLOW,
    "lifecycle": Verdict.ALLOW,
}
"""What holds where no rule does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One `[[rule]]`. A field that is None matches everything."""

    number: int
    """Its place in the file, from 1."""
    verdict: Verdict
    app: str | None = None
    agent: str | None = None
    conversation: str | None = None
    kind: Kind | None = None
    name: str | None = None
    """The tool, capability, presentation or lifecycle request; None exactly if `kind` is."""
    span: Span = "once"
    """Of `ask`: for how many requests a yes is good."""
    expires_s: int | None = None
    """Of `ask`: how long a yes is good."""

    @property
    def is_unconditional(self) -> bool:
        """It holds for every agent and conversation."""
        return self.agent is None and self.conversation is None

    def speaks_of(self, app: str, kind: Kind, name: str) -> bool:
        """It may decide this, for some agent in some conversation."""
        return (
            self.app in {None, app}
            and self.kind in {None, kind}
            and self.name in {None, name}
            and self.verdict in KNOWN[kind]
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What policy says about one wish."""

    verdict: Verdict
    rule: Rule | None = None
    """None where no rule matches."""


_UNRULED: Final[Mapping[Kind, Decision]] = {kind: Decision(verdict) for kind, verdict in UNRULED.items()}


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules, in order. Replaced as a whole, never changed."""

    rules: tuple[Rule, ...] = ()
    digest: str = hashlib.sha256(b"").hexdigest()
    """Hex SHA-256 of the file."""
    names_agents: bool = field(init=False, default=False)
    """Some rule needs to know whose conversation it is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names_agents", any(rule.agent is not None for rule in self.rules))

    def decide(
        self,
        app: str,
        agent: str | None,
        conversation: str | None,
        *,
        tool: str | None = None,
        capability: str | None = None,
        presentation: str | None = None,
        lifecycle: str | None = None,
    ) -> Decision:
        """The first matching rule's decision, or what holds without one. Exactly one of the four is named."""
        kind, name = _named(tool, capability, presentation, lifecycle)
        for rule in self.rules:
            if (
                rule.speaks_of(app, kind, name)
                and rule.agent in {None, agent}
                and rule.conversation in {None, conversation}
            ):
                return Decision(rule.verdict, rule)
        return _UNRULED[kind]

    def hides_tool(self, app: str, tool: str) -> bool:
        """It is denied to every agent in every conversation: nobody needs to see it."""
        for rule in self.rules:
            if rule.speaks_of(app, "tool", tool):
                if rule.verdict is not Verdict.DENY:
                    return False
                if rule.is_unconditional:
                    return True
        return False

    def hides_app(self, app: str, tools: tuple[str, ...]) -> bool:
        """Everything of it is denied to everyone; `tools` are all that it has."""
        of_all = (rule for rule in self.rules if rule.kind is None and rule.app in {None, app})
        first = next((rule for rule in of_all if rule.verdict is not Verdict.DENY or rule.is_unconditional), None)
        denied = first is not None and first.verdict is Verdict.DENY
        return denied and all(self.hides_tool(app, tool) for tool in tools)


def _named(
    tool: str | None, capability: str | None, presentation: str | None, lifecycle: str | None
) -> tuple[Kind, str]:
    if tool is not None:
        return "tool", tool
    if capability is not None:
        return "capability", capability
    if presentation is not None:
        return "presentation", presentation
    if lifecycle is not None:
        return "lifecycle", lifecycle
    raise TypeError("name what is to be decided")


NO_RULES: Final = Policy()
"""What holds where no file is."""
