"""How an artifact is got: whole and checked, or not at all."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any, Final

import pytest

from runtime_actors.client import AgentSession, UnreadableAnswer
from runtime_actors.client.artifacts import ArtifactDamaged, fetch_artifact, write_whole
from runtime_actors.contract.base import JsonObject

CONTENT: Final = b"<svg/>" * 10


class Told(AgentSession):
    """A session that is told these pieces of `CONTENT`, without a daemon."""

    def __init__(self, *pieces: str | bytes) -> None:
        super().__init__("ipc:///nowhere", "alice", None)
        self.pieces = list(pieces)
        self.asked: list[Any] = []

    def request(self, kind: str, body: Any, **_: Any) -> tuple[str, JsonObject]:  # noqa: ANN401 - as it is
        self.asked.append(body)
        if kind == "lineup.v1.artifact.get":
            meta = {
                "artifact_id": "art-1", "name": "a.svg", "media_type": "image/svg+xml", "size": len(CONTENT),
                "sha256": hashlib.sha256(CONTENT).hexdigest(), "app_scope": "board", "conversation_id": "c1",
                "created_at": "2026-01-01T00:00:00Z",
            }  # fmt: skip
            return "lineup.v1.artifact", {"request_id": "q", "artifact": meta}
        piece = self.pieces.pop(0)
        text = base64.b64encode(piece).decode() if isinstance(piece, bytes) else piece
        told = {"request_id": "q", "artifact_id": "art-1", "offset": body.offset, "content": text, "size": len(CONTENT)}
        return "lineup.v1.artifact.content", told


def test_pieces_are_put_together_in_order() -> None:
    with Told(CONTENT[:7], CONTENT[7:40], CONTENT[40:]) as session:
        found = fetch_artifact(session, "art-1", conversation_id="c1")

    assert found.content == CONTENT
    assert [one.offset for one in session.asked[1:]] == [0, 7, 40]


@pytest.mark.parametrize(
    "pieces", [(CONTENT[::-1],), (CONTENT + b"!",), (CONTENT[:7], b""), (CONTENT[:7], CONTENT)], ids=repr
)
def test_what_was_not_announced_is_damaged(pieces: tuple[bytes, ...]) -> None:
    with Told(*pieces) as session, pytest.raises(ArtifactDamaged):
        fetch_artifact(session, "art-1", conversation_id="c1")


def test_a_piece_that_is_not_base64_is_unreadable() -> None:
    with Told("%%%") as session, pytest.raises(UnreadableAnswer):
        fetch_artifact(session, "art-1", conversation_id="c1")


def test_a_file_is_written_once_and_replaced_only_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"

    write_whole(path, CONTENT, replace=False)
    with pytest.raises(FileExistsError):
        write_whole(path, b"other", replace=False)

    assert path.read_bytes() == CONTENT
    write_whole(path, b"other", replace=True)
    assert path.read_bytes() == b"other"
    assert [one.name for one in tmp_path.iterdir()] == ["a.svg"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.svg"
    path.write_bytes(b"mine")

    def no_space(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, CONTENT, replace=True)

    assert path.read_bytes() == b"mine"
    assert [one.name for one in tmp_path.iterdir()] == ["a.svg"]


def test_a_link_that_leads_nowhere_is_something_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(FileExistsError):
        write_whole(path, CONTENT, replace=False)

    assert not (tmp_path / "elsewhere").exists()
