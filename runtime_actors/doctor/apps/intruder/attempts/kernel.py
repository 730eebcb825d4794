"""The kernel itself: new processes, wider rights, and the interfaces that holes were found in."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import resource
import socket
import struct
import subprocess
from contextlib import closing
from typing import Final

from .attempt import NUMBERS, Act, calling, opening, reached, syscall
from .decoys import Decoys

_TRUE: Final = "/bin/true"
_LOADER: Final = {
    "x86_64": "/lib64/ld-linux-x86-64.so.2",
    "aarch64": "/lib/ld-linux-aarch64.so.1",
}[platform.machine()]
"""Runs what it is given: a way around a program that may not be executed."""
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_TIOCSTI: Final = 0x5412
_libc: Final = ctypes.CDLL(None, use_errno=True)


def _fork(_: Decoys) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _fork_newest(_: Decoys) -> None:
    arguments = bytes(32) + struct.pack("Q", 17) + bytes(24)  # SIGCHLD at its end
    child = syscall("clone3", arguments, len(arguments))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _run(*command: str) -> Act:
    return lambda _: subprocess.run(command, check=False, capture_output=True, timeout=5)


def _libc_call(name: str, *arguments: object) -> None:
    words = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]
    if getattr(_libc, name)(*words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _mount(decoys: Decoys) -> None:
    target = decoys.open_folder.encode()
    _libc_call("mount", b"none", target, b"tmpfs", 0, b"size=4k")
    _libc_call("umount2", target, 2)


def _queue(_: Decoys) -> None:
    os.close(syscall("mq_open", b"lineup-intruder", os.O_CREAT | os.O_RDWR, 0o600, None))
    syscall("mq_unlink", b"lineup-intruder")


def _change_own_limits(_: Decoys) -> None:
    """Within the hard limit, as any process may: nothing is asked for that it does not have."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    syscall("prlimit64", 0, resource.RLIMIT_NOFILE, struct.pack("QQ", *limits), None)


def _type_into_terminal(_: Decoys) -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        fcntl.ioctl(one, _TIOCSTI, b"!")


def _name_host(_: Decoys) -> None:
    name = os.uname().nodename.encode()
    syscall("sethostname", name, len(name))


def _by_32_bit_number(_: Decoys) -> None:
    """getpid(2) by `int 0x80`: filters that look at numbers alone take it for another call."""
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
        here = ctypes.c_char.from_buffer(code)
        answer = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(here))()
        del here
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))


def _by_x32_number(_: Decoys) -> None:
    if _libc.syscall(ctypes.c_long(0x40000000 + NUMBERS["getpid"])) < 0:
        raise OSError(ctypes.get_errno(), "x32")


_EVENT: Final = struct.pack("IIQ", 1, 112, 0) + bytes(96)
_MAP: Final = struct.pack("IIII", 2, 4, 4, 1) + bytes(56)

# Those that change the process that tries them come last.
ALL: Final[dict[str, Act]] = {
    "fork": _fork,
    "fork_newest": _fork_newest,
    "exec": reached(calling("execve", None, None, None), errno.EFAULT),
    "run_program": _run(_TRUE),
    "run_shell": _run("/bin/sh", "-c", "exit 0"),
    "run_by_loader": _run(_LOADER, _TRUE),
    "run_as_root": _run("/bin/su", "--help"),  # a set-user-id program
    "memory_file": opening("memfd_create", b"m", 0),
    "secret_memory": opening("memfd_secret", 0),
    "lock_memory": calling("mlock", 0, 0),
    "shared_memory": lambda _: syscall("shmctl", syscall("shmget", 0, 4096, 0o1600), 0, 0),
    "semaphores": lambda _: syscall("semctl", syscall("semget", 0, 1, 0o1600), 0, 0),
    "message_queue": _queue,
    "io_uring": lambda _: os.close(syscall("io_uring_setup", 1, bytes(120))),
    "bpf": opening("bpf", 0, _MAP, 72),
    "perf": opening("perf_event_open", _EVENT, 0, -1, -1, 0),
    "page_faults": opening("userfaultfd", 0),
    "keyring": calling("add_key", b"user", b"lineup-intruder", b"1", 1, -2),
    "request_key": reached(calling("request_key", b"user", b"lineup-intruder-none", None, 0), errno.ENOKEY),
    "another_landlock": reached(calling("landlock_create_ruleset", None, 0, 0), errno.EFAULT, errno.EINVAL),
    "more_filters": calling("seccomp", 2, 0, struct.pack("I", 0x7FFF0000)),
    "kernel_log": calling("syslog", 10, None, 0),
    "load_module": reached(calling("init_module", None, 0, b""), errno.EFAULT, errno.ENOEXEC, errno.EINVAL),
    "load_kernel": reached(calling("kexec_load", 0, 0, None, 1 << 8), errno.EINVAL, errno.EBUSY),
    "reboot": reached(calling("reboot", 0, 0, 0, None), errno.EINVAL),
    "account": reached(calling("acct", b"/nowhere/at/all"), errno.ENOENT),
    "stop_swapping": reached(calling("swapoff", b"/nowhere/at/all"), errno.ENOENT),
    "type_into_terminal": reached(_type_into_terminal, errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL),
    "name_host": _name_host,
    "mount": _mount,
    "new_mount": opening("fsopen", b"tmpfs", 0),
    "copy_mounts": opening("open_tree", -100, b"/", 1),
    "other_root": calling("chroot", b"/"),
    "swap_root": reached(calling("pivot_root", b"/", b"/"), errno.EINVAL, errno.EBUSY),
    "join_namespace": reached(calling("setns", -1, 0), errno.EBADF),
    "become_root": lambda _: os.setresuid(0, 0, 0),
    "become_group": lambda _: os.setresgid(0, 0, 0),
    "take_groups": lambda _: os.setgroups([0]),
    "change_own_limits": _change_own_limits,
    "old_layout": calling("personality", 0x0040000),
    "outlive_daemon": calling("prctl", _PR_SET_PDEATHSIG, 0, 0, 0, 0),
    "show_memory": calling("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0),
    "take_capabilities": calling(
        "capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[1 << 21] * 2, *[0] * 4)
    ),
    "new_network": calling("unshare", _NEW_NETWORK),
    "new_user_namespace": reached(calling("unshare", _NEW_USER), errno.EINVAL),
}
ON_X86: Final[dict[str, Act]] = {
    "old_segments": calling("modify_ldt", 0, bytes(16), 16),
}
DEADLY: Final[dict[str, Act]] = {"by_32_bit_number": _by_32_bit_number, "by_x32_number": _by_x32_number}
"""On x86_64. A filter kills the process that tries one."""
