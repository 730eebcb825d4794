"""A temporary folder that is gone afterwards, however this process ends."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_WAIT_S: Final = 30.0
_JANITOR: Final = """\
import shutil, sys, time
sys.stdin.buffer.read()  # its end is the end of whoever made the folder
for _ in range(40):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.1)  # daemons that are ending write a little more
    try:
        open(sys.argv[1]).close()
    except FileNotFoundError:
        break
    except OSError:
        pass
"""


@contextlib.contextmanager
def ground() -> Iterator[Path]:
    """A new folder, short enough for sockets. A process of its own removes it if this one is killed."""
    folder = Path(tempfile.mkdtemp(prefix="lineup-chaos-"))
    janitor = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _JANITOR, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,  # a terminal's Ctrl-C is not for it
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        assert janitor.stdin is not None  # noqa: S101 - as asked for
        janitor.stdin.close()
        janitor.wait(_WAIT_S)
