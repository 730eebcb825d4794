"""`lineup chaos`."""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Collection, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import click

from runtime_actors.chaos.plan import FAULTS, Kind, Point, PointInvalid, read_point
from runtime_actors.cli.exits import FAILED
from runtime_actors.cli.options import json_option, stacked
from runtime_actors.cli.show import say, show_json
from runtime_actors.simulator import ScenarioInvalid, Step, read_scenario

_KINDS: Final = ",".join(FAULTS)
_MOST_RUNS: Final = 100_000
_MOST_JOBS: Final = 64
_SEEDS: Final = 1_000_000


@click.command(short_help="Crash a MiniApp at any point and see what breaks.")
@stacked(
    click.argument("scenario", metavar="SCENARIO"),
    click.option(
        "--app",
        "apps",
        multiple=True,
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The MiniApp to be tested, beside the packaged ones. May be repeated.",
    ),
    click.option("--runs", type=click.IntRange(1, _MOST_RUNS), default=20, show_default=True, help="How many runs."),
    click.option("--jobs", type=click.IntRange(1, _MOST_JOBS), default=1, show_default=True, help="Runs at a time."),
    click.option("--seed", type=click.IntRange(0), metavar="S", help="Of the first run. Default: a new one, shown."),
    click.option("--faults", default=_KINDS, show_default=True, metavar="KIND,...", help="What strikes."),
    click.option(
        "--at",
        multiple=True,
        metavar="POINT",
        help="Strike here and nowhere else: COMMAND:before, :after or :outcome, call.running, progress, result, step;"
        " with :HIT for a later passing than the first. May be repeated. A point never hit fails the run.",
    ),
    click.option(
        "--report",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Write one HTML page with a picture of each run, and the evidence of broken ones.",
    ),
    json_option,
)
def chaos(  # noqa: PLR0917 - click hands options in by name
    scenario: str,
    apps: tuple[Path, ...],
    runs: int,
    jobs: int,
    seed: int | None,
    faults: str,
    at: tuple[str, ...],
    report: Path | None,
    as_json: bool,
) -> int:
    """Play SCENARIO (docs/simulator.md; - is stdin) many times, each time struck by other faults, and check each run.

    Each run has a daemon and a state folder of its own, which are gone afterwards. The same seed plans the same faults.
    Exit code 0 if every rule of docs/chaos.md held and every point named was hit, else 1.
    """
    if sys.platform != "linux":
        say("faults are only to be had on Linux")
        if as_json:
            show_json({"ok": False, "runs": 0, "why": "not Linux"})
        return FAILED
    wanted_kinds, steps = _kinds(faults), _steps(scenario)
    from runtime_actors import daemon, registry  # noqa: F401, PLC0415 - knows every command, and takes its time
    from runtime_actors.chaos import campaign, show  # noqa: PLC0415 - as above
    from runtime_actors.commands.command import COMMANDS  # noqa: PLC0415 - as above

    points = _points(at, COMMANDS)
    if report is not None:
        _check_writable(report)
    folders = tuple(folder.absolute() for folder in apps)
    for folder in folders:
        if not (folder / registry.MANIFEST).exists():
            raise click.UsageError(
                f"--app: there is no {registry.MANIFEST} in {folder}; begin one with: lineup new FOLDER"
            )
    for refused in registry.load(folders)[1]:
        raise click.UsageError(f"{refused}; look with: lineup validate {refused.folder}")
    wanted = campaign.Wanted(
        steps=steps,
        apps=folders,
        kinds=wanted_kinds,
        at=points,
        seed=secrets.randbelow(_SEEDS) if seed is None else seed,
        runs=runs,
        jobs=jobs,
    )
    if campaign.exceeds_what_calls_bear(wanted):
        say(
            "with so many workers killed, calls end with app_crashed: expect that in the scenario, or name fewer points"
        )
    return show.run(scenario, wanted, report=report, as_json=as_json)


def _steps(scenario: str) -> tuple[Step, ...]:
    """The steps of a file, of stdin, or of a packaged scenario."""
    packaged = resources.files("runtime_actors") / "scenarios" / f"{scenario.replace('-', '_')}.jsonl"
    try:
        if scenario == "-":
            return tuple(read_scenario(sys.stdin))
        if not Path(scenario).exists() and "/" not in scenario and packaged.is_file():
            return tuple(read_scenario(packaged.read_text(encoding="utf-8").splitlines()))
        with Path(scenario).open(encoding="utf-8") as file:
            return tuple(read_scenario(file))
    except OSError as error:
        raise click.UsageError(
            f"{scenario}: {error.strerror}; name a file with steps, as docs/simulator.md says"
        ) from None
    except (ScenarioInvalid, UnicodeDecodeError) as error:
        raise click.UsageError(f"{scenario}: {error}") from None


def _kinds(given: str) -> tuple[Kind, ...]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in FAULTS:
            raise click.UsageError(f"--faults: there is no {name!r}; there are {', '.join(FAULTS)}")
    if not names:
        raise click.UsageError(f"--faults: name at least one of {', '.join(FAULTS)}")
    return tuple(Kind(name) for name in dict.fromkeys(names))


def _check_writable(report: Path) -> None:
    """Before the first run: the last one is too late to say so."""
    try:
        report.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=report):
            pass
    except OSError as error:
        raise click.UsageError(f"--report: {error.strerror}: {report}") from None


def _points(given: Sequence[str], commands: Collection[str]) -> tuple[Point, ...]:
    try:
        return tuple(read_point(text, commands) for text in given)
    except PointInvalid as error:
        raise click.UsageError(f"--at: {error}") from None
