"""Who may do what in a state folder."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runtime_actors import state_folder
from tests.e2e.daemon import short_folder

PASSED = {".", "run", "run/w"}
"""What lies between the root of the file system and the sockets of workers."""


def modes(state: Path) -> dict[str, int]:
    """Of everything in the folder, and of itself."""
    paths = (state, *state.rglob("*"))
    return {str(path.relative_to(state)): stat.S_IMODE(path.lstat().st_mode) for path in paths if not path.is_symlink()}


def test_a_prepared_folder_is_its_owners_alone_whatever_it_was_before(tmp_path: Path) -> None:
    (tmp_path / "run" / "w").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "run", tmp_path / "run" / "w"):
        folder.chmod(0o777)

    state_folder.prepare(tmp_path)

    assert modes(tmp_path) == dict.fromkeys(PASSED, 0o700)


def test_workers_may_pass_to_their_sockets_and_neither_list_nor_read_anything() -> None:
    with short_folder() as state, socket.socket(socket.AF_UNIX) as door:
        state_folder.prepare(state)
        for name, mode in (("store.db", 0o644), ("token", 0o600), ("all", 0o777)):
            (state / name).touch()
            (state / name).chmod(mode)
        for name in ("logs", "tokens"):
            (state / name).mkdir()
            (state / name).chmod(0o755)
            (state / name / "inner").touch()
            (state / name / "inner").chmod(0o644)
        door.bind(str(state / "run" / "w" / "1"))
        (state / "run" / "w" / "1").chmod(0o600)

        state_folder.let_workers_pass(state)

        assert modes(state) == {
            ".": 0o711,
            "run": 0o711,
            "run/w": 0o711,
            "run/w/1": 0o600,
            "store.db": 0o600,
            "token": 0o600,
            "all": 0o700,
            "logs": 0o700,
            "logs/inner": 0o644,  # beneath a folder that nobody passes
            "tokens": 0o700,
            "tokens/inner": 0o644,
        }


def test_letting_workers_pass_touches_nothing_outside_the_folder(tmp_path: Path) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    outside.touch()
    outside.chmod(0o644)
    state_folder.prepare(state)
    (state / "link").symlink_to(outside)
    (state / "broken").symlink_to("nowhere")

    state_folder.let_workers_pass(state)

    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


def test_the_next_daemon_closes_the_folder_again(tmp_path: Path) -> None:
    state_folder.prepare(tmp_path)
    state_folder.let_workers_pass(tmp_path)

    state_folder.prepare(tmp_path)  # before the lock: there may be a daemon whose workers must pass
    assert modes(tmp_path) == dict.fromkeys(PASSED, 0o711)
    state_folder.forget_workers(tmp_path)

    assert modes(tmp_path) == dict.fromkeys(PASSED, 0o700)


TRIES = """
import errno, os, socket, sys
uid, path, state = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
def attempt(what):
    try:
        what()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
print(
    attempt(lambda: socket.socket(socket.AF_UNIX).connect(path)),
    attempt(lambda: os.open(state + "/store.db", os.O_RDONLY)),
    attempt(lambda: os.listdir(state)),
    attempt(lambda: os.listdir(state + "/run/w")),
)
"""
"""Becomes somebody else after its imports: that uid need not be able to read the interpreter."""


def tried_by(uid: int, path: Path, state: Path) -> list[str]:
    """How it went to connect to the socket, to read the store, and to list the two folders."""
    command = [sys.executable, "-I", "-c", TRIES, str(uid), str(path), str(state)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.split()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_a_stranger_reaches_a_socket_that_is_its_own_and_reads_nothing_else() -> None:
    """With the kernel as the judge: a child of another uid tries."""
    stranger = 70_000
    with short_folder() as top, socket.socket(socket.AF_UNIX) as door:
        top.chmod(0o755)
        state = top / "state"
        state_folder.prepare(state)
        (state / "store.db").write_text("secret")
        path = state / "run" / "w" / "1"
        door.bind(str(path))
        door.listen()
        path.chmod(0o600)
        os.chown(path, stranger, -1)
        state_folder.let_workers_pass(state)

        assert tried_by(stranger, path, state) == ["done", "EACCES", "EACCES", "EACCES"]
        assert tried_by(stranger + 1, path, state) == ["EACCES"] * 4


def test_a_folder_of_other_things_is_left_as_it_is_unless_it_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir(mode=0o755)
    (folder / "other").touch()

    with pytest.raises(PermissionError, match="--state"):
        state_folder.prepare(folder)
    assert folder.stat().st_mode & 0o777 == 0o755

    folder.chmod(0o700)
    state_folder.prepare(folder)
    assert (folder / "run" / "w").is_dir()
