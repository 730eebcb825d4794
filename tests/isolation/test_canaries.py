from __future__ import annotations

import pytest

from miniapp_worker import canaries
from tests.isolation.conftest import Place


def bad(place: Place, name: str) -> set[str]:
    return {canary for canary, (_, ok) in place.heard(name).items() if not ok}


def test_all_canaries_are_content_with_a_sealed_worker(place: Place) -> None:
    assert bad(place, "canaries") == set()
    assert set(place.heard("canaries")) == {canary.name for canary in canaries.ALL}


@pytest.mark.parametrize(
    ("name", "layer", "seen"),
    [
        ("canaries without landlock", "landlock", {"list_root"}),
        ("canaries without seal", "seal", {"unix_socket", "connect", "another_filter"}),
    ],
)
def test_a_missing_layer_is_seen_by_its_own_canaries_and_no_others(
    place: Place, name: str, layer: str, seen: set[str]
) -> None:
    assert bad(place, name) == seen == {canary.name for canary in canaries.ALL if canary.layer == layer}


def test_missing_filters_are_seen(place: Place) -> None:
    assert {"fork", "network_socket", "datagram_pair", "signal_owner", "out_of_band", "exec"} <= bad(
        place, "canaries without filters"
    )
