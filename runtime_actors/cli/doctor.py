"""`lineup doctor`."""

from __future__ import annotations

import platform
import sys
from typing import Final

import click

from runtime_actors.cli.exits import FAILED
from runtime_actors.cli.options import json_option, stacked
from runtime_actors.cli.show import say, show_json

_CONFINED_ON: Final = ("x86_64", "aarch64")


@click.command(short_help="Attack decoys from a confined worker, and say what was stopped.")
@stacked(
    json_option,
    click.option(
        "--landlock-abi",
        type=click.IntRange(0, 64),
        metavar="N",
        help="Use no newer Landlock than this, as an older kernel would; 0 for none.",
    ),
)
def doctor(as_json: bool, landlock_abi: int | None) -> int:
    """Find out what confinement is worth on this machine.

    Starts a daemon in a temporary folder with a hostile MiniApp in it, which attacks decoys: files, sockets, processes
    and the kernel. Takes a few seconds and touches nothing of yours. Exit code 0 only if everything was stopped that
    the level in force must stop.
    """
    if sys.platform != "linux" or platform.machine() not in _CONFINED_ON:
        say("workers are confined only on Linux on x86_64 and aarch64; here each can do what you can do")
        if as_json:
            show_json({"level": "process", "attempts": 0, "ok": False})
        return FAILED
    from runtime_actors.doctor import report  # noqa: PLC0415 - loads much that no other command needs

    return report.run(as_json=as_json, landlock_abi=landlock_abi)
