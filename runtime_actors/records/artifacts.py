"""Rows of artifacts and of their content."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.contract.surfaces import ArtifactMeta
from runtime_actors.rules.artifacts import Artifact, Sums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime_actors.contract.surfaces import ArtifactBegin
    from runtime_actors.records.transaction import Transaction

_COLUMNS: Final = tuple(one.name for one in fields(Artifact))
_SELECT: Final = f"select {', '.join(_COLUMNS)} from artifacts"  # noqa: S608 - our own column names
_INSERT: Final = f"insert into artifacts ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_OF_ALL: Final = ""
"""The row of `artifact_sums` that counts those of every conversation."""


def of_instance(tx: Transaction, instance_id: str, artifact_id: str) -> Artifact | None:
    """By id: another instance's is not found."""
    return _record(tx.row(f"{_SELECT} where artifact_id = ? and instance_id = ?", artifact_id, instance_id))


def complete_in(tx: Transaction, conversation_id: str, artifact_id: str) -> Artifact | None:
    """By id, if all of it is there: another conversation's is not found."""
    sql = f"{_SELECT} where artifact_id = ? and conversation_id = ? and status = 'complete'"
    return _record(tx.row(sql, artifact_id, conversation_id))


def same(tx: Transaction, instance_id: str, asked: ArtifactBegin) -> Artifact | None:
    """What this instance announced before in the same words."""
    return _record(
        tx.row(
            f"{_SELECT} where instance_id = ? and sha256 = ? and name = ? and media_type = ? and size = ?",
            instance_id,
            asked.sha256,
            asked.name,
            asked.media_type,
            asked.size,
        )
    )


def sums(tx: Transaction, conversation_id: str = _OF_ALL) -> Sums:
    """Of a conversation, or of all."""
    row = tx.row("select artifacts, bytes from artifact_sums where conversation_id = ?", conversation_id)
    return Sums(0, 0) if row is None else Sums(*row)


def unfinished(tx: Transaction, before: str, limit: int) -> list[Artifact]:
    """Announced before then and not complete, the oldest first."""
    sql = f"{_SELECT} where status = 'receiving' and created_at < ? order by created_at limit ?"
    return [_made(row) for row in tx.rows(sql, before, limit)]


def page(tx: Transaction, after: int, limit: int, of: dict[str, str]) -> list[tuple[int, Artifact]]:
    """Artifacts behind a place, each with its own place, oldest first; `of` names columns and their values."""
    terms = " and ".join(["rowid > ?", *(f"{name} = ?" for name in of)])
    sql = f"select rowid, {', '.join(_COLUMNS)} from artifacts where {terms} order by rowid limit ?"  # noqa: S608
    return [(row[0], _made(row[1:])) for row in tx.rows(sql, after, *of.values(), limit)]


def add(tx: Transaction, artifact: Artifact) -> None:
    """Insert."""
    tx.sql.execute(_INSERT, [getattr(artifact, name) for name in _COLUMNS])


def save(tx: Transaction, artifact: Artifact) -> None:
    """Write what can change."""
    tx.sql.execute(
        "update artifacts set received = ?, status = ? where artifact_id = ?",
        (artifact.received, artifact.status, artifact.artifact_id),
    )


def drop(tx: Transaction, artifact_id: str) -> None:
    """Forget it and its content."""
    tx.sql.execute("delete from artifact_chunks where artifact_id = ?", (artifact_id,))
    tx.sql.execute("delete from artifacts where artifact_id = ?", (artifact_id,))


def add_piece(tx: Transaction, artifact_id: str, start: int, content: bytes) -> None:
    """Keep a piece of content."""
    tx.sql.execute("insert into artifact_chunks values (?, ?, ?)", (artifact_id, start, content))


def pieces(tx: Transaction, artifact_id: str, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Pieces of content in order, with their places, from the one that begins at `start` on."""
    yield from tx.sql.execute(
        "select start, content from artifact_chunks where artifact_id = ? and start >= ? order by start",
        (artifact_id, start),
    )


def shown(artifact: Artifact) -> ArtifactMeta:
    """As agents see it."""
    return ArtifactMeta.model_construct(  # a record needs no validation
        artifact_id=artifact.artifact_id,
        name=artifact.name,
        media_type=artifact.media_type,
        size=artifact.size,
        sha256=artifact.sha256,
        app_scope=artifact.app_scope,
        conversation_id=artifact.conversation_id,
        call_id=artifact.call_id,
        created_at=artifact.created_at,
    )


def _record(row: tuple[Any, ...] | None) -> Artifact | None:
    return None if row is None else _made(row)


def _made(row: tuple[Any, ...]) -> Artifact:
    return Artifact(**dict(zip(_COLUMNS, row, strict=True)))
