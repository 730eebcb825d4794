"""What a hostile MiniApp tries, each attempt against decoys of the test.

A refusal is an OSError; returning is success.
"""
# An attack is a system call, and spelled as one.
# ruff: noqa: PTH101, PTH102, PTH108, PTH116, PTH123, PTH208

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from miniapp_worker.syscall_numbers import numbers_of

_libc: Final = ctypes.CDLL(None, use_errno=True)
_known: Final = numbers_of(platform.machine())
_NEWER: Final = {"pidfd_getfd": 438, "memfd_secret": 447, "open_tree": 428, "fsopen": 430}
_X86: Final = {
    "memfd_create": 319, "shmget": 29, "shmctl": 31, "mq_open": 240, "perf_event_open": 298, "userfaultfd": 323,
    "add_key": 248, "setpriority": 141, "sched_setaffinity": 203, "personality": 135, "open_by_handle_at": 304,
}  # fmt: skip
_ARM: Final = {
    "memfd_create": 279, "shmget": 194, "shmctl": 195, "mq_open": 180, "perf_event_open": 241, "userfaultfd": 282,
    "add_key": 217, "setpriority": 140, "sched_setaffinity": 122, "personality": 92, "open_by_handle_at": 265,
}  # fmt: skip
NUMBERS: Final = {**_known, **_NEWER, **(_X86 if platform.machine() == "x86_64" else _ARM)}


@dataclass(frozen=True)
class Decoys:
    """What the attacks are aimed at; nothing of it is anybody's."""

    store: str
    apps: str
    sibling_file: str
    open_folder: str
    """Writable for all uids."""
    door: str
    """A unix socket that listens."""
    datagram_door: str
    abstract: str
    tcp_port: int
    tcp6_port: int
    udp_port: int
    victim: int
    """A process of the daemon's own."""
    sigio_victim: int
    leaked_fd: int


Attack = Callable[[Decoys], object]


def syscall(name: str, *arguments: object) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer: int = _libc.syscall(ctypes.c_long(NUMBERS[name]), *words)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def raw(number: int) -> int:
    """A call without arguments, by its number."""
    answer: int = _libc.syscall(ctypes.c_long(number))
    return answer


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(64)


def _close(descriptor: int) -> None:
    os.close(descriptor)


def _write_new(folder: str) -> None:
    path = f"{folder}/written-{os.getpid()}"
    _close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink(path)


def _link(decoys: Decoys) -> None:
    target = f"{decoys.open_folder}/linked"
    os.link(decoys.store, target)
    os.unlink(target)


def _connect(family: int, kind: int, protocol: int, address: object) -> None:
    with socket.socket(family, kind, protocol) as opened:
        opened.settimeout(2)
        opened.connect(address)  # type: ignore[arg-type]  # as wild as the attacks


def _datagram_to_path(decoys: Decoys) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with closing(one), closing(other):
        one.sendto(b"!", decoys.datagram_door)


def _udp(decoys: Decoys) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendto(b"!", ("127.0.0.1", decoys.udp_port))


def _fast_open(decoys: Decoys) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.sendto(b"!", 0x20000000, ("127.0.0.1", decoys.tcp_port))


def _listen(_: Decoys) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()


def _socket(family: int, kind: int) -> None:
    socket.socket(family, kind).close()


def _bind_abstract(_: Decoys) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
        opened.bind(f"\0lineup-hostile-{os.getpid()}")
        opened.listen()


def _trace_victim(decoys: Decoys) -> None:
    syscall("ptrace", 0x4206, decoys.victim, 0, 0)


def _read_memory(decoys: Decoys) -> None:
    here = ctypes.create_string_buffer(8)
    local = struct.pack("PN", ctypes.addressof(here), 8)
    remote = struct.pack("PN", ctypes.addressof(_MARK), 8)  # a fork: the same address
    syscall("process_vm_readv", decoys.victim, local, 1, remote, 1, 0)


_MARK: Final = ctypes.create_string_buffer(b"secret!!")


def _pidfd_signal(decoys: Decoys) -> None:
    descriptor = os.pidfd_open(decoys.victim)
    try:
        signal.pidfd_send_signal(descriptor, 0)
    finally:
        os.close(descriptor)


def _steal_descriptor(decoys: Decoys) -> None:
    descriptor = os.pidfd_open(decoys.victim)
    try:
        _close(syscall("pidfd_getfd", descriptor, 1, 0))
    finally:
        os.close(descriptor)


def _kill_by_io(decoys: Decoys) -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        fcntl.fcntl(one, fcntl.F_SETOWN, decoys.sigio_victim)
        fcntl.fcntl(one, 10, signal.SIGKILL)  # F_SETSIG
        fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | 0o20000)
        other.send(b"!")


def _limits_of_victim(decoys: Decoys) -> None:
    new = struct.pack("QQ", 1024, 1024)
    syscall("prlimit64", decoys.victim, 7, new, None)


def _fork(_: Decoys) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _exec(_: Decoys) -> None:
    # A thread of its own could not be used: an exec that works replaces them all. So the file is one that cannot run.
    try:
        os.execv("/usr/lib/os-release", ["os-release"])  # noqa: S606 - no shell is wanted
    except OSError as refused:
        if refused.errno != 8:  # ENOEXEC: it was read as a program, and only its content was wrong
            raise


def _out_of_band(_: Decoys) -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        one.send(b"!", socket.MSG_OOB)


def _pass_descriptor(_: Decoys) -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        socket.send_fds(one, [b"!"], [0])


def _handle_on_peer(_: Decoys) -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        _close(one.getsockopt(socket.SOL_SOCKET, 77))  # SO_PEERPIDFD


def _prctl(option: int, value: int) -> Attack:
    return lambda _: syscall("prctl", option, value, 0, 0, 0)


def _descriptor(name: str, *arguments: object) -> Attack:
    return lambda _: _close(syscall(name, *arguments))


def _libc_call(name: str, *arguments: object) -> None:
    words = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]
    if getattr(_libc, name)(*words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _mount(decoys: Decoys) -> None:
    _libc_call("mount", b"none", decoys.open_folder.encode(), b"tmpfs", 0, b"size=4k")
    _libc_call("umount2", decoys.open_folder.encode(), 2)


_EVENT: Final = struct.pack("IIQ", 1, 112, 0) + bytes(96)

# Those that change the process that tries them come last.
ALL: Final[dict[str, Attack]] = {
    "read_store": lambda decoys: _read(decoys.store),
    "stat_store": lambda decoys: os.stat(decoys.store),
    "stat_by_parent": lambda decoys: os.stat(f"/..{decoys.store}"),  # where an old root may lie beneath the new one
    "list_apps": lambda decoys: os.listdir(decoys.apps),
    "read_sibling": lambda decoys: _read(decoys.sibling_file),
    "link_store": _link,
    "write_file": lambda decoys: _write_new(decoys.open_folder),
    "write_own_app": lambda decoys: _write_new(f"{decoys.apps}/own"),
    "write_shared_memory": lambda _: _write_new("/dev/shm"),  # noqa: S108 - that is the target
    "make_folder": lambda decoys: os.mkdir(f"{decoys.open_folder}/made-{os.getpid()}"),
    "change_mode": lambda decoys: os.chmod(decoys.store, 0o600),
    "change_times": lambda decoys: os.utime(decoys.store),
    "change_attribute": lambda decoys: os.setxattr(decoys.store, "user.lineup", b"1"),
    "open_path": lambda decoys: _close(os.open(decoys.store, os.O_PATH)),
    "leaked_descriptor": lambda decoys: os.read(decoys.leaked_fd, 1),
    "connect_door": lambda decoys: _connect(socket.AF_UNIX, socket.SOCK_STREAM, 0, decoys.door),
    "connect_abstract": lambda decoys: _connect(socket.AF_UNIX, socket.SOCK_STREAM, 0, "\0" + decoys.abstract),
    "listen_abstract": _bind_abstract,
    "datagram_to_path": _datagram_to_path,
    "tcp": lambda decoys: _connect(socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", decoys.tcp_port)),
    "tcp6": lambda decoys: _connect(socket.AF_INET6, socket.SOCK_STREAM, 0, ("::1", decoys.tcp6_port)),
    "multipath_tcp": lambda decoys: _connect(socket.AF_INET, socket.SOCK_STREAM, 262, ("127.0.0.1", decoys.tcp_port)),
    "tcp_fast_open": _fast_open,
    "tcp_listen": _listen,
    "udp": _udp,
    "netlink": lambda _: _socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "vsock": lambda _: _socket(socket.AF_VSOCK, socket.SOCK_STREAM),
    "raw_packets": lambda _: _socket(socket.AF_PACKET, socket.SOCK_RAW),
    "out_of_band": _out_of_band,
    "pass_descriptor": _pass_descriptor,
    "handle_on_peer": _handle_on_peer,
    "trace": _trace_victim,
    "read_memory": _read_memory,
    "signal_by_pidfd": _pidfd_signal,
    "steal_descriptor": _steal_descriptor,
    "signal_victim": lambda decoys: os.kill(decoys.victim, 0),
    "signal_parent": lambda _: os.kill(os.getppid(), 0),
    "signal_group": lambda decoys: os.kill(-decoys.victim, 0),
    "kill_by_io": _kill_by_io,
    "limits_of_victim": _limits_of_victim,
    "priority_of_victim": lambda decoys: syscall("setpriority", 0, decoys.victim, 5),
    "processors_of_victim": lambda decoys: syscall("sched_setaffinity", decoys.victim, 8, struct.pack("Q", 1)),
    "proc_environ": lambda decoys: _read(f"/proc/{decoys.victim}/environ"),
    "proc_memory": lambda decoys: _close(os.open(f"/proc/{decoys.victim}/mem", os.O_RDONLY)),
    "proc_descriptors": lambda decoys: os.listdir(f"/proc/{decoys.victim}/fd"),
    "proc_command": lambda decoys: _read(f"/proc/{decoys.victim}/cmdline"),
    "proc_root": lambda decoys: os.listdir(f"/proc/{decoys.victim}/root"),
    "proc_list": lambda _: os.listdir("/proc"),
    "proc_unix": lambda _: _read("/proc/net/unix"),
    "own_environment": lambda _: _read("/proc/self/environ"),
    "fork": _fork,
    "exec": _exec,
    "memory_file": _descriptor("memfd_create", b"m", 0),
    "secret_memory": _descriptor("memfd_secret", 0),
    "shared_memory": lambda _: syscall("shmctl", syscall("shmget", 0, 4096, 0o1600), 0, 0),
    "message_queue": _descriptor("mq_open", b"lineup-hostile", os.O_CREAT | os.O_RDWR, 0o600, None),
    "io_uring": lambda _: _close(syscall("io_uring_setup", 1, bytes(120))),
    "bpf": _descriptor("bpf", 0, struct.pack("IIII", 2, 4, 4, 1) + bytes(56), 72),
    "perf": _descriptor("perf_event_open", _EVENT, 0, -1, -1, 0),
    "page_faults": _descriptor("userfaultfd", 0),
    "keyring": lambda _: syscall("add_key", b"user", b"lineup-hostile", b"1", 1, -2),
    "handle": lambda _: syscall("open_by_handle_at", 0, bytes(128), 0),
    "outlive_daemon": _prctl(1, 0),
    "show_memory": _prctl(4, 1),
    "more_filters": lambda _: syscall("seccomp", 2, 0, struct.pack("I", 0x7FFF0000)),
    "old_layout": lambda _: syscall("personality", 0x0040000),
    "mount": _mount,
    "new_mount": _descriptor("fsopen", b"tmpfs", 0),
    "become_root": lambda _: os.setresuid(0, 0, 0),
    "new_network": lambda _: syscall("unshare", 0x40000000),
    "new_user_namespace": lambda _: syscall("unshare", 0x10000000),
}
