"""Makes the system calls that no MiniApp needs: each is a piece of the kernel where there may be a hole."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import termios
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

Attack = Callable[[], object]

IS_X86: Final = platform.machine() == "x86_64"
X32: Final = 0x40000000
GETPID: Final = 39
NONE: Final = -1

UNUSUAL: Final = (
    ("io_uring_setup", 425, 425), ("io_uring_enter", 426, 426), ("io_uring_register", 427, 427), ("bpf", 321, 280),
    ("perf_event_open", 298, 241), ("userfaultfd", 323, 282), ("add_key", 248, 217), ("request_key", 249, 218),
    ("keyctl", 250, 219), ("mount", 165, 40), ("umount2", 166, 39), ("pivot_root", 155, 41), ("chroot", 161, 51),
    ("setns", 308, 268), ("open_tree", 428, 428), ("move_mount", 429, 429), ("fsopen", 430, 430),
    ("fsconfig", 431, 431), ("fsmount", 432, 432), ("fspick", 433, 433), ("mount_setattr", 442, 442),
    ("statmount", 457, 457), ("listmount", 458, 458), ("open_by_handle_at", 304, 265),
    ("name_to_handle_at", 303, 264), ("kexec_load", 246, 104), ("kexec_file_load", 320, 294),
    ("init_module", 175, 105), ("finit_module", 313, 273), ("delete_module", 176, 106), ("swapon", 167, 224),
    ("swapoff", 168, 225), ("acct", 163, 89), ("quotactl", 179, 60), ("syslog", 103, 116), ("sethostname", 170, 161),
    ("setdomainname", 171, 162), ("settimeofday", 164, 170), ("clock_settime", 227, 112), ("adjtimex", 159, 171),
    ("clock_adjtime", 305, 266), ("personality", 135, 92), ("ptrace", 101, 117), ("kcmp", 312, 272),
    ("memfd_create", 319, 279), ("memfd_secret", 447, 447), ("shmget", 29, 194), ("shmat", 30, 196),
    ("semget", 64, 190), ("msgget", 68, 186), ("mq_open", 240, 180), ("splice", 275, 76), ("vmsplice", 278, 75),
    ("tee", 276, 77), ("sendfile", 40, 71), ("copy_file_range", 326, 285), ("fanotify_init", 300, 262),
    ("inotify_init1", 294, 26), ("signalfd4", 289, 74), ("timer_create", 222, 107), ("pidfd_open", 434, 434),
    ("landlock_create_ruleset", 444, 444), ("landlock_restrict_self", 446, 446), ("seccomp", 317, 277),
    ("remap_file_pages", 216, 234), ("mbind", 237, 235), ("set_mempolicy", 238, 237), ("migrate_pages", 256, 238),
    ("move_pages", 279, 239), ("mlockall", 151, 230), ("mlock2", 325, 284), ("pkey_alloc", 330, 289),
    ("process_madvise", 440, 440), ("openat2", 437, 437), ("close_range", 436, 436), ("clone3", 435, 435),
    ("execveat", 322, 281), ("sendmsg", 46, 211), ("recvmsg", 47, 212), ("sendmmsg", 307, 269),
    ("recvmmsg", 299, 243), ("setsockopt", 54, 208), ("bind", 49, 200), ("listen", 50, 201), ("accept4", 288, 242),
    ("setuid", 105, 146), ("setgid", 106, 144), ("setresuid", 117, 147), ("setgroups", 116, 159),
    ("capset", 126, 91), ("setfsuid", 122, 151), ("ioprio_set", 251, 30), ("setrlimit", 160, 164),
    ("io_setup", 206, 0), ("lookup_dcookie", 212, 18), ("vhangup", 153, 58), ("sync", 162, 81), ("syncfs", 306, 267),
    ("futex_waitv", 449, 449), ("map_shadow_stack", 453, 453), ("lsm_set_self_attr", 460, 460), ("mseal", 462, 462),
)  # fmt: skip
"""Name, and its number on x86_64 and on aarch64."""
ONLY_X86: Final = (
    ("fork", 57), ("vfork", 58), ("modify_ldt", 154), ("iopl", 172), ("ioperm", 173), ("arch_prctl", 158),
    ("uselib", 134), ("ustat", 136), ("sysfs", 139), ("_sysctl", 156), ("create_module", 174), ("nfsservctl", 180),
    ("epoll_ctl_old", 214), ("io_getevents", 208), ("io_submit", 209), ("creat", 85), ("inotify_init", 253),
    ("signalfd", 282),
)  # fmt: skip
NAMESPACES: Final = {
    "time": 0x80, "mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
    "pid": 0x20000000, "net": 0x40000000,
}  # fmt: skip

libc: Final = ctypes.CDLL(None, use_errno=True)


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("kernel.attack")
    async def attack(_: MiniAppToolCall) -> JsonObject:
        return {name: outcome(act) for name, act in attacks().items()}

    @sdk.tools.handler("kernel.foreign")
    async def foreign(call: MiniAppToolCall) -> JsonObject:
        """End at once, or say which number it was given for its own pid."""
        if call.repeated:
            return {"repeated": True}
        return {"pid": (by_old_gate if call.input["way"] == "int 0x80" else by_x32)()}

    await sdk.run_until_stopped()


def outcome(act: Attack) -> str:
    """The name of the errno. Whatever is not plainly a refusal has been looked at by the kernel: `open`."""
    try:
        act()
    except OSError as refused:
        code = refused.errno or 0
        return errno.errorcode[code] if code in {errno.EPERM, errno.EACCES, errno.ENOSYS} else f"open: {refused}"
    return "open"


def attacks() -> Mapping[str, Attack]:
    numbers = {name: x86 if IS_X86 else arm for name, x86, arm in UNUSUAL}
    if IS_X86:
        numbers |= dict(ONLY_X86)
    found = dict(ALL)
    for name, number in numbers.items():
        found[name] = partial(system_call, number, *[NONE] * 6)
    for name, flag in NAMESPACES.items():
        found[f"a new {name} namespace"] = partial(system_call, 272 if IS_X86 else 97, flag)
    return found


def system_call(number: int, *arguments: int) -> int:
    answer: int = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(one) for one in arguments))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def prctl(option: int) -> Attack:
    return lambda: system_call(157 if IS_X86 else 167, option, 1, 0, 0, 0)


ALL: Final[Mapping[str, Attack]] = {
    "another filter": prctl(22),
    "privileges again": prctl(38),
    "capabilities again": prctl(47),
    "keep capabilities": prctl(8),
    "a new name for its memory": prctl(35),
    "a slower clock": prctl(26),
    "speculation": prctl(53),
    "dispatch of system calls": prctl(59),
    "type into the terminal": lambda: fcntl.ioctl(0, termios.TIOCSTI, b"!"),
    "take the terminal": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    "freeze a file system": lambda: fcntl.ioctl(1, 0xC0045877, 0),
    "a larger pipe": lambda: fcntl.fcntl(1, 1031, 2**20),
    "be told of a folder": lambda: fcntl.fcntl(1, 1026, 1),
    "become root": lambda: os.setresuid(0, 0, 0),
    "a device": lambda: os.mknod("hostile-was-here", 0o20600, os.makedev(1, 1)),
}


def by_x32() -> int:
    answer: int = libc.syscall(ctypes.c_long(X32 | GETPID))
    return answer


def by_old_gate() -> int:
    """The system call of 32-bit programs, in machine code: mov eax, 20; int 0x80; ret."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    answer: int = ctypes.CFUNCTYPE(ctypes.c_int)(start)()
    return answer
