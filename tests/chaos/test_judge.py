"""What is found in the evidence besides what the history checker finds."""

from __future__ import annotations

from typing import Any

from runtime_actors.chaos.judge import OWN_RULES, completed_twice, sentence_of
from runtime_actors.chaos.lines import told
from runtime_actors.checker import RULES


def an_end(digest: str = "d1", to: str = "completed") -> dict[str, Any]:
    return {
        "seq": 5,
        "at": "2026-01-01T00:00:00Z",
        "event": "call.ended",
        "subject": {"call_id": "c1", "instance_id": "i1", "agent_id": "local"},
        "detail": {"from": "running", "to": to, "code": None},
        "digest": digest,
        "head_hash": "00",
    }


def a_word(digest: str, *, seq: int = 6, word: str = "completed", instance: str = "i1") -> dict[str, Any]:
    return {"word": word, "seq": seq, "call_id": "c1", "instance_id": instance, "digest": digest, "at": 1.0}


def test_another_result_after_the_one_that_was_taken_is_found_with_both() -> None:
    end, word = an_end(), a_word("d2")

    (found,) = completed_twice([end], [a_word("d1", seq=5), word])

    assert found.rule == "completed_twice"
    assert found.shortest == (end, word)


def test_the_same_result_again_is_no_fault() -> None:
    assert not list(completed_twice([an_end()], [a_word("d1"), a_word("d1", seq=9)]))


def test_a_result_that_was_refused_before_another_was_taken_is_no_fault() -> None:
    assert not list(completed_twice([an_end()], [a_word("d2", seq=3)]))


def test_a_late_word_that_is_no_result_is_no_fault() -> None:
    assert not list(completed_twice([an_end()], [a_word("d2", word="cancelled")]))
    assert not list(completed_twice([an_end(to="cancelled")], [a_word("d2")]))
    assert not list(completed_twice([an_end()], [a_word("d2", instance="i2")]))


def test_every_rule_has_a_sentence_and_no_name_is_given_twice() -> None:
    assert not OWN_RULES.keys() & RULES.keys()
    assert all(map(sentence_of, (*OWN_RULES, *RULES)))


def test_lines_are_told_without_digests() -> None:
    assert told(an_end()) == "audit 5: call.ended c1 (from running, to completed)"
    assert told(a_word("d" * 64)) == "app: completed c1 (result dddddddddddd...), after audit 6"
    fault = {"what": "fault", "by": "chaos", "at": 1.0, "kind": "clock", "detail": {"point": "step:2", "target": "t"}}
    assert told(fault) == "fault: clock at step:2, t"
    asked = {"what": "fail", "by": "local", "at": 1.0, "id": "r1", "code": "busy", "body": {"call_id": "c1"}}
    assert told(asked) == "local: fail c1 (code busy)"
    assert told({"step": 3, "do": "call"}) == '{"step": 3, "do": "call"}'
