"""A revision names a content: it changes exactly when what agents may use does."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.inventory import Catalogue, build
from runtime_actors.rules.policy import Policy, Rule, Verdict
from tests.fakes import BOARD, CATALOGUE, GUARDED, NOTES, SCREEN, a_manifest, a_tool, an_app

MANIFESTS: Final = (BOARD, NOTES, GUARDED, SCREEN)
SWITCHES: Final = (
    ("app", "board"), ("app", "notes"), ("tool", "board.open"), ("tool", "notes.write"), ("tool", "notes.once"),
)  # fmt: skip
NOTHING: Final[frozenset[tuple[str, str]]] = frozenset()


def revision_of(*manifests: dict[str, Any]) -> str:
    return build(Catalogue.of(an_app(one) for one in manifests), NOTHING).revision


@given(st.permutations(MANIFESTS))
def test_the_order_of_apps_does_not_matter(manifests: list[dict[str, Any]]) -> None:
    assert revision_of(*manifests) == revision_of(*MANIFESTS)


def test_the_order_of_tools_and_keys_does_not_matter() -> None:
    turned = {key: NOTES[key] for key in reversed(NOTES)} | {"tools": NOTES["tools"][::-1]}

    assert revision_of(turned) == revision_of(NOTES)


CHANGES: Final[dict[str, dict[str, Any]]] = {
    "title": {"title": "Another title"},
    "description": {"description": "Another description."},
    "handling": {"handling": "operation"},
    "input_schema": {"input_schema": {"type": "object"}},
    "output_schema": {"output_schema": {"type": "object"}},
    "timeout_ms": {"timeout_ms": 60_001},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_agents_see_of_a_tool_is_a_new_revision(name: str) -> None:
    changed = a_manifest("notes", a_tool("notes.write", **CHANGES[name]))

    assert revision_of(changed) != revision_of(a_manifest("notes", a_tool("notes.write")))


def test_a_new_version_of_an_app_is_a_new_revision() -> None:
    assert revision_of(NOTES | {"version": "1.0.1"}) != revision_of(NOTES)


@pytest.mark.parametrize(
    "change",
    [
        {"extensions": {"title": "Notes"}},
        {"subscriptions": []},
        {"host": {"min_version": "0.0.1", "surface_required": False}},
    ],
    ids=["extensions", "subscriptions", "host"],
)
def test_what_agents_do_not_see_changes_no_revision(change: dict[str, Any]) -> None:
    assert revision_of(NOTES | change) == revision_of(NOTES)


@given(st.frozensets(st.sampled_from(SWITCHES)), st.frozensets(st.sampled_from(SWITCHES)))
def test_two_sets_of_switches_have_one_revision_exactly_if_they_show_the_same(
    one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]
) -> None:
    first, second = build(CATALOGUE, one), build(CATALOGUE, other)

    same = first.wire.model_copy(update={"revision": ""}) == second.wire.model_copy(update={"revision": ""})
    assert (first.revision == second.revision) == same


def test_what_is_switched_off_is_not_shown_and_comes_back_as_it_was() -> None:
    everything = build(CATALOGUE, NOTHING)

    without_app = build(CATALOGUE, frozenset({("app", "notes")}))
    without_tool = build(CATALOGUE, frozenset({("tool", "notes.write")}))

    assert {app.app_scope for app in everything.wire.apps} == {"board", "guarded", "notes", "screen"}
    assert {app.app_scope for app in without_app.wire.apps} == {"board", "guarded", "screen"}
    assert not [tool for tool in without_app.wire.tools if tool.app_scope == "notes"]
    assert {tool.id for tool in everything.wire.tools} - {tool.id for tool in without_tool.wire.tools} == {
        "notes.write"
    }
    assert build(CATALOGUE, NOTHING) == everything


def test_capabilities_are_those_of_the_apps_that_are_on() -> None:
    assert build(CATALOGUE, NOTHING).wire.capabilities == ("files.read",)
    assert build(CATALOGUE, frozenset({("app", "guarded")})).wire.capabilities == ()


def test_the_revision_stands_in_what_agents_get() -> None:
    now = build(CATALOGUE, NOTHING)

    assert now.wire.revision == now.revision
    assert now.revision.startswith("r-")


# --- with policy ---

_hiding = st.builds(
    Rule,
    number=st.just(1),
    verdict=st.sampled_from((Verdict.ALLOW, Verdict.ASK, Verdict.DENY)),
    app=st.sampled_from((None, "board", "notes", "guarded")),
    agent=st.sampled_from((None, None, "guest")),
    conversation=st.sampled_from((None, None, "c1")),
    kind=st.none(),
) | st.builds(
    Rule,
    number=st.just(1),
    verdict=st.sampled_from((Verdict.ALLOW, Verdict.ASK, Verdict.DENY)),
    app=st.none(),
    agent=st.sampled_from((None, None, "guest")),
    conversation=st.sampled_from((None, None, "c1")),
    kind=st.just("tool"),
    name=st.sampled_from(("board.open", "notes.write", "notes.once", "guarded.read")),
)
_policies = st.lists(_hiding, max_size=4).map(lambda rules: Policy(tuple(rules)))
_disabled = st.frozensets(st.sampled_from(SWITCHES))


@given(_policies, _disabled, _policies, _disabled)
def test_a_revision_names_what_is_seen_whatever_policy_and_switches_made_it(
    one_policy: Policy,
    one_off: frozenset[tuple[str, str]],
    other_policy: Policy,
    other_off: frozenset[tuple[str, str]],
) -> None:
    first, second = build(CATALOGUE, one_off, one_policy), build(CATALOGUE, other_off, other_policy)

    same = first.wire.model_copy(update={"revision": ""}) == second.wire.model_copy(update={"revision": ""})
    assert (first.revision == second.revision) == same


@given(_policies)
def test_exactly_what_nobody_may_use_is_not_seen(policy: Policy) -> None:
    shown = {tool.id for tool in build(CATALOGUE, NOTHING, policy).wire.tools}

    for name, tool in CATALOGUE.tools.items():
        scope = tool.descriptor.target.app_scope
        usable = any(
            policy.decide(scope, agent, conversation, tool=name).verdict is not Verdict.DENY
            for agent, conversation in product(("local", "guest"), ("c1", "c2"))
        )
        assert name in shown or not usable
        if name not in shown:
            assert not usable


def test_policy_hides_an_app_or_a_tool_that_is_denied_to_everyone() -> None:
    without_app = build(CATALOGUE, NOTHING, Policy((Rule(number=1, verdict=Verdict.DENY, app="guarded"),)))
    without_tool = build(
        CATALOGUE, NOTHING, Policy((Rule(number=1, verdict=Verdict.DENY, kind="tool", name="notes.once"),))
    )

    assert {app.app_scope for app in without_app.wire.apps} == {"board", "notes", "screen"}
    assert without_app.wire.capabilities == ()
    assert without_app.hidden == {"guarded.read"}
    assert {tool.id for tool in without_tool.wire.tools if tool.app_scope == "notes"} == {"notes.write"}


@pytest.mark.parametrize(("agent", "conversation"), [("guest", None), (None, "c1")])
def test_a_denial_for_some_hides_nothing_and_changes_no_revision(agent: str | None, conversation: str | None) -> None:
    policy = Policy((Rule(number=1, verdict=Verdict.DENY, app="notes", agent=agent, conversation=conversation),))

    assert build(CATALOGUE, NOTHING, policy) == build(CATALOGUE, NOTHING)


@pytest.mark.parametrize("verdict", [Verdict.ASK, Verdict.ALLOW, Verdict.INLINE])
def test_what_is_asked_for_or_allowed_is_seen_as_before(verdict: Verdict) -> None:
    policy = Policy((Rule(number=1, verdict=verdict, app="notes"),))

    assert build(CATALOGUE, NOTHING, policy).revision == build(CATALOGUE, NOTHING).revision
