"""`lineup run`, and the options by which a daemon is configured."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack, get_args

import click

from runtime_actors.cli.options import stacked, state_option
from runtime_actors.config import Bounds, Failpoint, RuntimeConfig
from runtime_actors.contract.manifest import Limits
from runtime_actors.rules.restart import RestartPolicy

Level = Literal["strong", "sealed", "partial", "process"]
Point = Literal["before", "after", "outcome"]
Action = Literal["kill-daemon", "kill-zygote", "kill-worker", "stop-daemon", "cut-worker", "drop"]

_F = TypeVar("_F", bound=Callable[..., Any])


class RunOptions(TypedDict):
    """The values of `run_options`, the state folder apart."""

    apps: tuple[Path, ...]
    all_apps: bool
    min_isolation: Level
    landlock_abi: int | None
    max_memory: int
    max_cpu: int
    max_files: int
    max_threads: int
    durability: Literal["power", "process"]
    listen: str | None
    log_format: Literal["text", "json"]
    restart_intensity: int
    restart_period: float
    restart_backoff: float
    failpoint: tuple[Failpoint, ...]
    ping: float
    sweep: float
    cancel_grace: float
    stop_grace: float
    suspend_after: float
    live_processes: int


_FAILPOINT: Final = re.compile(
    rf"(?P<command>[a-z][a-z0-9_.-]*):(?P<point>{'|'.join(get_args(Point))})"
    rf":(?P<action>{'|'.join(get_args(Action))})(?:@(?P<hit>[1-9][0-9]{{0,8}}))?"
)
_LISTEN: Final = re.compile(r"tcp://127\.0\.0\.1:(?P<port>[0-9]{1,5})")
_MAX_PORT: Final = 65_535
_DEFAULT: Final = RuntimeConfig(state=Path("/"))


def _failpoints(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[Failpoint, ...]:
    planted = []
    for text in given:
        match = _FAILPOINT.fullmatch(text)
        if match is None:
            raise click.BadParameter(
                f"{text!r} is not COMMAND:POINT:ACTION[@HIT] with a point of {', '.join(get_args(Point))}"
                f" and an action of {', '.join(get_args(Action))}"
            )
        fields: dict[str, Any] = match.groupdict()
        planted.append(Failpoint(**(fields | {"hit": int(fields["hit"] or 1)})))
    return tuple(planted)


def _listen(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    match = _LISTEN.fullmatch(given) if given is not None else None
    if given is not None and (match is None or not 0 < int(match["port"]) <= _MAX_PORT):
        raise click.BadParameter(f"{given!r} is not tcp://127.0.0.1:PORT; only this machine itself can be listened to")
    return given


class _Seconds(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's
        found = super().convert(value, param, ctx)
        if math.isnan(found):  # no bound excludes it
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return found


def _seconds(name: str, what: str, default: float) -> Callable[[_F], _F]:
    return click.option(name, type=_Seconds(0, 86_400), default=default, hidden=True, metavar="SECONDS", help=what)


def _most(name: str, unit: str, what: str, field: str) -> Callable[[_F], _F]:
    """An upper bound on one of the limits that a manifest may ask for, within what the manifest's schema allows."""
    allowed = Limits.model_json_schema()["properties"][field]
    default = getattr(_DEFAULT.app_limits, field)
    bounds = click.IntRange(allowed["minimum"], allowed["maximum"])
    return click.option(name, type=bounds, default=default, show_default=True, metavar=unit, help=what)


run_options: Final = stacked(
    state_option,
    click.option(
        "--apps",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A folder of MiniApps, beside the packaged ones. May be repeated.",
    ),
    click.option(
        "--all-apps",
        is_flag=True,
        help="Do not start if an app has to be left out. Without it, what is open in that app ends.",
    ),
    click.option(
        "--min-isolation",
        type=click.Choice(get_args(Level)),
        default=_DEFAULT.min_isolation,
        show_default=True,
        help="Run nothing that is confined less.",
    ),
    click.option(
        "--landlock-abi",
        type=click.IntRange(0, 64),
        metavar="N",
        help="Use no newer Landlock than this, as an older kernel would; 0 for none.",
    ),
    _most("--max-memory", "MIB", "Memory of one MiniApp process, whatever its manifest asks for.", "memory_mb"),
    _most("--max-cpu", "SECONDS", "Processor time of one MiniApp process.", "cpu_s"),
    _most("--max-files", "N", "Open descriptors of one MiniApp process.", "files"),
    _most("--max-threads", "N", "Threads of one MiniApp process.", "threads"),
    click.option(
        "--durability",
        type=click.Choice(("power", "process")),
        default=_DEFAULT.durability,
        show_default=True,
        help="What a commit survives: loss of power, or of the process only.",
    ),
    click.option(
        "--listen",
        metavar="tcp://127.0.0.1:PORT",
        callback=_listen,
        help="Also serve agents whose public key is registered, over TCP with CURVE.",
    ),
    click.option("--log-format", type=click.Choice(("text", "json")), default=_DEFAULT.log_format, show_default=True),
    click.option(
        "--restart-intensity", type=click.IntRange(0, 1_000_000), default=_DEFAULT.restart.intensity, hidden=True
    ),
    _seconds("--restart-period", "Unexpected ends are counted within this.", _DEFAULT.restart.period_s),
    _seconds("--restart-backoff", "Wait before the second restart.", _DEFAULT.restart.backoff_s),
    click.option("--failpoint", multiple=True, metavar="COMMAND:POINT:ACTION[@HIT]", callback=_failpoints, hidden=True),
    _seconds("--ping", "How often workers are pinged.", _DEFAULT.ping_s),
    _seconds("--sweep", "How often what is due is looked for in the rows.", _DEFAULT.sweep_s),
    _seconds("--cancel-grace", "How long an app has to answer a cancel.", _DEFAULT.cancel_grace_s),
    _seconds("--stop-grace", "How long an app has to stop.", _DEFAULT.stop_grace_s),
    _seconds("--suspend-after", "An app that is quiet for so long gives up its process.", _DEFAULT.suspend_after_s),
    click.option(
        "--live-processes",
        type=click.IntRange(1, 4096),
        default=_DEFAULT.bounds.live_processes,
        show_default=True,
        help="The most worker processes at once.",
    ),
)


def config_of(state: Path, options: RunOptions) -> RuntimeConfig:
    """The configuration that the values of `run_options` mean."""
    return RuntimeConfig(
        state=state,
        apps=tuple(folder.absolute() for folder in options["apps"]),
        all_apps=options["all_apps"],
        min_isolation=options["min_isolation"],
        landlock_abi=options["landlock_abi"],
        app_limits=Limits(
            memory_mb=options["max_memory"],
            cpu_s=options["max_cpu"],
            files=options["max_files"],
            threads=options["max_threads"],
        ),
        durability=options["durability"],
        listen=options["listen"],
        log_format=options["log_format"],
        restart=replace(
            RestartPolicy(),
            intensity=options["restart_intensity"],
            period_s=options["restart_period"],
            backoff_s=options["restart_backoff"],
        ),
        ping_s=options["ping"],
        sweep_s=options["sweep"],
        cancel_grace_s=options["cancel_grace"],
        stop_grace_s=options["stop_grace"],
        suspend_after_s=options["suspend_after"],
        bounds=replace(Bounds(), live_processes=options["live_processes"]),
        failpoints=options["failpoint"],
    )


def arguments_of(config: RuntimeConfig) -> list[str]:
    """The arguments of `lineup run` that mean `config`."""
    arguments = [
        f"--state={config.state}",
        f"--min-isolation={config.min_isolation}",
        f"--max-memory={config.app_limits.memory_mb}",
        f"--max-cpu={config.app_limits.cpu_s}",
        f"--max-files={config.app_limits.files}",
        f"--max-threads={config.app_limits.threads}",
        f"--durability={config.durability}",
        f"--log-format={config.log_format}",
        f"--restart-intensity={config.restart.intensity}",
        f"--restart-period={config.restart.period_s}",
        f"--restart-backoff={config.restart.backoff_s}",
        f"--ping={config.ping_s}",
        f"--sweep={config.sweep_s}",
        f"--cancel-grace={config.cancel_grace_s}",
        f"--stop-grace={config.stop_grace_s}",
        f"--suspend-after={config.suspend_after_s}",
        f"--live-processes={config.bounds.live_processes}",
    ]
    if config.all_apps:
        arguments.append("--all-apps")
    if config.landlock_abi is not None:
        arguments.append(f"--landlock-abi={config.landlock_abi}")
    arguments += [f"--apps={folder}" for folder in config.apps]
    arguments += [f"--failpoint={one.command}:{one.point}:{one.action}@{one.hit}" for one in config.failpoints]
    if config.listen is not None:
        arguments.append(f"--listen={config.listen}")
    return arguments


@click.command(short_help="Run the daemon in the foreground.")
@run_options
def run(state: Path, **options: Unpack[RunOptions]) -> int:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C.

    Prints "ready SOCKET" once it serves. Exit codes: 0 stopped, 2 usage, 3 another daemon holds the folder,
    4 isolation below the minimum, 5 store unusable, 6 gave up restarting itself.
    """
    from runtime_actors import boot  # noqa: PLC0415 - loads every actor, which no other command needs

    return boot.run(config_of(state, options))
