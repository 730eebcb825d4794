"""`lineup demo`."""

from __future__ import annotations

import click

from runtime_actors import demo as demonstration
from runtime_actors.cli.options import stacked


@click.command(short_help="Show the whole journey of a call, crashes included.")
@stacked(
    click.option("--json", "as_json", is_flag=True, help="One JSON object a step."),
    click.option(
        "--keep/--no-keep", default=False, show_default=True, help="Keep its folder, and say how to look at it."
    ),
)
def demo(as_json: bool, keep: bool) -> int:
    """Start a daemon in a temporary folder, call tools in real worker processes, kill a worker and the daemon.

    Shows that every call ended exactly once, and verifies the audit log. Exit code 0 only if all of it holds.
    """
    return demonstration.run(as_json=as_json, keep=keep)
