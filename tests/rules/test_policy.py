"""The first matching rule decides; a file that says anything else than rules is refused with the place."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.policy import KNOWN, NO_RULES, Decision, Kind, Policy, Rule, Verdict
from runtime_actors.rules.policy_text import MAX_BYTES, MAX_RULES, PolicyFault, closed_rules, parse
from tests.permission_fakes import a_policy, ruled


def verdict(policy: Policy, app: str = "notes", agent: str = "local", conversation: str = "c1", **about: str) -> str:
    return str(policy.decide(app, agent, conversation, **about).verdict)


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"tool": "notes.write"}, "allow"),
        ({"capability": "notify"}, "deny"),
        ({"presentation": "modal"}, "allow"),
        ({"lifecycle": "close"}, "allow"),
    ],
)
def test_without_a_rule_tools_presentations_and_lifecycle_are_allowed_and_capabilities_denied(
    about: dict[str, str], expected: str
) -> None:
    assert verdict(NO_RULES, **about) == expected


def test_the_first_rule_that_matches_decides() -> None:
    policy = ruled(
        'app = "notes", agent = "guest", decision = "deny"',
        'tool = "notes.write", decision = "ask"',
        'decision = "allow"',
    )

    assert verdict(policy, agent="guest", tool="notes.write") == "deny"
    assert verdict(policy, tool="notes.write") == "ask"
    assert verdict(policy, tool="notes.read") == "allow"
    assert verdict(policy, capability="notify") == "allow"


def test_a_rule_that_permits_what_is_never_granted_is_named() -> None:
    policy = ruled(
        'capability = "notify", decision = "allow"',
        'capability = "network.http", decision = "allow"',
        'capability = "camera", decision = "deny"',
        'capability = "camera", decision = "ask"',
    )

    found = closed_rules(policy)

    assert [one.split(":")[0] for one in found] == ["rule 2, capability", "rule 4, capability"]


FIELDS = {"app": "notes", "agent": "local", "conversation": "c1", "tool": "notes.write"}


@pytest.mark.parametrize("missing", FIELDS)
def test_a_rule_matches_only_if_each_of_its_fields_does_and_one_that_is_left_out_matches_everything(
    missing: str,
) -> None:
    whole = ", ".join([f'{name} = "{value}"' for name, value in FIELDS.items()] + ['decision = "deny"'])
    asked = FIELDS | {missing: "other" if missing != "tool" else "notes.other"}
    without = ", ".join(
        [f'{name} = "{value}"' for name, value in FIELDS.items() if name != missing] + ['decision = "deny"']
    )

    assert verdict(ruled(whole), **FIELDS) == "deny"
    assert verdict(ruled(whole), **asked) == "allow"
    assert verdict(ruled(without), **asked) == "deny"


def test_a_rule_that_names_nothing_speaks_of_what_knows_its_decision() -> None:
    asked, inline = ruled('decision = "ask"'), ruled('decision = "inline"')

    assert [verdict(asked, tool="a.b"), verdict(asked, capability="notify")] == ["ask", "ask"]
    assert [verdict(asked, presentation="modal"), verdict(asked, lifecycle="close")] == ["allow", "allow"]
    assert [verdict(inline, presentation="modal"), verdict(inline, tool="a.b")] == ["inline", "allow"]


def test_a_rule_of_ask_says_for_how_many_requests_and_for_how_long() -> None:
    policy = ruled('capability = "notify", decision = "ask", for = "always", expires_s = 3600')

    rule = policy.decide("notes", "local", "c1", capability="notify").rule

    assert rule is not None
    assert (rule.span, rule.expires_s, rule.number) == ("always", 3600, 1)


def test_the_digest_names_the_file() -> None:
    assert a_policy("").digest == NO_RULES.digest
    assert a_policy("# a word\n").digest != NO_RULES.digest


_rules = st.builds(
    Rule,
    number=st.just(0),
    verdict=st.sampled_from(Verdict),
    app=st.sampled_from((None, "notes", "board")),
    agent=st.sampled_from((None, "local", "guest")),
    conversation=st.sampled_from((None, "c1", "c2")),
    kind=st.just("tool"),
    name=st.sampled_from(("notes.write", "notes.read")),
) | st.builds(
    Rule,
    number=st.just(0),
    verdict=st.sampled_from(Verdict),
    app=st.sampled_from((None, "notes", "board")),
    agent=st.sampled_from((None, "local", "guest")),
    conversation=st.sampled_from((None, "c1", "c2")),
)


@given(st.lists(_rules, max_size=6))
def test_a_tool_is_hidden_only_if_it_is_denied_to_every_agent_in_every_conversation(rules: list[Rule]) -> None:
    policy = Policy(tuple(replace(rule, number=at) for at, rule in enumerate(rules, 1)))

    decisions = {
        policy.decide("notes", agent, conversation, tool="notes.write").verdict
        for agent, conversation in product(("local", "guest", "nobody"), ("c1", "c2", "elsewhere"))
    }

    if policy.hides_tool("notes", "notes.write"):
        assert decisions == {Verdict.DENY}
    if policy.hides_app("notes", ("notes.write",)):
        assert policy.hides_tool("notes", "notes.write")


def test_what_some_agent_may_use_is_not_hidden() -> None:
    policy = ruled('tool = "notes.write", agent = "guest", decision = "allow"', 'app = "notes", decision = "deny"')

    assert not policy.hides_tool("notes", "notes.write")
    assert policy.hides_tool("notes", "notes.read")
    assert not policy.hides_app("notes", ("notes.read", "notes.write"))
    assert policy.hides_app("notes", ("notes.read",))


def test_a_decision_without_rules_costs_next_to_nothing() -> None:
    begun = time.perf_counter()
    for _ in range(10_000):
        NO_RULES.decide("notes", "local", "c1", tool="notes.write")

    assert (time.perf_counter() - begun) / 10_000 < 50e-6


# --- reading ---


def faults(text: str) -> list[tuple[int | None, int | None, str | None]]:
    found = parse(text.encode())
    assert isinstance(found, list), found
    return [(fault.line, fault.rule, fault.field) for fault in found]


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ('app = "Notes"\ndecision = "deny"', (2, 1, "app")),
        ('decision = "deny"\nagent = 7', (3, 1, "agent")),
        ('decision = "deny"\nconversation = ""', (3, 1, "conversation")),
        ('tool = "notes"\ndecision = "deny"', (2, 1, "tool")),
        ('capability = "No ti"\ndecision = "deny"', (2, 1, "capability")),
        ('presentation = "default"\ndecision = "deny"', (2, 1, "presentation")),
        ('lifecycle = "open"\ndecision = "deny"', (2, 1, "lifecycle")),
        ('\n\ndecision = "perhaps"', (4, 1, "decision")),
        ('app = "notes"', (1, 1, "decision")),
        ('tool = "a.b"\ncapability = "c"\ndecision = "deny"', (3, 1, "capability")),
        ('presentation = "modal"\ndecision = "ask"', (3, 1, "decision")),
        ('lifecycle = "close"\ndecision = "inline"', (3, 1, "decision")),
        ('tool = "a.b"\ndecision = "inline"', (3, 1, "decision")),
        ('decision = "deny"\nfor = "once"', (3, 1, "for")),
        ('decision = "allow"\nexpires_s = 3', (3, 1, "expires_s")),
        ('decision = "ask"\nfor = "ever"', (3, 1, "for")),
        ('decision = "ask"\nexpires_s = 0', (3, 1, "expires_s")),
        ('decision = "ask"\nexpires_s = true', (3, 1, "expires_s")),
        ('decision = "ask"\nexpires_s = 1.5', (3, 1, "expires_s")),
        ('app = "notes"\ntool = "board.open"\ndecision = "deny"', (3, 1, "tool")),
        ('decision = "deny"\nwhen = "always"', (3, 1, "when")),
        ('decision = ["deny"]', (2, 1, "decision")),
    ],
)
def test_a_mistake_in_a_rule_is_named_by_its_line_and_field(rule: str, place: tuple[int, int, str]) -> None:
    assert faults(f"[[rule]]\n{rule}\n") == [place]


def test_every_mistake_is_named_in_the_order_of_the_file() -> None:
    text = '[[rule]]\napp = "A"\ndecision = "deny"\n\n[[rule]]\ndecision = "deny"\n[[rule]]\ndecision = "no"\n'

    assert faults(text) == [(2, 1, "app"), (8, 3, "decision")]


def test_what_is_no_rule_is_refused() -> None:
    assert faults("[rules]\n") == [(1, None, "rules")]
    assert faults('rule = "deny"') == [(None, None, None)]
    assert faults("[[rule]]\napp = \n") == [(2, None, None)]
    assert faults("x" * (MAX_BYTES + 1)) == [(None, None, None)]
    assert faults('[[rule]]\ndecision = "deny"\n' * (MAX_RULES + 1)) == [(None, None, None)]
    assert [fault.line for fault in parse(b"\n\xff") if isinstance(fault, PolicyFault)] == [2]  # type: ignore[union-attr]


@pytest.mark.parametrize("line", ["{}b = 1", "x = {{ {}b = 1 }}", "[{}b]"])
@pytest.mark.parametrize("part", ["a.", '"a" . ', "'a'."])
def test_a_name_of_so_many_parts_is_refused_before_it_is_read(line: str, part: str) -> None:
    [fault] = parse(f'[[rule]]\ndecision = "deny"\n{line.format(part * 100)}\n'.encode())  # type: ignore[misc]

    assert (fault.line, "too many parts" in str(fault)) == (3, True)


def test_dots_that_part_no_names_are_nobodys_business() -> None:
    text = f'# {"." * 500}\n[[rule]]\ntool = "notes.write"\ndecision = "deny"  # {"so. " * 30}\n'

    assert isinstance(parse(text.encode()), Policy)


@pytest.mark.parametrize("text", [b"a." * 100_000, b"a " * 120_000, b"a" * 250_000, b'"' * 250_000, b"a.\n" * 80_000])
def test_no_text_takes_long_or_much_memory(text: bytes) -> None:
    tracemalloc.start()
    try:
        begun = time.process_time()
        parse(text)
        took_s, (_, peak) = time.process_time() - begun, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert took_s < 5.0
    assert peak < 32 * 1024 * 1024


def test_rules_written_inline_have_a_number_and_no_line() -> None:
    assert faults('rule = [{decision = "deny"}, {decision = "no"}]') == [(None, 2, "decision")]


def test_a_mistake_reads_as_a_sentence_with_its_place() -> None:
    found = parse(b'[[rule]]\ndecision = "no"\n')

    assert isinstance(found, list)
    assert str(found[0]) == 'line 2, rule 1, decision: write one of "allow", "ask", "deny", "inline"'


@given(st.binary(max_size=200) | st.text(alphabet='[]rule="\n .#{}ask', max_size=80).map(str.encode))
def test_whatever_the_file_holds_it_is_a_policy_or_a_list_of_mistakes(text: bytes) -> None:
    found = parse(text)

    assert isinstance(found, Policy) or (found and all(str(one) for one in found))


@given(st.lists(_rules, max_size=5), st.sampled_from(tuple(KNOWN)))
def test_a_decision_is_always_one_that_its_kind_knows(rules: list[Rule], kind: Kind) -> None:
    decision = Policy(tuple(rules)).decide("notes", "local", "c1", **{kind: "notes.write"})

    assert isinstance(decision, Decision)
    assert decision.verdict in KNOWN[kind]
