"""The floor: what two round trips and two durable commits cost here, with nothing between them.

`python -m runtime_actors.bench.floor ENDPOINT` is the other end of the round trips.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import zmq

from runtime_actors.bench import ground

_FRAME: Final = b"x" * 300
"""About as large as the frames of a call."""
_GROWN_BYTES: Final = 8 * 2**20
"""More than the 1,000 pages after which SQLite makes a checkpoint and begins the log anew."""
_ANSWER_MS: Final = 30_000


class Floor:
    """A process that sends frames back, and a database like the store's, on the same disk."""

    def __init__(self, folder: Path) -> None:
        self._kept = contextlib.ExitStack()
        self._sql = self._kept.enter_context(contextlib.closing(_database(folder / "floor.db")))
        endpoint = f"ipc://{folder}/floor.sock"
        self._socket = self._kept.enter_context(_socket())
        self._kept.callback(ground.end, ground.tied(["-m", __name__, endpoint]))
        self._socket.connect(endpoint)
        self._round_trip()  # the first one waits for the other process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def once(self) -> float:
        """Seconds for two round trips and two commits."""
        begun = time.perf_counter()
        for _ in range(2):
            self._round_trip()
            self._commit()
        return time.perf_counter() - begun

    def half(self) -> float:
        """Seconds for one of each: the floor of a receipt."""
        begun = time.perf_counter()
        self._round_trip()
        self._commit()
        return time.perf_counter() - begun

    def _round_trip(self) -> None:
        self._socket.send(_FRAME)
        self._socket.recv()

    def _commit(self) -> None:
        self._sql.execute("begin immediate")
        self._sql.execute("insert into calls (body) values (?)", (_FRAME,))
        self._sql.execute("commit")


def _database(path: Path) -> sqlite3.Connection:
    sql = sqlite3.connect(path, isolation_level=None)
    for pragma in ("locking_mode = exclusive", "journal_mode = wal", "synchronous = full"):
        sql.execute(f"pragma {pragma}").fetchall()
    sql.execute("create table if not exists calls (seq integer primary key, body blob not null) strict")
    # Until its first checkpoint a log grows, and the file system writes that down at each fsync. A store's has grown.
    sql.execute("insert into calls (body) values (zeroblob(?))", (_GROWN_BYTES,))
    return sql


@contextlib.contextmanager
def _socket() -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, _ANSWER_MS)
        yield socket


def send_back(endpoint: str) -> None:
    """Send every frame back, until this process is ended."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.bind(endpoint)
        while True:
            socket.send(socket.recv())


if __name__ == "__main__":
    send_back(sys.argv[1])
