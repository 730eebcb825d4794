"""A MiniApp's request that is repeated is answered again; its id cannot stand for another request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from runtime_actors.commands import artifacts, capabilities, hosts, interactions, lifecycle, surfaces
from runtime_actors.commands.asker import Asker
from runtime_actors.contract.capabilities import CapabilityRequest
from runtime_actors.contract.interactions import UiCancel, UiRequest
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.surfaces import ArtifactBegin, ArtifactChunk, SurfaceOpen, SurfaceRequest, SurfaceUpdate
from tests.fakes import Records, assert_refused
from tests.permission_fakes import an_instance, records_with

NOTE: Final = {"kind": "notice", "title": "Done", "message": ""}
SURFACE: Final = SurfaceRequest(kind="board", title="A board", state={})
TWELVE_WRONG: Final = "eHh4eHh4eHh4eHh4"
Request = Callable[[Asker], tuple[Callable[..., Any], object]]
REQUESTS: Final[dict[str, Request]] = {
    "ui.cancel": lambda by: (
        interactions.cancel_interaction,
        interactions.CancelOwn(by, UiCancel(interaction_id="int-1")),
    ),
    "surfaces.open": lambda by: (surfaces.open_surface, surfaces.Opening(by, SurfaceOpen(surface=SURFACE))),
    "surfaces.update": lambda by: (
        surfaces.update_surface,
        surfaces.Updating(by, SurfaceUpdate(surface_id="srf-1", patch={"a": 1})),
    ),
    "lifecycle.foreground": lambda by: (lifecycle.request_foreground, by),
    "capabilities.request": lambda by: (
        capabilities.request_capability,
        capabilities.CapabilityWish(by, CapabilityRequest(capability="notify", reason="so that you hear of it")),
    ),
    "artifacts.chunk": lambda by: (
        artifacts.add_chunk,
        artifacts.Piece(by, ArtifactChunk(artifact_id="art-1", offset=0, content=TWELVE_WRONG)),
    ),
}
SAME_SHAPE: Final = {frozenset({"surfaces.open", "surfaces.update"})}
"""Their answers look alike: who mixes them up gets the first one's."""


@pytest.fixture
def records() -> Records:
    """An app with a question, a surface and an announced artifact, whom policy allows everything."""
    made = records_with('decision = "allow"')
    made.run(hosts.attach_host, hosts.Attaching(7, "screen", "n" * 16, True, None, None, None))  # noqa: FBT003 - it can draw
    an_instance(made)
    wish = UiRequest.model_validate({"request": NOTE})
    made.run(interactions.request_interaction, interactions.AskPerson(Asker("ins-1", "att-1", "att-1/1"), wish))
    made.run(surfaces.open_surface, surfaces.Opening(Asker("ins-1", "att-1", "att-1/2"), SurfaceOpen(surface=SURFACE)))
    announced = ArtifactBegin(
        name="a.txt", media_type="text/plain", size=12, sha256=hashlib.sha256(b"other words!").hexdigest()
    )
    made.run(artifacts.begin_artifact, artifacts.Beginning(Asker("ins-1", "att-1", "att-1/3"), announced))
    return made


@pytest.mark.parametrize("second", REQUESTS)
@pytest.mark.parametrize("first", REQUESTS)
def test_an_id_stands_for_one_request(records: Records, first: str, second: str) -> None:
    by = Asker("ins-1", "att-1", "att-1/9")
    rule, argument = REQUESTS[first](by)
    answered = records.run(rule, argument)
    assert not isinstance(answered, Rejection), answered

    rule, argument = REQUESTS[second](by)
    if first == second or frozenset({first, second}) in SAME_SHAPE:
        before = records.everything()
        assert records.run(rule, argument) == answered
        assert records.everything() == before
    else:
        assert_refused(records, rule, argument, "message_id_conflict", "request.refused")
