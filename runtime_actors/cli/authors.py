"""`lineup new`, `dev` and `conformance`: for those who write MiniApps."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import click

from runtime_actors.cli.exits import DONE, FAILED
from runtime_actors.cli.options import json_option, stacked
from runtime_actors.cli.show import say
from runtime_actors.contract.base import JsonObject
from runtime_actors.rules.text import neutral

_folder = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.command(short_help="Write a running MiniApp to begin with.")
@click.argument("folder", type=click.Path(path_type=Path))
def new(folder: Path) -> int:
    """Write a small MiniApp with tests into FOLDER, which must not exist or be empty. Its name is the app's name."""
    from runtime_actors.authoring import scaffold  # noqa: PLC0415 - loads more than most commands need

    try:
        written = scaffold.make(folder)
    except scaffold.CannotMake as error:
        say(neutral(str(error)))
        return FAILED
    for path in written:
        click.echo(neutral(str(path)))
    shown = neutral(str(folder))
    say(f"run it with: lineup dev {shown}   test it with: pytest {shown}   try it with: lineup conformance {shown}")
    return DONE


@click.command(short_help="Run a MiniApp, and run it again when a file changes.")
@stacked(
    _folder,
    click.option(
        "--state",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Keep calls here from one run to the next. Default: a temporary folder.",
    ),
)
def dev(folder: Path, state: Path | None) -> int:
    """Serve the MiniApp in FOLDER until Ctrl-C, show its calls and what it prints.

    When a file changes it is started again, and calls that are open go on in the new version.
    """
    from runtime_actors.authoring import dev as serving  # noqa: PLC0415 - as above

    _clean_up_when_ended()
    try:
        serving.run(folder.absolute(), state.absolute() if state is not None else None, click.echo)
    except serving.CannotServe as error:
        say(neutral(str(error), lines=True))
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
    return DONE


def _clean_up_when_ended() -> None:
    """SIGTERM and SIGHUP end it like Ctrl-C, also where that is ignored, as in a script's background."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def _inputs(_context: click.Context, _parameter: click.Parameter, given: tuple[tuple[str, str], ...]) -> object:
    inputs: dict[str, list[JsonObject]] = {}
    for tool_id, text in given:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise click.BadParameter(f"{text!r} is no JSON object")
        inputs.setdefault(tool_id, []).append(value)
    return inputs


@click.command(short_help="Find out whether a MiniApp keeps what every MiniApp must.")
@stacked(
    _folder,
    json_option,
    click.option(
        "--tool-input",
        "given",
        nargs=2,
        multiple=True,
        metavar="TOOL JSON",
        callback=_inputs,
        help="Call TOOL with this input and not with made-up ones; it must not fail then. May be repeated.",
    ),
)
def conformance(folder: Path, as_json: bool, given: dict[str, list[JsonObject]]) -> int:
    """Call each tool of the MiniApp in FOLDER in a private runtime, cancel calls, kill its processes, and judge.

    Exit code 0 if no promise is broken; else 1, and the broken ones by id.
    """
    from runtime_actors.authoring import report  # noqa: PLC0415 - as above

    _clean_up_when_ended()
    return report.run(folder, given, as_json=as_json)
