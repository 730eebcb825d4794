"""Why an attempt ended, in a word."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniapp_worker.main import ExitCode
from runtime_actors.supervisor.ends import reason_of
from runtime_actors.supervisor.process import ExitStatus

CPU_LIMIT_S = 60
REASONS = {
    ExitCode.DONE: "exit 0",
    ExitCode.APP_FAILED: "exit 1",
    ExitCode.NOT_LOADED: "import_failed",
    ExitCode.REFUSED: "session_refused",
    ExitCode.CONNECTION_LOST: "connection_lost",
    ExitCode.OUT_OF_MEMORY: "app_out_of_memory",
    ExitCode.OUT_OF_FILES: "app_out_of_files",
    ExitCode.OUT_OF_THREADS: "app_out_of_threads",
}


def reason(status: ExitStatus, oom_kills: int = 0) -> str:
    return reason_of(status, cpu_limit_s=CPU_LIMIT_S, oom_kills=oom_kills)


def killed(cpu_s: float | None = None) -> ExitStatus:
    return ExitStatus(signal=signal.SIGKILL, cpu_s=cpu_s)


@pytest.mark.parametrize("code", ExitCode)
def test_each_way_in_which_a_worker_ends_by_itself_has_a_reason(code: ExitCode) -> None:
    assert reason(ExitStatus(code=code)) == REASONS[code]


def test_a_code_that_means_nothing_here_is_given_as_it_is() -> None:
    others = set(range(256)) - set(ExitCode)

    assert {code: reason(ExitStatus(code=code)) for code in others} == {code: f"exit {code}" for code in others}


def test_a_signal_is_named() -> None:
    others = set(signal.Signals) - {signal.SIGXCPU}

    assert {number: reason(ExitStatus(signal=number)) for number in others} == {
        number: f"signal {number.name}" for number in others
    }


def test_a_signal_without_a_name_is_numbered() -> None:
    assert reason(ExitStatus(signal=63)) == "signal 63"


def test_an_end_of_which_nothing_is_known_is_an_end() -> None:
    assert reason(ExitStatus()) == "ended"


def test_the_signal_of_the_limit_of_processor_time_says_so() -> None:
    assert reason(ExitStatus(signal=signal.SIGXCPU)) == "app_out_of_cpu"


@pytest.mark.parametrize("cpu_s", [CPU_LIMIT_S, CPU_LIMIT_S + 0.9])
def test_a_worker_that_ignored_that_signal_and_was_killed_is_out_of_processor_time(cpu_s: float) -> None:
    assert reason(killed(cpu_s)) == "app_out_of_cpu"


@pytest.mark.parametrize("cpu_s", [None, 0.0, CPU_LIMIT_S - 0.1])
def test_a_worker_that_somebody_killed_before_it_used_its_time_was_killed(cpu_s: float | None) -> None:
    assert reason(killed(cpu_s)) == "signal SIGKILL"


@pytest.mark.parametrize("cpu_s", [None, CPU_LIMIT_S * 2])
def test_a_kill_in_a_group_whose_memory_is_used_up_is_for_its_memory(cpu_s: float | None) -> None:
    assert reason(killed(cpu_s), oom_kills=1) == "app_out_of_memory"


@pytest.mark.parametrize("status", [ExitStatus(code=1), ExitStatus(signal=signal.SIGSEGV), ExitStatus(code=0)])
def test_an_end_of_another_kind_is_not_blamed_on_a_kill_in_the_group(status: ExitStatus) -> None:
    """What was killed there need not have been this process."""
    assert reason(status, oom_kills=3) == reason(status)


@given(
    st.builds(
        ExitStatus,
        code=st.none() | st.integers(0, 255),
        signal=st.none() | st.integers(1, 200),
        cpu_s=st.none() | st.floats(0, 1e6),
    ),
    st.integers(1, 86_400),
    st.integers(0, 10),
)
def test_every_end_has_a_short_reason_in_plain_letters(status: ExitStatus, cpu_limit_s: int, oom_kills: int) -> None:
    said = reason_of(status, cpu_limit_s=cpu_limit_s, oom_kills=oom_kills)

    assert 0 < len(said) <= 40
    assert said.isascii()
    assert said.isprintable()
