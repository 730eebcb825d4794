"""One table has every message type: doors, page and schemas say the same."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from miniapp_worker.session import Identity, Session
from runtime_actors.channel.intake import REQUESTS
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.protocol import KINDS, Door, types_at
from runtime_actors.gateway.peers import BEFORE_ATTACH, NEEDS_CONVERSATION, ROLES
from tests.golden_files import Case, every_case, manifests

ROOT: Final = Path(__file__).parents[2]
SCHEMAS: Final = ROOT / "docs" / "schema"
SESSION_WORDS: Final = ("hello", "confined", "ready", "pong", "resume", "bye")


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("door", ["agent", "host", "control"])
def test_a_door_reads_what_the_table_says_is_said_there(door: Door) -> None:
    assert ROLES[door] == {name: KINDS[name].body for name in types_at(door, "in")}


def test_the_channel_reads_what_the_table_says_workers_say() -> None:
    words = {f"lineup.v1.session.{word}" for word in SESSION_WORDS}

    said = {name: KINDS[name].body for name in types_at("worker", "in") - words}
    assert said == REQUESTS
    assert words <= types_at("worker", "in")


def test_a_worker_reads_what_the_table_says_it_is_told() -> None:
    async def readers() -> frozenset[str]:
        session = Session(Identity("att-1", "t" * 32), "/nowhere")
        try:
            return frozenset(session._readers)
        finally:
            session.close(linger_ms=0)

    assert asyncio.run(readers()) == types_at("worker", "out")


def test_what_needs_more_than_a_body_is_in_the_table() -> None:
    assert not (NEEDS_CONVERSATION | BEFORE_ATTACH) - KINDS.keys()


def test_every_wire_model_of_a_message_names_its_type() -> None:
    for name, kind in KINDS.items():
        documented = [
            part for base in kind.body.__mro__ if issubclass(base, WireModel) for part in [base.__doc__ or ""]
        ]
        assert f"`{name}`" in documented[0], name


def test_the_page_names_every_type_and_no_other() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    _, _, session = page.partition("### 6.1 Session")
    session, _, _ = session.partition("### 6.2")

    named = set(re.findall(r"lineup\.v1\.[a-z_]+(?:\.[a-z_]+)*", page))
    shortly = {f"lineup.v1.{word}" for word in re.findall(r"\b(?:session|context|call|inbox)\.[a-z]+", session)}

    assert named | shortly == KINDS.keys()


def test_the_schemas_say_what_the_models_say() -> None:
    checked = subprocess.run(
        [sys.executable, "scripts/contract_schema.py", "--check"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_a_schema_is_one(path: Path) -> None:
    Draft202012Validator.check_schema(schema(path.stem))


NOT_IN_A_SCHEMA: Final = {
    # What `data` may be is a matter of bytes, depth and number of values.
    "a side that is too large",
    "an input that is too deep for a payload",
    # Python's `$` is also before a last line feed; the doors match with an engine where it is not.
    "a call_id that ends in a line feed",
    # What can be seen is a matter of Unicode categories.
    "a title of two lines",
    # Which fields go together.
    "an action without a name",
    # Which signals there are is the system's to say.
    "a signal that is none",
}


def _id(case: Case) -> str:
    return f"{case.story}: {case.name}"


def _is_in_place(case: Case) -> bool:
    kind = KINDS.get(case.kind)
    return kind is not None and case.direction == kind.direction and case.door in kind.doors


IN_PLACE: Final = [case for case in every_case() if _is_in_place(case) and case.name not in NOT_IN_A_SCHEMA]


@pytest.mark.parametrize("case", IN_PLACE, ids=_id)
def test_a_golden_envelope_fits_its_schema_unless_it_is_the_invalid_one(case: Case) -> None:
    validator = Draft202012Validator(schema(case.kind))

    assert validator.is_valid(case.envelope) == (case.expect != "message_invalid")


@pytest.mark.parametrize("one", [one for one in manifests() if one.expect == "accepted"], ids=lambda one: one.name)
def test_a_manifest_that_is_accepted_fits_its_schema(one: Any) -> None:  # noqa: ANN401
    Draft202012Validator(schema("manifest.schema")).validate(one.manifest)
