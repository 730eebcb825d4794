"""Every attack against decoys, from a really confined process, wherever the daemon may have been started."""

from __future__ import annotations

import pytest

from miniapp_worker import canaries
from runtime_actors.supervisor.isolation import Level
from runtime_actors.supervisor.measured import KernelReport, WorkerReport, level_of
from tests.isolation.attacks import ALL
from tests.isolation.conftest import Place

ONLY_HIDDEN = {"stat_store", "stat_by_parent"}
"""Looking up a path needs no opening: only a root of one's own hides what there is."""

EXPECTED = {
    "EACCES": "read_store list_apps read_sibling link_store write_file write_own_app write_shared_memory make_folder "
    "change_mode change_times change_attribute open_path connect_door connect_abstract listen_abstract tcp tcp6 "
    "multipath_tcp tcp_fast_open tcp_listen udp netlink vsock raw_packets proc_environ proc_memory proc_descriptors "
    "proc_command proc_root proc_list proc_unix own_environment",
    "EBADF": "leaked_descriptor",
    "ENOPROTOOPT": "handle_on_peer",
    "EPERM": "datagram_to_path out_of_band trace read_memory signal_victim signal_parent signal_group kill_by_io "
    "limits_of_victim fork exec io_uring bpf outlive_daemon show_memory more_filters mount new_network "
    "new_user_namespace",
    "ENOSYS": "pass_descriptor signal_by_pidfd steal_descriptor priority_of_victim processors_of_victim memory_file "
    "secret_memory shared_memory message_queue perf page_faults keyring handle old_layout new_mount become_root",
}
SEALED = {attack: error for error, attacks in EXPECTED.items() for attack in attacks.split()}


def opened(place: Place, name: str) -> set[str]:
    return {attack for attack, outcome in place.heard(name).items() if outcome == "open"}


def test_each_attack_has_an_expected_end() -> None:
    assert set(SEALED) | ONLY_HIDDEN == set(ALL)


@pytest.mark.parametrize("name", ["sealed", "oldest"])
def test_a_sealed_worker_is_refused_everywhere_in_the_same_way(place: Place, name: str) -> None:
    got = place.heard(name)

    assert {attack: outcome for attack, outcome in got.items() if attack not in ONLY_HIDDEN} == SEALED
    assert place.report[name]["sigio_victim_lives"]


def test_with_everything_that_a_place_allows_nothing_opens_but_what_cannot_be_hidden_there(place: Place) -> None:
    left = set() if "mnt" in place.report["full"]["applied"]["namespaces"] else ONLY_HIDDEN

    assert opened(place, "full") == left
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


def test_a_call_by_the_numbers_of_another_machine_ends_the_process(place: Place) -> None:
    assert place.report["foreign"]["ended"] == -31  # SIGSYS


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
    reached = place.heard("bombs")

    assert reached["heap"] < 256
    assert reached["shared"] < 1024
    is_counted_alone = place.name != "container"
    assert reached["threads"] < (16 if is_counted_alone else 30)


# --- each layer is there for something


def test_without_closing_descriptors_one_of_the_daemon_can_be_read(place: Place) -> None:
    assert "leaked_descriptor" in opened(place, "without descriptors")


def test_without_landlock_the_store_can_be_read(place: Place) -> None:
    assert {"read_store", "read_sibling", "proc_command"} <= opened(place, "without landlock")


def test_without_the_seal_another_socket_of_the_runtime_can_be_reached(place: Place) -> None:
    assert {"connect_door", "more_filters"} <= opened(place, "without seal")


def test_without_filters_a_worker_forks_and_sends_and_kills(place: Place) -> None:
    assert {"fork", "udp", "memory_file", "limits_of_victim", "change_mode"} <= opened(place, "without filters")


def test_only_newer_landlock_stops_signals_where_the_filters_are_missing(place: Place) -> None:
    newer, oldest = opened(place, "without filters"), opened(place, "without filters, oldest")

    assert {"signal_victim", "connect_abstract", "tcp"} <= oldest - newer
    assert not place.report["without filters, oldest"]["sigio_victim_lives"]
    assert place.report["without filters"]["sigio_victim_lives"]


def test_without_namespaces_a_worker_learns_which_files_there_are(place: Place) -> None:
    assert "stat_store" in opened(place, "sealed")


def test_a_root_of_its_own_is_read_only_and_holds_nothing_else(place: Place) -> None:
    if place.report["plan"]["way"] is None:
        pytest.skip("namespaces are not to be had in this place")
    got = place.heard("only namespaces")

    assert got["write_own_app"] == "EROFS"
    hidden = (
        "read_store",
        "stat_store",
        "stat_by_parent",
        "read_sibling",
        "connect_door",
        "proc_list",
        "write_shared_memory",
    )
    assert {got[attack] for attack in hidden} == {"ENOENT"}
    assert {got[attack] for attack in ("tcp", "udp", "multipath_tcp")} == {"ENETUNREACH"}


def test_without_limits_the_heap_grows(place: Place) -> None:
    assert place.heard("bombs without limits")["heap"] > 256


def test_a_uid_of_its_own_keeps_a_worker_from_what_is_the_daemons(at_root: Place) -> None:
    kept, not_kept = opened(at_root, "only uid"), opened(at_root, "only capabilities")

    assert {"read_store", "signal_victim", "limits_of_victim"} <= not_kept - kept


def test_a_change_of_uid_does_not_untie_a_worker_from_its_daemon(place: Place) -> None:
    assert place.heard("tied")["signal_at_its_end"] == 9


def test_a_worker_hides_its_memory_and_keeps_no_group_of_root(place: Place) -> None:
    tried = place.report["tied"]

    assert tried["heard"]["dumpable"] == 0
    if tried["applied"]["own_uid"]:
        assert tried["heard"]["groups"] == []


def test_without_dropping_capabilities_root_mounts_and_traces(at_root: Place) -> None:
    assert {"mount", "trace", "bpf", "new_network"} <= opened(at_root, "only descriptors") - opened(
        at_root, "only capabilities"
    )


def test_a_daemon_that_shows_its_memory_is_read_by_its_own_uid(place: Place) -> None:
    if place.name != "user":
        pytest.skip("root's daemon has capabilities that a worker lacks, which protects it too")
    hidden, shown = opened(place, "only capabilities"), opened(place, "only capabilities, open daemon")

    assert {"trace", "read_memory", "steal_descriptor", "proc_environ", "proc_memory"} <= shown - hidden
