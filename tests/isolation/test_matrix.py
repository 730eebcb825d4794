"""Every attempt against decoys, from a really confined process, wherever the daemon may have been started."""

from __future__ import annotations

import pytest

from miniapp_worker import canaries
from runtime_actors.doctor.apps.intruder import attempts
from runtime_actors.doctor.layers import NO_ERRNO, STOPPED_BY, Layer, standing_behind
from runtime_actors.supervisor.isolation import Level
from runtime_actors.supervisor.measured import KernelReport, WorkerReport, level_of
from tests.isolation.conftest import Place

_OF_A_SEALED_WORKER = {Layer.CLEAN_START, Layer.SEAL, Layer.FILTER, Layer.CAPABILITIES, Layer.LANDLOCK, Layer.LIMITS}


def opened(place: Place, name: str) -> set[str]:
    return {attempt for attempt, outcome in place.heard(name).items() if outcome == "open"}


@pytest.mark.parametrize("name", ["sealed", "oldest"])
def test_a_sealed_worker_is_refused_everywhere_in_the_same_way(place: Place, name: str) -> None:
    got = place.heard(name)

    hidden_or_not = {attempt: outcome for attempt, outcome in got.items() if attempt not in attempts.LOOK_UPS}
    unexplained = {
        attempt: outcome
        for attempt, outcome in hidden_or_not.items()
        if not standing_behind(attempt, None if outcome == NO_ERRNO else outcome, _OF_A_SEALED_WORKER)
    }
    assert unexplained == {}
    assert place.report[name]["sigio_victim_lives"]


def test_with_everything_that_a_place_allows_nothing_opens_but_what_cannot_be_hidden_there(place: Place) -> None:
    has_own_root = "mnt" in place.report["full"]["applied"]["namespaces"]

    assert opened(place, "full") <= (set() if has_own_root else attempts.LOOK_UPS)
    assert place.report["full"]["sigio_victim_lives"]


def test_a_place_gives_what_it_can(place: Place) -> None:
    applied = place.report["full"]["applied"]

    by_place = {
        "root": ({"ipc", "mnt", "net", "uts"}, True),
        "user": ({"ipc", "mnt", "net", "user", "uts"}, False),
        "container": (set(), False),
    }
    assert (set(applied["namespaces"]), applied["own_uid"]) == by_place[place.name]


def test_a_thread_from_before_the_seal_is_bound_by_it(place: Place) -> None:
    assert place.heard("every thread") == ["EACCES"]


@pytest.mark.skipif(not attempts.DEADLY - attempts.NOT_HERE, reason="this machine has no other numbers")
@pytest.mark.parametrize("name", sorted(attempts.DEADLY))
def test_a_call_by_the_numbers_of_another_machine_ends_the_process(place: Place, name: str) -> None:
    assert place.report[name]["ended"] == -31  # SIGSYS


def test_the_kernel_says_the_same_about_the_process(place: Place) -> None:
    status = place.heard("status")

    own_filters = 1 if place.name == "container" else 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status["Seccomp_filters"]) - own_filters == 2
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    if place.name != "user":  # who has no capability to spend cannot lock the door behind it
        assert int(status["CapBnd"], 16) == 0


def test_the_level_is_measured_from_both_witnesses(place: Place) -> None:
    tried = place.report["canaries"]
    applied = tried["applied"]
    layers = {canary.layer for canary in canaries.ALL}
    held = {
        layer: all(tried["heard"][canary.name][1] for canary in canaries.ALL if canary.layer == layer)
        for layer in layers
    }
    worker = WorkerReport(frozenset(applied["namespaces"]), applied["abi"], held)

    level = level_of(worker, KernelReport(**tried["kernel"]), KernelReport(**place.report["daemon"]))

    assert level == (Level.SEALED if place.name == "container" else Level.STRONG)


def test_bombs_end_at_a_limit(place: Place) -> None:
    for bomb, (outcome, error) in place.heard("bombs").items():
        assert (outcome, error in STOPPED_BY[bomb][Layer.LIMITS]) == ("capped", True), bomb


# --- each layer is there for something


def test_without_closing_descriptors_one_of_the_daemon_can_be_read(place: Place) -> None:
    assert "leaked_descriptor" in opened(place, "without descriptors")


# What each run of a single layer shows; a change of uid takes the capabilities too.
_RIGHTS = (Layer.CAPABILITIES, Layer.FEWER_RIGHTS)
_ALONE = {
    "only seal": (Layer.SEAL,),
    "only filter": (Layer.FILTER,),
    "only namespaces": (Layer.OWN_ROOT, Layer.OWN_NETWORK),
    "only capabilities": _RIGHTS,
    "only uid": (Layer.OWN_UID, *_RIGHTS),
    "only a hidden daemon": (Layer.HIDDEN_DAEMON, *_RIGHTS),
    "only landlock 1": (Layer.LANDLOCK,),
    "only landlock 3": (Layer.LANDLOCK, Layer.LANDLOCK_3),
    "only landlock 4": (Layer.LANDLOCK, Layer.LANDLOCK_3, Layer.LANDLOCK_4),
    "only landlock": (Layer.LANDLOCK, Layer.LANDLOCK_3, Layer.LANDLOCK_4, Layer.LANDLOCK_6),
}


@pytest.mark.parametrize("name", _ALONE)
def test_each_layer_alone_stops_what_the_table_says_and_nothing_else(place: Place, name: str) -> None:
    layers, applied = _ALONE[name], place.report[name]["applied"]
    if not _was_had(name, place):
        pytest.skip(f"{name} is not to be had by the {place.name} of this machine")
    if place.name == "user":  # whose daemon has no capabilities that a worker could lack
        layers = tuple(layer for layer in layers if layer is not Layer.FEWER_RIGHTS)
    with_nothing, differences = place.heard("nothing"), {}
    for attempt, got in place.heard(name).items():
        said = {errno for layer in layers for errno in STOPPED_BY[attempt].get(layer, ())}
        is_masked = with_nothing[attempt] != "open"
        is_of_users = "user" in applied["namespaces"] and got in _BY_USER_NAMESPACE
        if got not in (said or {"open"}) and not is_masked and not is_of_users and (name, attempt) != _LESS_FOR_ROOT:
            differences[attempt] = got
    assert differences == {}


_LESS_FOR_ROOT = ("only a hidden daemon", "proc_descriptors")
"""What /proc shows of a hidden process belongs to root: it is no secret from a worker that has kept root's uid."""
_BY_USER_NAMESPACE = {"EPERM", "EACCES", "EINVAL"}
"""It keeps a worker from tracing, and from other uids. The doctor cannot see one, and claims nothing of it."""


def _was_had(name: str, place: Place) -> bool:
    applied = place.report[name]["applied"]
    if name == "only landlock":
        return bool(applied["abi"] >= 6)
    if name.startswith("only landlock "):
        return bool(applied["abi"] == int(name[-1]))
    return {"only namespaces": bool(applied["namespaces"]), "only uid": bool(applied["own_uid"])}.get(name, True)


def test_every_attempt_opens_somewhere_when_nothing_stops_it_or_is_said_not_to(at_root: Place) -> None:
    stopped = set(at_root.heard("nothing")) - opened(at_root, "nothing")

    assert stopped <= {"leaked_descriptor", "foreign_descriptors", "secret_in_environment"} | _MAY_BE_MISSING


_MAY_BE_MISSING = {
    "tcp6", "multipath_tcp", "vsock", "sctp", "kernel_crypto", "rare_family", "load_module", "load_kernel",
    "secret_memory", "io_uring", "another_landlock", "watch_everything", "message_queue", "old_segments",
}  # fmt: skip
"""In this kernel, or forbidden by a limit that no test lifts."""


def test_each_attempt_is_in_the_table_and_nothing_else() -> None:
    named = [name for names in attempts.GROUPS.values() for name in names]

    assert list(STOPPED_BY) == named
    assert all(STOPPED_BY[name] for name in set(named) - {"look_up_process"})


def test_only_newer_landlock_stops_signals_where_the_filters_are_missing(place: Place) -> None:
    newest, oldest = place.report["only landlock"], place.report["only landlock 1"]

    assert not oldest["sigio_victim_lives"]
    assert newest["sigio_victim_lives"] or newest["applied"]["abi"] < 6


def test_without_limits_the_heap_grows(place: Place) -> None:
    assert place.heard("bombs without limits")["heap_bomb"] == ["open", None]


def test_a_change_of_uid_does_not_untie_a_worker_from_its_daemon(place: Place) -> None:
    assert place.heard("tied")["signal_at_its_end"] == 9


def test_a_worker_hides_its_memory_and_keeps_no_group_of_root(place: Place) -> None:
    tried = place.report["tied"]

    assert tried["heard"]["dumpable"] == 0
    if tried["applied"]["own_uid"]:
        assert tried["heard"]["groups"] == []
