"""A policy is in force from one command to the next, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime_actors.commands.policy_changes import PolicyInForce
from runtime_actors.contract.rejection import Rejection
from runtime_actors.records.transaction import Transaction
from runtime_actors.store import actor
from runtime_actors.store.messages import UsePolicy
from tests.permission_fakes import ruled
from tests.store.bench import a_bench, is_rejected

ASK = ruled('decision = "ask"')


def rules_seen(tx: Transaction, _nothing: object) -> int:
    return len(tx.settings.policy.rules)


def test_commands_before_it_see_the_old_one_and_those_behind_it_the_new_one(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        for _ in range(2):
            bench.tell(rules_seen)
        bench.send(UsePolicy(ASK, bench.told.append))
        for _ in range(2):
            bench.tell(rules_seen)

        told = bench.handle()

        before, after = told[:2], told[3:]
        assert (before, after) == ([0, 0], [1, 1])
        assert isinstance(told[2], PolicyInForce)
        assert told[2].digest == ASK.digest
        assert bench.row("select event from audit order by seq desc limit 1") == ("policy.loaded",)


def test_one_that_cannot_be_audited_is_not_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_tx: Transaction, _before: object) -> PolicyInForce | Rejection:
        raise ValueError("a bug")

    monkeypatch.setattr(actor, "note_policy", breaks)
    with a_bench(tmp_path) as bench:
        bench.send(UsePolicy(ASK, bench.told.append))
        bench.tell(rules_seen)

        told = bench.handle()

        assert is_rejected(told[0], "internal_error")
        assert told[1:] == [0]
        assert bench.walked() == bench.end()


def test_a_rebuild_of_the_store_keeps_the_policy(tmp_path: Path) -> None:
    with a_bench(tmp_path) as bench:
        bench.send(UsePolicy(ASK, lambda _: None))
        bench.handle()

        bench.actor.rebuild()

        assert bench.ask(rules_seen) == 1
