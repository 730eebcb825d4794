"""A small assembler for seccomp filters: what becomes of each system call, by number and arguments.

Classic BPF (bpf(2), seccomp(2)): one accumulator, jumps that only go forward. A filter is a search tree over the
numbers, because the kernel runs it for every number once at each install to learn which ones are always allowed.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

INSTRUCTION_BYTES: Final = 8
_INSTRUCTION: Final = struct.Struct("=HBBI")
_MOST_INSTRUCTIONS: Final = 4096
"""BPF_MAXINSNS of the kernel."""

_LOAD: Final = 0x20
_AND: Final = 0x54
_JUMP: Final = 0x05
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_NUMBER_AT: Final = 0
_ARCH_AT: Final = 4
_ARGUMENTS_AT: Final = 16

_RET_KILL_PROCESS: Final = 0x80000000
_RET_ERRNO: Final = 0x00050000
_RET_ALLOW: Final = 0x7FFF0000

_FAIL: Final = -1
"""A jump to where the next alternative begins, once that is known."""
_LONGEST_BRANCH: Final = 255


class OwnPid(NamedTuple):
    """Stands for the pid of the process that installs the filter: known only then."""


class Instruction(NamedTuple):
    operation: int
    value: int | OwnPid
    if_true: int = 0
    if_false: int = 0


@dataclass(frozen=True, slots=True)
class OneOf:
    """The argument's lower half, or its upper one, is one of `values`."""

    argument: int
    values: tuple[int | OwnPid, ...]
    upper_half: bool = False

    def code(self) -> list[Instruction]:
        last = len(self.values) - 1
        jumps = [
            Instruction(_IF_EQUAL, value, last - place, 0 if place < last else _FAIL)
            for place, value in enumerate(self.values)
        ]
        return [Instruction(_LOAD, _at(self.argument, upper_half=self.upper_half)), *jumps]


@dataclass(frozen=True, slots=True)
class NoBits:
    """None of the bits of `mask` is set in the argument's lower half."""

    argument: int
    mask: int

    def code(self) -> list[Instruction]:
        return [Instruction(_LOAD, _at(self.argument)), Instruction(_IF_ANY_BIT, self.mask, _FAIL, 0)]


@dataclass(frozen=True, slots=True)
class AllBits:
    """All bits of `mask` are set in the argument's lower half."""

    argument: int
    mask: int

    def code(self) -> list[Instruction]:
        return [
            Instruction(_LOAD, _at(self.argument)),
            Instruction(_AND, self.mask),
            Instruction(_IF_EQUAL, self.mask, 0, _FAIL),
        ]


Condition = OneOf | NoBits | AllBits


def null(argument: int) -> tuple[Condition, Condition]:
    """All 64 bits of the argument are zero."""
    return OneOf(argument, (0,)), OneOf(argument, (0,), upper_half=True)


@dataclass(frozen=True, slots=True)
class Rule:
    """Allowed when all conditions of one alternative hold; otherwise answered with `otherwise`, without being run."""

    alternatives: tuple[tuple[Condition, ...], ...]
    otherwise: int
    """An errno. 0 pretends success."""

    def code(self) -> list[Instruction]:
        code: list[Instruction] = []
        for conditions in self.alternatives:
            code += _alternative(conditions)
        if () in self.alternatives:
            return code
        return [*code, Instruction(_RETURN, _RET_ERRNO | self.otherwise)]


ALLOW: Final = Rule(((),), 0)


def refuse(errno: int) -> Rule:
    return Rule((), errno)


def only(*conditions: Condition, otherwise: int) -> Rule:
    return Rule((conditions,), otherwise)


def assemble(
    rules: Mapping[int, Rule], default: Rule, *, audit_arch: int, kill_from: int | None
) -> tuple[bytes, tuple[int, ...]]:
    """The filter's code, and the byte offsets in it at which the own pid is still to be written.

    Calls of another architecture than `audit_arch`, and numbers from `kill_from` on, kill the process: there are no
    rules for them, and a number means another call there.
    """
    code = [
        Instruction(_LOAD, _ARCH_AT),
        Instruction(_IF_EQUAL, audit_arch, 1, 0),
        Instruction(_RETURN, _RET_KILL_PROCESS),
        Instruction(_LOAD, _NUMBER_AT),
    ]
    if kill_from is not None:
        code += [Instruction(_IF_AT_LEAST, kill_from, 0, 1), Instruction(_RETURN, _RET_KILL_PROCESS)]
    code += _tree(_intervals(rules, default))
    if len(code) > _MOST_INSTRUCTIONS:
        raise ValueError(f"{len(code)} instructions are more than the kernel takes")
    own_pid = tuple(
        place * INSTRUCTION_BYTES + INSTRUCTION_BYTES - 4
        for place, instruction in enumerate(code)
        if isinstance(instruction.value, OwnPid)
    )
    return b"".join(_packed(instruction) for instruction in code), own_pid


def _at(argument: int, *, upper_half: bool = False) -> int:
    return _ARGUMENTS_AT + 8 * argument + 4 * (upper_half == (sys.byteorder == "little"))


def _alternative(conditions: Iterable[Condition]) -> list[Instruction]:
    code = [instruction for condition in conditions for instruction in condition.code()]
    code.append(Instruction(_RETURN, _RET_ALLOW))
    return [
        instruction._replace(
            if_true=len(code) - place - 1 if instruction.if_true == _FAIL else instruction.if_true,
            if_false=len(code) - place - 1 if instruction.if_false == _FAIL else instruction.if_false,
        )
        for place, instruction in enumerate(code)
    ]


def _intervals(rules: Mapping[int, Rule], default: Rule) -> list[tuple[int, Rule]]:
    """(first number, rule) in order, each up to the next: neighbours with the same rule are one."""
    found = [(0, default)]
    edges = sorted({*rules, *(number + 1 for number in rules)})
    for edge in edges:
        rule = rules.get(edge, default)
        if rule == found[-1][1]:
            continue
        if edge == found[-1][0]:
            found.pop()
        found.append((edge, rule))
    return found


def _tree(intervals: Sequence[tuple[int, Rule]]) -> list[Instruction]:
    if len(intervals) == 1:
        return intervals[0][1].code()
    middle = len(intervals) // 2
    lower, upper = _tree(intervals[:middle]), _tree(intervals[middle:])
    pivot = intervals[middle][0]
    if len(lower) <= _LONGEST_BRANCH:
        return [Instruction(_IF_AT_LEAST, pivot, len(lower), 0), *lower, *upper]
    return [Instruction(_IF_AT_LEAST, pivot, 0, 1), Instruction(_JUMP, len(lower)), *lower, *upper]


def _packed(instruction: Instruction) -> bytes:
    value = 0 if isinstance(instruction.value, OwnPid) else instruction.value
    return _INSTRUCTION.pack(instruction.operation, instruction.if_true, instruction.if_false, value)
