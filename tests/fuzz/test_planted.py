"""Faults planted at the boundaries: the fuzzer finds each of them, or it would find nothing."""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from runtime_actors.commands import calls
from runtime_actors.contract import codec, json_schema, zmtp
from runtime_actors.gateway import actor as gateway
from runtime_actors.gateway import control
from runtime_actors.records import calls as rows
from runtime_actors.rules import registration
from tests.fuzz import run
from tests.fuzz.campaign import Found, fuzz, load, replay
from tests.fuzz.target import Input

Plant = Callable[[pytest.MonkeyPatch], None]


def _sets(place: Any, name: str, value: object) -> Plant:  # noqa: ANN401 - a module or a class
    return lambda patch: patch.setattr(place, name, value)


def _no_nul_check(patch: pytest.MonkeyPatch) -> None:
    known = codec._scalar
    patch.setattr(codec, "_scalar", lambda value: value if isinstance(value, str) else known(value))


def _whole_floats_stay(patch: pytest.MonkeyPatch) -> None:
    known = codec._scalar
    patch.setattr(codec, "_scalar", lambda value: value if isinstance(value, float) else known(value))


def _keys_as_they_came(patch: pytest.MonkeyPatch) -> None:
    def places(container: Any) -> Any:  # noqa: ANN401 - JSON
        return enumerate(container) if isinstance(container, list) else container.items()

    patch.setattr(codec, "_places", places)


def _key_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(codec._Containers, "map_read", lambda _self, pairs: dict(pairs))


def _infinity_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    known = codec._scalar
    patch.setattr(codec, "_scalar", lambda value: int(value) if value in {math.inf, -math.inf} else known(value))


def _slow(patch: pytest.MonkeyPatch) -> None:
    known = codec._canonical

    def canonical(value: object) -> Any:  # noqa: ANN401 - JSON
        until = time.thread_time() + (0.3 if isinstance(value, dict) and len(value) == 3 else 0)
        while time.thread_time() < until:
            pass
        return known(value)

    patch.setattr(codec, "_canonical", canonical)


def _more_is_read(patch: pytest.MonkeyPatch) -> None:
    known = zmtp.Connection._check_flags

    def check(self: zmtp.Connection, flags: int) -> None:
        known(self, flags & ~1)

    patch.setattr(zmtp.Connection, "_check_flags", check)


def _a_refusal_changes_a_row(patch: pytest.MonkeyPatch) -> None:
    known = calls._refuse

    def refuse(tx: Any, *given: Any) -> Any:  # noqa: ANN401 - as the one it stands for
        tx.sql.execute("update agents set last_number = last_number + 1")
        return known(tx, *given)

    patch.setattr(calls, "_refuse", refuse)


def _secrets_are_compared_as_text(patch: pytest.MonkeyPatch) -> None:
    compare = SimpleNamespace(compare_digest=lambda one, other: hmac.compare_digest(one.decode(), other.decode()))
    patch.setattr(gateway, "hmac", compare)


def _whoever_knows_its_id_may_report(patch: pytest.MonkeyPatch) -> None:
    known = rows.for_report

    def for_report(tx: Any, instance_id: str, call_id: str) -> Any:  # noqa: ANN401 - as above
        owner = tx.row("select instance_id from calls where call_id = ?", call_id)
        return known(tx, owner[0] if owner else instance_id, call_id)

    patch.setattr(rows, "for_report", for_report)


def _refuses_in_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gateway.GatewayActor, "_reject", lambda *_: None)


def _register_raises(patch: pytest.MonkeyPatch) -> None:
    known = registration._ordered

    def ordered(version: str) -> tuple[int, ...]:
        if version.startswith("999999"):
            raise OverflowError(version)
        return known(version)

    patch.setattr(registration, "_ordered", ordered)


PLANTED: Final[dict[str, tuple[Plant, str, int, str]]] = {
    "a NUL is let in": (_no_nul_check, "codec", 600, "the page refuses it: text"),
    "depth is not checked": (_sets(codec, "MAX_DEPTH", 64), "codec", 2000, "the page refuses it: depth"),
    "nodes are not counted": (_sets(codec, "MAX_NODES", 100_000), "codec", 2500, "the page refuses it: nodes"),
    "a frame may be larger": (_sets(codec, "MAX_FRAME_BYTES", 400_000), "codec", 4000, "the page refuses it: size"),
    "less depth is allowed": (_sets(codec, "MAX_DEPTH", 30), "codec", 2000, "the page lets it in"),
    "1.0 and 1 have two forms": (_whole_floats_stay, "codec", 600, "it was read as something else"),
    "keys stay in any order": (_keys_as_they_came, "codec", 600, "it was read as something else"),
    "a key twice is let in": (_key_twice, "codec", 2000, "the page refuses it: key twice"),
    "an exception escapes the codec": (_infinity_is_not_checked, "codec", 1500, "OverflowError"),
    "announced containers are believed": (_sets(codec, "_FEW", 10**6), "codec", 3000, "made it allocate"),
    "a frame takes long": (_slow, "codec", 100, "s of CPU"),
    "MORE is not refused": (_more_is_read, "zmtp", 500, "the page says"),
    "frames of any size are skipped": (_sets(zmtp, "MAX_SKIPPED_BYTES", 2**40), "zmtp", 1000, "frame_too_large"),
    "commands of any size are read": (_sets(zmtp, "MAX_COMMAND_BYTES", 2**20), "zmtp", 2000, "command_too_large"),
    "true is a number": (
        _sets(json_schema, "_is_number", lambda one: isinstance(one, (int, float))),
        "schema",
        1500,
        "ValidationError",
    ),
    "a pattern is let in": (
        _sets(json_schema, "_KEYWORDS", {**json_schema._KEYWORDS, "pattern": json_schema._check_text}),
        "schema",
        2000,
        "the page refuses it",
    ),
    "bounds may contradict": (_sets(json_schema, "_check_bounds", lambda *_: None), "schema", 2000, "the page refuses"),
    "a tool may speak for another app": (
        _sets(registration, "_tool_faults", lambda *_: []),
        "manifest",
        1500,
        "speaks for another app",
    ),
    "registration raises": (_register_raises, "manifest", 1500, "OverflowError"),
    "a refusal changes a row": (_a_refusal_changes_a_row, "agent/tool.invoke", 300, "rows changed"),
    "secrets are compared as text": (_secrets_are_compared_as_text, "agent/agent.relay", 300, "was set aside"),
    "a refusal quotes what was sent": (
        _sets(gateway, "_named_call", lambda said: said.body.get("call_id")),
        "agent/tool.get",
        1000,
        "was set aside",
    ),
    "a page may be larger than a frame": (_sets(control, "_fits", lambda _: True), "control/control.query", 300, ""),
    "any digit names a place": (
        _sets(control, "_is_place", str.isdigit),
        "control/control.query",
        600,
        "internal_error",
    ),
    "a worker reports about others' calls": (
        _whoever_knows_its_id_may_report,
        "worker/tools.fail",
        300,
        "another agent's",
    ),
    "a refusal is not answered": (_refuses_in_silence, "agent/ping", 100, "there is no answer"),
}
"""What is planted, where it is looked for, in how many inputs, and what is to be found."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, target, inputs, says = PLANTED[name]
    plant(monkeypatch)

    figures = fuzz(target, inputs, "planted", shrinks=False)

    assert figures.found, f"{inputs} inputs of {target} did not show it"
    assert any(says in found.fault for found in figures.found), [found.fault for found in figures.found]


def test_a_fault_is_shrunk_kept_and_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _secrets_are_compared_as_text(monkeypatch)

    [found, *_] = fuzz("agent/agent.relay", 200, "planted").found
    again = load(found.save(tmp_path))

    assert len(again.inputs) == 1
    assert "was set aside" in (replay(again) or "")
    monkeypatch.undo()
    assert replay(again) is None


def test_a_replayed_fault_is_told_by_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Found("codec", "planted", (Input(codec.encode({"a": "b"}).replace(b"b", b"\0")),)).save(tmp_path)

    fine = run.main(["--replay", str(path)])
    _no_nul_check(monkeypatch)
    broken = run.main(["--replay", str(path)])

    assert (fine, broken) == (0, 1)
    assert "the page refuses it" in capsys.readouterr().out
