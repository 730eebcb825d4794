"""Starts programs, and ends, traces, slows and limits everybody else."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import multiprocessing
import os
import platform
import pty
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

Attack = Callable[[int], object]

IS_X86: Final = platform.machine() == "x86_64"
NUMBERS: Final = {
    name: x86 if IS_X86 else arm
    for name, x86, arm in (
        ("clone", 56, 220), ("ptrace", 101, 117), ("process_vm_readv", 310, 270), ("process_vm_writev", 311, 271),
        ("pidfd_open", 434, 434), ("pidfd_getfd", 438, 438), ("pidfd_send_signal", 424, 424),
        ("rt_sigqueueinfo", 129, 138), ("rt_tgsigqueueinfo", 297, 240), ("tgkill", 234, 131), ("tkill", 200, 130),
        ("prlimit64", 302, 261), ("setpriority", 141, 140), ("sched_setaffinity", 203, 122), ("ioprio_set", 251, 30),
        ("sched_setattr", 314, 274), ("setpgid", 109, 154), ("kcmp", 312, 272), ("process_madvise", 440, 440),
        ("process_mrelease", 448, 448), ("migrate_pages", 256, 238), ("move_pages", 279, 239), ("wait4", 61, 260),
        ("get_robust_list", 274, 100), ("perf_event_open", 298, 241), ("timer_create", 222, 107), ("setsid", 112, 157),
    )
}  # fmt: skip

F_SETSIG, F_SETOWN_EX = 10, 15
O_ASYNC: Final = 0o20000
FIOSETOWN, FIOASYNC = 0x8901, 0x5452
SEIZE, ATTACH = 0x4206, 16
WNOHANG: Final = 1

libc: Final = ctypes.CDLL(None, use_errno=True)


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("processes.attack")
    async def attack(call: MiniAppToolCall) -> JsonObject:
        found = {name: outcome(act, 0) for name, act in STARTS.items()}
        for victim, pid in call.input.items():
            found |= {f"{name} {victim}": outcome(act, int(pid)) for name, act in AT_OTHERS.items()}
        found |= {name: outcome(act, 0) for name, act in OF_ITSELF.items()}
        return found

    await sdk.run_until_stopped()


def outcome(act: Attack, pid: int) -> str:
    try:
        act(pid)
    except OSError as refused:
        return errno.errorcode.get(refused.errno or 0, str(refused))
    return "open"


def system_call(name: str, *arguments: Any) -> int:  # noqa: ANN401 - numbers and buffers
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer: int = libc.syscall(ctypes.c_long(NUMBERS[name]), *words)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def calling(name: str, *arguments: Any) -> Attack:  # noqa: ANN401 - as above; PID stands for the victim
    return lambda pid: system_call(name, *(pid if one is PID else one for one in arguments))


PID: Final = object()


# --- new processes ---


def fork(_: int) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def fork_as_a_sibling(_: int) -> None:
    """CLONE_PARENT: the daemon would be its parent."""
    if system_call("clone", 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def fork_in_a_terminal(_: int) -> None:
    child, _end = pty.fork()
    if child == 0:
        os._exit(0)


def run_in_a_shell(_: int) -> None:
    if os.waitstatus_to_exitcode(os.system("exit 7")) != 7:  # noqa: S605 - a shell is what it is for
        raise PermissionError(errno.EPERM, "there was no shell")


def worker_process(_: int) -> None:
    multiprocessing.get_context("fork").Process(target=int).start()


def linker(_: int) -> None:
    loaders = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
    os.execv(loaders[0 if IS_X86 else 1], ["ld.so", sys.executable, "-c", "pass"])  # noqa: S606 - that is the attack


STARTS: Final[Mapping[str, Attack]] = {
    "fork": fork,
    "fork a sibling": fork_as_a_sibling,
    "fork in a terminal": fork_in_a_terminal,
    "clone sharing memory only": calling("clone", 0x100 | signal.SIGCHLD, 0, 0, 0, 0),
    "clone into a new user namespace": calling("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "spawn": lambda _: os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], {}),
    "subprocess": lambda _: subprocess.run(["/bin/sh", "-c", "exit 0"], check=True),
    "shell": run_in_a_shell,
    "multiprocessing": worker_process,
    "exec": lambda _: os.execv("/bin/sh", ["sh", "-c", "exit 7"]),  # noqa: S606 - as above
    "exec by the linker": linker,
    "exec the interpreter": lambda _: os.execv(sys.executable, ["python", "-c", "pass"]),  # noqa: S606 - as above
}


# --- other processes ---


def by_pidfd(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def take_its_descriptor(pid: int) -> None:
    descriptor = system_call("pidfd_open", pid, 0)
    os.close(system_call("pidfd_getfd", descriptor, 1, 0))


def by_data(pid: int) -> None:
    """SIGIO, but with the number of SIGKILL, to a process that is said to own a socket."""
    one, other = socket.socketpair()
    with one, other:
        fcntl.fcntl(one, fcntl.F_SETOWN, pid)
        fcntl.fcntl(one, F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | O_ASYNC)
        other.send(b"!")


def owner_by(number: int) -> Attack:
    def attack(pid: int) -> None:
        one, other = socket.socketpair()
        with one, other:
            fcntl.ioctl(one, number, struct.pack("i", pid))

    return attack


def owner_extended(pid: int) -> None:
    one, other = socket.socketpair()
    with one, other:
        fcntl.fcntl(one, F_SETOWN_EX, struct.pack("ii", 1, pid))


def memory(name: str) -> Attack:
    def attack(pid: int) -> None:
        here = ctypes.create_string_buffer(8)
        vector = struct.pack("PN", ctypes.addressof(here), 8)
        system_call(name, pid, vector, 1, vector, 1, 0)

    return attack


AT_OTHERS: Final[Mapping[str, Attack]] = {
    "kill": lambda pid: os.kill(pid, signal.SIGKILL),
    "stop": lambda pid: os.kill(pid, signal.SIGSTOP),
    "end": lambda pid: os.kill(pid, signal.SIGTERM),
    "look whether it lives": lambda pid: os.kill(pid, 0),
    "kill the group of": lambda pid: os.killpg(pid, signal.SIGKILL),
    "kill by pidfd": by_pidfd,
    "kill by thread": calling("tgkill", PID, PID, 9),
    "kill by thread alone": calling("tkill", PID, 9),
    "kill by queue": calling("rt_sigqueueinfo", PID, 9, bytes(128)),
    "kill by queue of a thread": calling("rt_tgsigqueueinfo", PID, PID, 9, bytes(128)),
    "kill by data": by_data,
    "own sockets in the name of": owner_by(FIOSETOWN),
    "own threads in the name of": owner_extended,
    "trace": calling("ptrace", SEIZE, PID, 0, 0),
    "stop and trace": calling("ptrace", ATTACH, PID, 0, 0),
    "read the memory of": memory("process_vm_readv"),
    "write the memory of": memory("process_vm_writev"),
    "take a descriptor of": take_its_descriptor,
    "limit the files of": calling("prlimit64", PID, 7, struct.pack("QQ", 0, 0), None),
    "limit the processor of": lambda pid: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)),
    "ask the limits of": calling("prlimit64", PID, 7, None, bytes(16)),
    "slow down": calling("setpriority", 0, PID, 19),
    "bind": calling("sched_setaffinity", PID, 8, struct.pack("Q", 1)),
    "idle": calling("sched_setattr", PID, struct.pack("IIQ", 48, 5, 0) + bytes(32), 0),
    "starve the disk of": calling("ioprio_set", 1, PID, 3 << 13),
    "join the group of": calling("setpgid", 0, PID),
    "compare with": calling("kcmp", PID, os.getpid(), 0, 0, 0),
    "move the pages of": calling("migrate_pages", PID, 8, bytes(8), bytes(8)),
    "look at the pages of": calling("move_pages", PID, 0, None, None, None, 0),
    "look at the locks of": calling("get_robust_list", PID, bytes(8), bytes(8)),
    "watch": calling("perf_event_open", struct.pack("IIQ", 1, 112, 0) + bytes(96), PID, -1, -1, 0),
    "wait for": calling("wait4", PID, None, WNOHANG, None),
    "read the environment of": lambda pid: os.close(os.open(f"/proc/{pid}/environ", os.O_RDONLY)),
    "read the memory file of": lambda pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)),
    "offer to the memory killer": lambda pid: os.close(os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY)),
}


# --- its own ties ---


def asynchronous(_: int) -> None:
    one, other = socket.socketpair()
    with one, other:
        fcntl.ioctl(one, FIOASYNC, struct.pack("i", 1))


def raise_limits(_: int) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    except ValueError as refused:  # what Python makes of EPERM
        raise PermissionError(errno.EPERM, str(refused)) from None


OF_ITSELF: Final[Mapping[str, Attack]] = {
    "look at everybody": lambda _: os.kill(-1, 0),
    "look at its group": lambda _: os.kill(0, 0),
    "look at its parent": lambda _: os.kill(os.getppid(), 0),
    "be told of data": asynchronous,
    "leave its session": calling("setsid"),
    "signal by a timer": calling("timer_create", 0, None, bytes(8)),
    "raise its own limits": raise_limits,
    "outlive the daemon": lambda _: prctl(1, 0),
    "show its memory": lambda _: prctl(4, 1),
    "be a reaper": lambda _: prctl(36, 1),
    "let itself be traced": lambda _: prctl(0x59616D61, -1),
    "leave its control group": lambda _: os.close(os.open("/sys/fs/cgroup/cgroup.procs", os.O_WRONLY)),
}


def prctl(option: int, value: int) -> None:
    if libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value & 2**64 - 1), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
