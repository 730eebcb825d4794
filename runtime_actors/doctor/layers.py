"""Which layers stand behind a refusal.

`STOPPED_BY` says what each layer answers when it alone is switched on; tests/isolation does that, and compares. In a
worker several layers refuse the same attempt: the first of `Layer` answers, and the others would.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

NO_ERRNO: Final = "refused"
"""In place of an errno: the daemon's own word, the end of the process, or a library's error."""


class Layer(StrEnum):
    """Of `docs/isolation.md`, in the order in which the kernel asks them."""

    CLEAN_START = "clean start"
    """No descriptor and no environment of the daemon's."""
    SEAL = "seal"
    FILTER = "filter"
    OWN_ROOT = "own root"
    OWN_NETWORK = "own network"
    CAPABILITIES = "capabilities"
    """It has none."""
    FEWER_RIGHTS = "fewer rights"
    """It has none, and the daemon has some."""
    OWN_UID = "own uid"
    HIDDEN_DAEMON = "hidden daemon"
    """The daemon is not dumpable."""
    LANDLOCK = "landlock"
    LANDLOCK_3 = "landlock 3"
    """From that ABI on."""
    LANDLOCK_4 = "landlock 4"
    LANDLOCK_6 = "landlock 6"
    LIMITS = "limits"
    DAEMON = "daemon"
    """Its own rules."""


def standing_behind(attempt: str, errno: str | None, in_force: Collection[Layer]) -> list[Layer]:
    """The layers in force that stop `attempt`, the one that answered `errno` first; empty if none explains it."""
    answers = STOPPED_BY[attempt]
    found = [layer for layer in Layer if layer in answers and layer in in_force]
    return found if found and (errno or NO_ERRNO) in answers[found[0]] else []


_TABLE: Final = """
read_store: own root ENOENT, own uid EACCES, landlock EACCES
query_store: own root refused, own uid refused, landlock refused, filter refused
write_store: filter EACCES, own root ENOENT, own uid EACCES, landlock EACCES
resize_store: filter EACCES, own root ENOENT, own uid EACCES, landlock 3 EACCES
move_store: filter EACCES, own root ENOENT, own uid EACCES, landlock EACCES
open_path: filter EACCES, own root ENOENT, own uid EACCES
open_otherwise: filter ENOSYS, own root ENOENT, own uid EACCES, landlock EACCES
link_store: filter EACCES, own root ENOENT, own uid EACCES, landlock EACCES
read_by_link: filter EACCES, own root ENOENT, own uid EACCES, landlock EACCES
handle_of_store: filter ENOSYS, own root ENOENT, own uid EACCES
open_by_handle: filter ENOSYS
look_up_store: own root ENOENT, own uid EACCES
look_up_by_parent: own root ENOENT, own uid EACCES
list_state: own root ENOENT, own uid EACCES, landlock EACCES
list_sibling: own root ENOENT, landlock EACCES
read_sibling: own root ENOENT, landlock EACCES
move_sibling: filter EACCES, own root ENOENT, own uid EACCES, landlock EACCES
read_accounts: own root ENOENT, landlock EACCES
write_file: filter EACCES, own root ENOENT, landlock EACCES
write_own_app: filter EACCES, own root EROFS, own uid EACCES, landlock EACCES
write_temporary: filter EACCES, own root EROFS, landlock EACCES
write_shared_memory: filter EACCES, own root ENOENT, landlock EACCES
write_unnamed: filter EACCES, own root ENOENT, landlock EACCES
make_folder: filter EACCES, own root ENOENT, landlock EACCES
make_pipe: filter EACCES, own root ENOENT, landlock EACCES
make_device: filter EACCES, own root ENOENT, capabilities EPERM, landlock EACCES
change_mode: filter EACCES, own root ENOENT, own uid EACCES
change_owner: filter EACCES, own root ENOENT, own uid EACCES
change_times: filter EACCES, own root ENOENT, own uid EACCES
change_attribute: filter EACCES, own root ENOENT, own uid EACCES
watch_files: filter ENOSYS
watch_everything: filter ENOSYS, capabilities EPERM
lease: filter EPERM, own uid EACCES
lock: filter ENOSYS
splice: filter ENOSYS
leaked_descriptor: clean start EBADF
foreign_descriptors: clean start EBADF
secret_in_environment: clean start ENOENT
own_environment: own root ENOENT, own uid EACCES, landlock EACCES
own_memory_file: filter EACCES, own root ENOENT, own uid EACCES, landlock EACCES
own_mappings: own root ENOENT, landlock EACCES
spare_from_killing: filter EACCES, own root ENOENT, own uid EACCES, landlock EACCES
connect_door: seal EACCES, own root ENOENT
connect_control: seal EACCES, own root ENOENT, own uid EACCES
own_door_again: seal EACCES
connect_abstract: seal EACCES, own network ECONNREFUSED, landlock 6 EPERM
listen_abstract: seal EACCES, filter EACCES
listen_path: seal EACCES, filter EACCES, own root ENOENT, landlock EACCES
listen_again: filter EACCES
datagram_to_path: filter EPERM, own root ENOENT
pass_descriptor: filter ENOSYS
take_descriptor: filter ENOSYS
handle_on_peer: filter ENOPROTOOPT
out_of_band: filter EPERM
socket_option: filter ENOSYS
tcp: seal EACCES, filter EACCES, own network ENETUNREACH, landlock 4 EACCES
tcp6: seal EACCES, filter EACCES, own network EADDRNOTAVAIL, landlock 4 EACCES
multipath_tcp: seal EACCES, filter EACCES, own network ENETUNREACH
tcp_fast_open: seal EACCES, filter EACCES, own network ENETUNREACH
tcp_listen: seal EACCES, filter EACCES, landlock 4 EACCES
udp: seal EACCES, filter EACCES, own network ENETUNREACH
udp_listen: seal EACCES, filter EACCES
route_outside: seal EACCES, filter EACCES, own network ENETUNREACH
sctp: seal EACCES, filter EACCES
raw_internet: seal EACCES, filter EACCES, capabilities EPERM
raw_packets: seal EACCES, filter EACCES, capabilities EPERM
netlink: seal EACCES, filter EACCES
vsock: seal EACCES, filter EACCES
kernel_crypto: seal EACCES, filter EACCES
rare_family: seal EACCES, filter EACCES, capabilities EAFNOSUPPORT
trace: filter EPERM, fewer rights EPERM, hidden daemon EPERM, landlock EPERM
read_memory: filter EPERM, fewer rights EPERM, hidden daemon EPERM, landlock EPERM
write_memory: filter EPERM, fewer rights EPERM, hidden daemon EPERM, landlock EPERM
signal_victim: filter EPERM, own uid EPERM, landlock 6 EPERM
signal_parent: filter EPERM, own uid EPERM, landlock 6 EPERM
signal_group: filter EPERM, own uid EPERM, landlock 6 EPERM
signal_everyone: filter EPERM
signal_thread: filter ENOSYS, own uid EPERM, landlock 6 EPERM
signal_with_data: filter ENOSYS, own uid EPERM, landlock 6 EPERM
signal_by_handle: filter ENOSYS, own uid EPERM, landlock 6 EPERM
kill_by_data: filter EPERM
kill_by_data_of_thread: filter EPERM
kill_by_ioctl: filter EPERM
signal_by_timer: filter ENOSYS
steal_descriptor: filter ENOSYS, fewer rights EPERM, hidden daemon EPERM, landlock EPERM
advise_memory: filter ENOSYS, capabilities EACCES|EPERM
move_memory: filter ENOSYS, fewer rights EPERM, hidden daemon EPERM, landlock EPERM
compare: filter ENOSYS, fewer rights EPERM, hidden daemon EPERM, landlock EPERM
read_limits: filter EPERM, own uid EPERM
change_limits: filter EPERM, own uid EPERM
priority: filter ENOSYS, fewer rights EPERM
disk_priority: filter ENOSYS, fewer rights EPERM
processors: filter ENOSYS, fewer rights EPERM
schedule: filter refused, fewer rights EPERM
realtime: filter refused, capabilities EPERM
move_to_group: filter ENOSYS
locks_of_thread: filter ENOSYS, fewer rights EPERM, hidden daemon EPERM, landlock EPERM
proc_environment: own root ENOENT, fewer rights EACCES, hidden daemon EACCES, landlock EACCES
proc_memory: own root ENOENT, fewer rights EACCES, hidden daemon EACCES, landlock EACCES
proc_descriptors: own root ENOENT, own uid EACCES, landlock EACCES
proc_root: own root ENOENT, fewer rights EACCES, hidden daemon EACCES, landlock EACCES
proc_command: own root ENOENT, landlock EACCES
proc_status: own root ENOENT, landlock EACCES
proc_list: own root ENOENT, landlock EACCES
proc_sockets: own root ENOENT, landlock EACCES
look_up_process: own root ENOENT
session: filter ENOSYS
schedule_of_victim: filter refused
processor_time: filter EINVAL
lock_of_victim: filter ENOSYS
old_segments: filter ENOSYS
fork: filter EPERM
fork_newest: filter ENOSYS
exec: filter EPERM
run_program: filter EPERM, own root ENOENT, landlock EACCES
run_shell: filter EPERM, own root ENOENT, landlock EACCES
run_by_loader: filter EPERM, landlock EACCES
run_as_root: filter EPERM, own root ENOENT, landlock EACCES
memory_file: filter ENOSYS
secret_memory: filter ENOSYS
lock_memory: filter ENOSYS, capabilities EPERM
shared_memory: filter ENOSYS
semaphores: filter ENOSYS
message_queue: filter ENOSYS, limits EMFILE
io_uring: filter EPERM, capabilities ENOMEM
bpf: filter EPERM, capabilities EPERM
perf: filter ENOSYS, capabilities EACCES
page_faults: filter ENOSYS, capabilities EPERM
keyring: filter ENOSYS
request_key: filter ENOSYS
another_landlock: filter ENOSYS
more_filters: seal EPERM
kernel_log: filter ENOSYS, capabilities EPERM
load_module: filter ENOSYS, capabilities EPERM
load_kernel: filter ENOSYS, capabilities EPERM
reboot: filter ENOSYS, capabilities EPERM
account: filter ENOSYS, capabilities EPERM
stop_swapping: filter ENOSYS, capabilities EPERM
type_into_terminal: filter EPERM
name_host: filter ENOSYS, capabilities EPERM
mount: filter EPERM, own root ENOENT, capabilities EPERM, landlock EPERM
new_mount: filter ENOSYS, capabilities EPERM
copy_mounts: filter ENOSYS, capabilities EPERM
other_root: filter EPERM, capabilities EPERM
swap_root: filter EPERM, capabilities EPERM, landlock EPERM
join_namespace: filter EPERM
become_root: filter ENOSYS, own uid EPERM
become_group: filter ENOSYS, own uid EPERM
take_groups: filter ENOSYS, capabilities EPERM
change_own_limits: filter EPERM
old_layout: filter ENOSYS
outlive_daemon: filter EPERM
show_memory: filter EPERM
take_capabilities: filter ENOSYS, capabilities EPERM
new_network: filter EPERM, capabilities EPERM
new_user_namespace: filter EPERM
by_32_bit_number: filter refused
by_x32_number: filter refused
complete_call: daemon refused
cancel_call: daemon refused
report_on_call: daemon refused
read_call: daemon refused
acknowledge_message: daemon refused
order_as_operator: daemon refused
invoke_as_agent: daemon refused
greet_as_other: daemon refused
heap_bomb: limits ENOMEM
shared_memory_bomb: limits ENOMEM
thread_bomb: limits EAGAIN
descriptor_bomb: limits EMFILE
processor_bomb: limits refused
log_flood: daemon refused
"""


def _parsed(table: str) -> dict[str, dict[Layer, frozenset[str]]]:
    found = {}
    for line in table.strip().splitlines():
        attempt, _, answers = line.partition(": ")
        pairs = (answer.rsplit(" ", 1) for answer in answers.split(", "))
        found[attempt] = {Layer(layer): frozenset(errnos.split("|")) for layer, errnos in pairs}
    return found


STOPPED_BY: Final[Mapping[str, Mapping[Layer, frozenset[str]]]] = _parsed(_TABLE)
