"""What the commands ask of the control door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runtime_actors.client import DoorClient, door_of, parsed
from runtime_actors.contract.agent import Done, Listing, Query, Rows
from runtime_actors.contract.base import JsonObject, WireModel

_PAGE: Final = 200


def order(state: Path, kind: str, body: WireModel, *, timeout_s: float = 10.0, repeat: bool = True) -> JsonObject:
    """Let the daemon do something, and return what it says about it.

    Raises:
        ClientError: It is not running, refused, or did not answer.

    """
    with DoorClient(door_of(state, "control")) as client:
        _, body_came = client.request(kind, body, timeout_s=timeout_s, repeat=repeat)
    return parsed(Done, body_came).data


def rows(
    state: Path, what: Listing, wanted: JsonObject | None = None, *, limit: int | None = None, timeout_s: float = 10.0
) -> Iterator[JsonObject]:
    """The rows of a listing, page by page, at most `limit` in all.

    Raises:
        ClientError: The daemon is not running, refused, or did not answer.

    """
    left, after = limit, None
    with DoorClient(door_of(state, "control")) as client:
        while left is None or left > 0:
            query = Query(what=what, filter=wanted or {}, after=after, limit=min(_PAGE, left or _PAGE))
            _, body = client.request("lineup.v1.control.query", query, timeout_s=timeout_s)
            page = parsed(Rows, body)
            yield from page.rows[:left]
            after = page.next
            left = None if left is None else left - len(page.rows)
            if after is None:
                return
