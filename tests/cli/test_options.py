"""What is typed, and what it means or why it is refused."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors import boot
from runtime_actors.cli import main
from runtime_actors.cli.runs import arguments_of, config_of, run
from runtime_actors.config import Bounds, Failpoint, RuntimeConfig
from runtime_actors.contract.manifest import Limits
from runtime_actors.rules.restart import RestartPolicy


def config_from(arguments: list[str]) -> RuntimeConfig:
    with run.make_context("run", list(arguments)) as context:
        values = dict(context.params)
        return config_of(values.pop("state"), values)  # type: ignore[arg-type] # click knows no TypedDict


def test_nothing_typed_means_the_defaults_of_the_configuration() -> None:
    assert config_from(["--state", "/s"]) == RuntimeConfig(state=Path("/s"))


def test_every_option_of_run_reaches_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_to_boot: list[RuntimeConfig] = []

    def keep(config: RuntimeConfig) -> int:
        given_to_boot.append(config)
        return 6

    monkeypatch.setattr(boot, "run", keep)
    typed = (
        f"run --state /s --apps {tmp_path} --min-isolation partial --durability process --listen tcp://127.0.0.1:4000"
        " --landlock-abi 1 --max-memory 64 --max-cpu 5 --max-files 40 --max-threads 2"
        " --log-format json --restart-intensity 9 --restart-period 20 --restart-backoff 0.5"
        " --failpoint admit:before:kill-daemon --failpoint complete:outcome:drop@3"
        " --ping 2 --sweep 1 --cancel-grace 3 --stop-grace 4 --suspend-after 5 --live-processes 6"
    )

    code = main(typed.split())

    assert code == 6
    assert given_to_boot == [
        RuntimeConfig(
            state=Path("/s"),
            apps=(tmp_path,),
            min_isolation="partial",
            landlock_abi=1,
            app_limits=Limits(memory_mb=64, cpu_s=5, files=40, threads=2),
            durability="process",
            listen="tcp://127.0.0.1:4000",
            log_format="json",
            restart=RestartPolicy(intensity=9, period_s=20, backoff_s=0.5),
            ping_s=2,
            sweep_s=1,
            cancel_grace_s=3,
            stop_grace_s=4,
            suspend_after_s=5,
            bounds=Bounds(live_processes=6),
            failpoints=(Failpoint("admit", "before", "kill-daemon"), Failpoint("complete", "outcome", "drop", 3)),
        )
    ]


seconds = st.floats(0, 86_400)


@given(
    st.builds(
        RuntimeConfig,
        state=st.just(Path("/s")),
        min_isolation=st.sampled_from(["strong", "sealed", "partial", "process"]),
        landlock_abi=st.none() | st.integers(0, 64),
        app_limits=st.builds(
            Limits,
            memory_mb=st.integers(32, 4096),
            cpu_s=st.integers(1, 86_400),
            files=st.integers(32, 1024),
            threads=st.integers(1, 256),
        ),
        durability=st.sampled_from(["power", "process"]),
        listen=st.none() | st.integers(1, 65_535).map(lambda port: f"tcp://127.0.0.1:{port}"),
        log_format=st.sampled_from(["text", "json"]),
        restart=st.builds(RestartPolicy, st.integers(0, 1_000_000), seconds, seconds, st.just(30.0)),
        ping_s=seconds,
        start_timeout_s=st.just(10.0),
        stop_grace_s=seconds,
        cancel_grace_s=seconds,
        sweep_s=seconds,
        suspend_after_s=seconds,
        bounds=st.builds(Bounds, live_processes=st.integers(1, 4096)),
        failpoints=st.lists(
            st.builds(
                Failpoint,
                st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True),
                st.sampled_from(["before", "after", "outcome"]),
                st.sampled_from(["kill-daemon", "kill-zygote", "kill-worker", "stop-daemon", "cut-worker", "drop"]),
                st.integers(1, 999_999_999),
            ),
            max_size=3,
        ).map(tuple),
    )
)
def test_the_watcher_starts_the_daemon_with_exactly_the_configuration_that_start_was_given(
    config: RuntimeConfig,
) -> None:
    assert config_from(arguments_of(config)) == config


@pytest.mark.parametrize(
    "typed",
    [
        "run --listen tcp://0.0.0.0:4000",
        "run --listen tcp://127.0.0.1:0",
        "run --listen tcp://127.0.0.1:99999",
        "run --listen ipc:///x",
        "run --min-isolation none",
        "run --landlock-abi -1",
        "run --max-memory 31",
        "run --max-memory 4097",
        "run --max-cpu 0",
        "run --max-files none",
        "run --max-threads 257",
        "run --landlock-abi 65",
        "run --landlock-abi newest",
        "run --durability maybe",
        "run --failpoint admit",
        "run --failpoint admit:during:drop",
        "run --failpoint admit:before:explode",
        "run --failpoint admit:before:drop@0",
        "run --restart-intensity -1",
        "run --ping soon",
        "run --apps /nowhere/at/all",
        "run --nonsense",
        "nonsense",
        "agent say hello",
        "agent call",
        "agent call a.b not-json",
        "agent call a.b [1]",
        'agent call a.b {"x":NaN}',
        "agent call a.b {} --timeout -1",
        "agent add Not-A-Name",
        "agent --as someone call a.b",
        "agent call a.b --conversation two/words",
        "agent call a.b --as ../local",
        "interactions --conversation two/words",
        "calls --conversation two/words",
        "surfaces --conversation two/words",
        "artifacts --conversation two/words",
        "audit --json verify",
        "app toggle x",
        "kill ins-1 --signal NOISE",
        "calls --status strange",
        f"ps --state /{'x' * 100}",
        "restore /nowhere/at/all",
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence_and_exit_code_2(
    typed: str, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LINEUP_STATE", str(state))

    code = main(typed.split())

    shown = capsys.readouterr()
    assert code == 2
    assert "Error: " in shown.err
    assert "Traceback" not in shown.err


def test_a_relative_state_folder_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert config_from(["--state", "here"]).state == tmp_path / "here"


def test_a_command_interrupted_by_the_person_ends_quietly_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_config: RuntimeConfig) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(boot, "run", interrupted)

    assert main(["run", "--state", "/s"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_bug_is_one_sentence_for_the_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_config: RuntimeConfig) -> int:
        raise ZeroDivisionError("by \x1b[31mzero")

    monkeypatch.setattr(boot, "run", broken)

    assert main(["run", "--state", "/s"]) == 70
    shown = capsys.readouterr().err
    assert shown == "lineup: internal error, which is a bug: ZeroDivisionError: by \\x1b[31mzero\n"


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    from runtime_actors.cli import lineup  # noqa: PLC0415 - only here

    for name, command in lineup.commands.items():
        assert main([name, "--help"]) == 0
        assert isinstance(command, click.Command)
        assert command.help, name
    assert "Usage: lineup ps" in capsys.readouterr().out
