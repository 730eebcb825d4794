"""What one frame must be answered that reaches a daemon with nothing else to do, at whichever door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.models import expected, people_expected

if TYPE_CHECKING:
    from tests.models.wire import Connection, Said
    from tests.models.world import World

_UNANSWERED: Final = frozenset({"host.attach", "host.ack", "host.show"})
"""Or answered with more than a code."""


def answer(world: World, connection: Connection, said: Said) -> str | None:
    """The code, `ok`, or `nothing`; None if it is not foretold. The witness has heard the frame already."""
    if connection.door == "host":
        return _to_host(world, connection, said)
    if connection.door == "agent":
        return _to_agent(world, connection, said)
    attempt_id = connection.door.removeprefix("w-")
    place, counts = world.witness.place_of(attempt_id), connection.is_open and connection.proven
    if said.kind.startswith("ui."):
        sql, wall_s = world.life.sql, world.wall_s()
        return people_expected.to_worker(sql, place, attempt_id, said, wall_s) if counts else "nothing"
    word = world.witness.words.get((attempt_id, said.id))
    if word is None or word.kind in {"inbox.list", "get"}:
        return None
    return expected.to_worker(world.life.sql, place, word) if counts else "nothing"


def _to_agent(world: World, connection: Connection, said: Said) -> str | None:
    asked = world.witness.asked.get(said.id)
    if asked is None or not said.kind.startswith("tool."):
        return None
    if not (connection.is_open and connection.proven):
        return "not_attached" if connection.is_open else "nothing"
    return expected.to_agent(world.life.sql, asked, doubtful=world.doubtful)


def _to_host(world: World, connection: Connection, said: Said) -> str | None:
    if not said.kind.startswith("host.") or said.kind in _UNANSWERED:
        return None
    if not (connection.is_open and connection.proven):
        return "not_attached" if connection.is_open else "nothing"
    host = next(one for one in world.hosts.values() if one.pid == connection.pid)
    if people_expected.is_known(world.life.sql, host.name, host.nonce, said.id):
        return "ok"
    return people_expected.to_host(world.life.sql, said, world.wall_s())
