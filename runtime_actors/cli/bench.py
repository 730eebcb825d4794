"""`lineup bench`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import click

from runtime_actors.cli.exits import FAILED
from runtime_actors.cli.options import json_option, stacked
from runtime_actors.cli.show import say, show_json

FAMILIES: Final = ("call", "flow", "accept", "start", "crowd", "history", "boot")


def _names(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for name in given:
        if re.split(r"\.", name, maxsplit=1)[0] not in FAMILIES:
            raise click.BadParameter(f"{name!r}; it is one of {', '.join(FAMILIES)}, or a figure's name")
    return given


@click.command(short_help="Measure how fast calls, starts and recovery are here.")
@stacked(
    json_option,
    click.option("--quick", is_flag=True, help="Within a minute, with fewer turns and smaller stores."),
    click.option("--check", is_flag=True, help="Exit code 1 if a figure is beside its bar."),
    click.option(
        "--only",
        metavar="NAME",
        multiple=True,
        callback=_names,
        help=f"Only this figure, or these: {', '.join(FAMILIES)}. May be repeated.",
    ),
    click.option(
        "--folder",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Make the temporary folder here, on the disk that calls are to be recorded on.",
    ),
)
def bench(as_json: bool, quick: bool, check: bool, only: tuple[str, ...], folder: Path | None) -> int:
    """Measure this runtime on this machine, each figure beside its floor or a peer in the same run.

    Starts daemons of its own in a temporary folder, takes turns between what is measured and what it is compared with,
    and leaves nothing behind. In full it takes about a quarter of an hour and up to 4 GiB. What the figures mean is in
    docs/performance.md. Exit code 0 if it could be measured.
    """
    if sys.platform != "linux":
        say("figures are of confined workers, which are only on Linux")
        if as_json:
            show_json({"figures": 0, "ok": False, "why": "not Linux"})
        return FAILED
    from runtime_actors.bench import report  # noqa: PLC0415 - loads much that no other command needs

    return report.run(as_json=as_json, quick=quick, check=check, only=only, folder=folder)
