"""The filters as programs, for both machines: run here by an interpreter of our own, whatever machine this is."""

from __future__ import annotations

import errno
import struct
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniapp_worker import bpf, seccomp
from miniapp_worker.syscall_numbers import numbers_of

MACHINES: Final = ("x86_64", "aarch64")
ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED, KILLED = "allowed", "killed"
PID: Final = 4242

words = st.integers(0, 2**64 - 1)
rules = st.dictionaries(
    st.integers(0, 500),
    st.one_of(
        st.just(bpf.ALLOW),
        st.builds(bpf.refuse, st.integers(0, 200)),
        st.builds(lambda mask: bpf.only(bpf.NoBits(1, mask), otherwise=7), st.integers(0, 2**32 - 1)),
    ),
    max_size=120,
)


def verdict(code: bytes, number: int, arguments: tuple[int, ...] = (), arch: int = ARCH["x86_64"]) -> str | int:
    """What the kernel would do: `allowed`, `killed`, or the errno it answers with."""
    seen = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, *(0,) * (6 - len(arguments))))
    place, accumulator = 0, 0
    while True:
        operation, if_true, if_false, value = struct.unpack_from("=HBBI", code, place * 8)
        place += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", seen, value)
            case 0x54:
                accumulator &= value
            case 0x05:
                place += value
            case 0x15:
                place += if_true if accumulator == value else if_false
            case 0x35:
                place += if_true if accumulator >= value else if_false
            case 0x45:
                place += if_true if accumulator & value else if_false
            case 0x06:
                if value in (0x7FFF0000, 0x80000000):
                    return ALLOWED if value == 0x7FFF0000 else KILLED
                return int(value) & 0xFFFF
            case _:
                raise AssertionError(hex(operation))


def with_pid(program: seccomp.Filter) -> bytes:
    code = bytearray(program.code)
    for offset in program.own_pid_at:
        struct.pack_into("=I", code, offset, PID)
    return bytes(code)


@given(rules, st.integers(0, 600), words)
def test_a_filter_says_what_its_rules_say(table: dict[int, bpf.Rule], number: int, argument: int) -> None:
    code, _ = bpf.assemble(table, bpf.refuse(99), audit_arch=ARCH["x86_64"], kill_from=0x40000000)

    rule = table.get(number, bpf.refuse(99))
    expected: str | int = rule.otherwise
    if rule == bpf.ALLOW:
        expected = ALLOWED
    elif rule.alternatives:
        condition = rule.alternatives[0][0]
        assert isinstance(condition, bpf.NoBits)
        expected = ALLOWED if not argument & condition.mask & 0xFFFFFFFF else rule.otherwise
    assert verdict(code, number, (0, argument)) == expected


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("read", (0, 0, 0), ALLOWED),
        ("openat", (0, 0, 0o2000000), ALLOWED),
        ("openat", (0, 0, 1), errno.EACCES),
        ("openat", (0, 0, 0o100), errno.EACCES),
        ("openat", (0, 0, 0o10000000), errno.EACCES),
        ("clone", (0x3D0F00,), ALLOWED),
        ("clone", (0x7D0F00,), ALLOWED),
        ("clone", (17,), errno.EPERM),
        ("clone", (0x3D0F00 & ~0x400,), errno.EPERM),
        ("clone", (0x3D0F00 | 0x10000000,), errno.EPERM),
        ("clone3", (0, 88), errno.ENOSYS),
        ("kill", (PID, 15), ALLOWED),
        ("kill", (PID + 1, 15), errno.EPERM),
        ("kill", (-1 & 0xFFFFFFFF, 15), errno.EPERM),
        ("tgkill", (PID, 5, 6), ALLOWED),
        ("tgkill", (PID + 1, 5, 6), errno.EPERM),
        ("prctl", (15, 1), ALLOWED),
        ("prctl", (1, 9), errno.EPERM),
        ("prlimit64", (0, 7, 0, 1), ALLOWED),
        ("prlimit64", (0, 7, 1, 1), errno.EPERM),
        ("prlimit64", (0, 7, 1 << 32, 1), errno.EPERM),
        ("prlimit64", (1, 7, 0, 1), errno.EPERM),
        ("fcntl", (3, 4, 0o4000), ALLOWED),
        ("fcntl", (3, 4, 0o20000), errno.EPERM),
        ("fcntl", (3, 3, 0o20000), ALLOWED),
        ("fcntl", (3, 8, 1), errno.EPERM),
        ("fcntl", (3, 10, 9), errno.EPERM),
        ("ioctl", (3, 0x5421), ALLOWED),
        ("ioctl", (3, 0x5412), errno.EPERM),
        ("sendto", (3, 1, 1, 0x4000, 0), ALLOWED),
        ("sendto", (3, 1, 1, 1, 0), errno.EPERM),
        ("sendto", (3, 1, 1, 0, 1), errno.EPERM),
        ("sendto", (3, 1, 1, 0, 1 << 32), errno.EPERM),
        ("recvfrom", (3, 1, 1, 1), errno.EPERM),
        ("getsockopt", (3, 1, 4), ALLOWED),
        ("getsockopt", (3, 1, 77), errno.ENOPROTOOPT),
        ("getsockopt", (3, 6, 4), errno.ENOPROTOOPT),
        ("socketpair", (1, 0x80001), ALLOWED),
        ("socketpair", (1, 2), errno.EPERM),
        ("socketpair", (1, 5), errno.EPERM),
        ("socket", (1, 0x80001), ALLOWED),
        ("socket", (1, 2), errno.EACCES),
        ("socket", (2, 1), errno.EACCES),
        ("sched_setscheduler", (PID + 1, 1, 1), 0),
        ("execve", (), errno.EPERM),
        ("unlinkat", (), errno.EACCES),
        ("bind", (), errno.EACCES),
    ],
)
def test_the_first_filter(machine: str, name: str, arguments: tuple[int, ...], expected: str | int) -> None:
    code = with_pid(seccomp.connecting(machine))

    assert verdict(code, numbers_of(machine)[name], arguments, ARCH[machine]) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_the_seal_takes_sockets_connections_and_filters_and_nothing_else(machine: str) -> None:
    numbers, code = numbers_of(machine), seccomp.sealing(machine).code

    refused = {name for name, number in numbers.items() if verdict(code, number, (), ARCH[machine]) != ALLOWED}
    assert refused == {"socket", "connect", "seccomp"}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("program", [seccomp.connecting, seccomp.sealing])
def test_another_machines_calls_kill(machine: str, program: object) -> None:
    assert callable(program)
    code = program(machine).code
    other = next(one for one in MACHINES if one != machine)

    assert verdict(code, numbers_of(other)["getpid"], (), ARCH[other]) == KILLED
    assert verdict(code, 20, (), 0x40000003) == KILLED  # 32-bit x86


def test_the_x32_numbers_kill() -> None:
    for program in (seccomp.connecting(), seccomp.sealing()):
        assert verdict(program.code, 0x40000000 + 39) == KILLED


def test_a_call_nobody_has_heard_of_does_not_exist() -> None:
    for machine in MACHINES:
        assert verdict(with_pid(seccomp.connecting(machine)), 1000, (), ARCH[machine]) == errno.ENOSYS


def test_a_machine_without_a_table_gets_no_filter() -> None:
    with pytest.raises(seccomp.MachineUnknown):
        seccomp.connecting("riscv64")
