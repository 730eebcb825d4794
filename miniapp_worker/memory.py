"""Where the zygote's objects lie, so that a worker that uses some of them gets few pages of its own.

To use an object is to write to it: CPython counts references in the object itself, and a page that is written to is
copied for the process that writes. What counts is therefore not how much a worker uses, but on how many pages that is.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import platform
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

_OWN: Final = ("miniapp_worker", "runtime_actors", "asyncio")
"""Packages whose functions are moved too. Others look at which function it is (`enum` does), and keep theirs."""

_LARGEST_SMALL: Final = 512
_SMALL_STEP: Final = 16
_POOL_BYTES: Final = 16 * 1024
_POOL_HEAD_BYTES: Final = 48
"""How CPython's allocator divides memory (Objects/obmalloc.c): pools of objects of one size, up to 512 bytes."""
_SURELY_NEW: Final = 16
"""Places at the beginning of a pool, given out one after the other: it was empty, so there are no gaps elsewhere."""
_NUMBERS: Final = 4
"""That may lie between, being objects of such a size too."""
_MOST_OF_A_SIZE: Final = 2**21
"""Bytes, should this Python have another allocator."""
_LARGEST_GAP: Final = 64 * 1024
_SMALLEST_GAP: Final = 24
_FINE_UP_TO: Final = 2048
_MOST_GAPS: Final = 65_536

_BYTES_HEAD: Final = sys.getsizeof(b"")

_kept: Final[list[object]] = []
_libc: Final = ctypes.CDLL(None)


def gather(run: Callable[[], object]) -> None:
    """Call `run`, and lay the code that it ran side by side, in the order of its first calls. What ran must run again.

    Functions get a copy of their code, which is lawful; those of our own packages and of asyncio are themselves copied.
    """
    ran = _codes_of(run)
    fill_gaps()
    owners: dict[int, list[FunctionType]] = {}
    for function in _functions():
        owners.setdefault(id(function.__code__), []).append(function)
    copied: dict[CodeType, CodeType] = {}
    moved: dict[int, FunctionType] = {}
    for code in ran:
        for function in owners.get(id(code), ()):
            function.__code__ = _copied(code, copied)
            if (function.__module__ or "").partition(".")[0] in _OWN:
                moved[id(function)] = _like(function)
    _replace(moved)


def fill_gaps() -> None:
    """Take what is free on pages that are in use, for good: what a worker needs new lies together on new pages then."""
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        _fill_heap()
    for size in range(_SMALL_STEP, _LARGEST_SMALL + 1, _SMALL_STEP):
        _fill_pools(size)


def give_back() -> None:
    """Hand whole pages that nothing lies on to the kernel: what was needed to import an app is not needed to run it."""
    if _TRIM is not None:
        _TRIM(ctypes.c_size_t(0))


_TRIM: Final = getattr(_libc, "malloc_trim", None)  # glibc's


def _codes_of(run: Callable[[], object]) -> list[CodeType]:
    codes: dict[CodeType, None] = {}

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.setdefault(frame.f_code)

    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(codes)


def _functions() -> Iterator[FunctionType]:
    return (one for one in gc.get_objects() if type(one) is FunctionType)


def _copied(code: CodeType, copied: dict[CodeType, CodeType]) -> CodeType:
    if code not in copied:
        constants = (_copied(one, copied) if isinstance(one, CodeType) else one for one in code.co_consts)
        copied[code] = code.replace(co_consts=tuple(constants))
    return copied[code]


def _like(function: FunctionType) -> FunctionType:
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    for name in ("__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        setattr(made, name, getattr(function, name))
    made.__dict__.update(function.__dict__)
    return made


def _replace(moved: dict[int, FunctionType]) -> None:
    """Wherever a function is found by its name. Who holds the old one goes on with it: they do the same."""
    classes = [one for one in gc.get_objects() if isinstance(one, type)]
    for place in [*sys.modules.values(), *classes]:
        for name, value in list(getattr(place, "__dict__", {}).items()):
            if id(value) in moved:
                _set(place, name, moved[id(value)])


def _set(place: Any, name: str, value: FunctionType) -> None:  # noqa: ANN401 - a module or a class
    try:
        setattr(place, name, value)
    except TypeError:  # a class that cannot be changed
        return


def _fill_pools(size: int) -> None:
    expected = in_order = 0
    for _ in itertools.repeat(None, _MOST_OF_A_SIZE // size):
        one = _of_size(size)
        _kept.append(one)
        is_first = id(one) % _POOL_BYTES == _POOL_HEAD_BYTES
        is_next = in_order and 0 <= id(one) - expected <= _NUMBERS * size
        in_order = 1 if is_first else in_order + 1 if is_next else 0
        expected = id(one) + size
        if in_order == _SURELY_NEW:
            return


def _of_size(size: int) -> object:
    if size == _SMALL_STEP:
        return object()
    if size == 2 * _SMALL_STEP:
        return float("0.5")
    return bytes(size - _BYTES_HEAD)


def _fill_heap() -> None:
    """The same for glibc: gaps below the place from which it takes what fits into none of them."""
    malloc, free = _libc.malloc, _libc.free
    malloc.argtypes, malloc.restype, free.argtypes = [ctypes.c_size_t], ctypes.c_size_t, [ctypes.c_size_t]
    end: int = malloc(2 * _LARGEST_GAP - 1024)  # as large as it can be: what is larger has a mapping of its own
    size, filled = _LARGEST_GAP, 0
    while size >= _SMALLEST_GAP and filled < _MOST_GAPS:
        if (one := malloc(size)) < end:
            filled += 1
            continue
        free(one)
        size -= _SMALL_STEP if size <= _FINE_UP_TO else size // 4
    free(end)
