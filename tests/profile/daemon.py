"""The daemon with its hand-overs noted: python -m tests.profile.daemon FILE run OPTION ...

It is the daemon as it is. Before it starts, what passes messages on and what commits is wrapped; when it ends, what was
noted is written to FILE.
"""

from __future__ import annotations

import functools
import json
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from runtime_actors.actor import Ref, RuntimeActor
from runtime_actors.channel.peer import Peer
from runtime_actors.channel.socket import SocketThread
from runtime_actors.cli import main as lineup
from runtime_actors.store import files
from tests.profile.tracks import note, noted


class NotingConnection(sqlite3.Connection):
    """Notes where a transaction begins, and where its COMMIT begins and ends."""

    def execute(self, sql: str, parameters: Iterable[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        if sql == "begin immediate":
            note("begin")
        elif sql == "commit":
            note("commit")
            done = super().execute(sql)
            note("committed")
            return done
        return super().execute(sql, parameters)  # type: ignore[arg-type]


def kind_of(message: object) -> str:
    """What a message is called; of what is told to the store, its command."""
    rule = getattr(message, "rule", None)
    return getattr(rule, "__name__", None) or type(message).__name__


def wrap() -> None:
    """Note what is read, told and taken, ordered and committed."""
    noting(Ref, "tell", lambda ref, message: note(f"tells {ref.name} {kind_of(message)}"))
    noting(RuntimeActor, "on_receive", lambda actor, message: note(f"takes {kind_of(message)}", actor.name))
    noting(SocketThread, "send", lambda *_: note("orders a frame"))
    noting(Peer, "read", lambda _: note("reads"))
    files.sqlite3.connect = functools.partial(sqlite3.connect, factory=NotingConnection)  # type: ignore[attr-defined]


def noting(owner: type, name: str, begins: Callable[..., None]) -> None:
    """Have `begins` called with a method's arguments before the method is."""
    plain = getattr(owner, name)

    def method(*arguments: object) -> object:
        begins(*arguments)
        return plain(*arguments)

    setattr(owner, name, method)


if __name__ == "__main__":
    wrap()
    code = lineup(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(noted), encoding="utf-8")
    sys.exit(code)
