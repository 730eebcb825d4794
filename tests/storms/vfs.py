"""SQLite's own file system layer, listened to: a `sqlite3_vfs` in the very library that Python's `sqlite3` uses.

It takes the place of the default one and hands everything on to it; of what changes files it tells first. Files stay
the ones of the default layer, with two methods more (sqlite.org/c3ref/io_methods.html). Linux, and a library that is
linked dynamically: elsewhere `find_library` says why not.
"""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import os
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Final, Protocol

_OK: Final = 0
_IOERR: Final = 10
_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_CLOSE = CFUNCTYPE(c_int, c_void_p)
_OPEN_FOLDER = CFUNCTYPE(c_int, c_char_p, POINTER(c_int))
_SET_CALL = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
_GET_CALL = CFUNCTYPE(c_void_p, c_void_p, c_char_p)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", c_int), ("file_size", c_int), ("max_path", c_int), ("next", c_void_p), ("name", c_char_p),
        ("app_data", c_void_p), ("open", c_void_p), ("delete", c_void_p), ("others", c_void_p * 10),
        ("current_time_64", c_void_p), ("set_call", c_void_p), ("get_call", c_void_p), ("next_call", c_void_p),
    )  # fmt: skip


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", c_void_p), ("truncate", c_void_p),
        ("sync", c_void_p), ("others", c_void_p * 13),
    )  # fmt: skip


class Listener(Protocol):
    """Is told of each change when it has succeeded."""

    def opened(self, path: str, *, is_new: bool) -> None: ...
    def written(self, path: str, offset: int, data: bytes) -> None: ...
    def truncated(self, path: str, size: int) -> None: ...
    def synced(self, path: str) -> None: ...
    def deleted(self, path: str) -> None: ...
    def folder_synced(self, folder: str) -> None: ...


def find_library() -> ctypes.CDLL | str:
    """The library behind `sqlite3`, or why it cannot be listened to."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return "there is no /proc/self/maps here to find SQLite by"
    loaded = {line.split()[-1] for line in maps.read_text().splitlines() if "sqlite3.so" in line}
    for path in sorted(loaded) or [_sqlite3.__file__]:
        library = ctypes.CDLL(path)
        if hasattr(library, "sqlite3_vfs_find"):
            return library
    return "SQLite is linked into Python in a way that does not show its functions"


class Shim:
    """Everything that C code may call; must live as long as it is registered."""

    def __init__(self, library: ctypes.CDLL, listener: Listener) -> None:
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        library.sqlite3_vfs_find.argtypes = (c_char_p,)
        library.sqlite3_vfs_register.argtypes = (POINTER(_Vfs), c_int)
        library.sqlite3_vfs_unregister.argtypes = (POINTER(_Vfs),)
        self._library, self._listener = library, listener
        self.error: BaseException | None = None
        """Raised by the listener."""
        self._paths: dict[int, str] = {}
        self._methods: dict[int, _Methods] = {}
        """By the address of the methods that they stand for."""
        self._default = library.sqlite3_vfs_find(None)
        true = self._default.contents
        self._true_open, self._true_delete = _OPEN(true.open), _DELETE(true.delete)
        self._open, self._delete = _OPEN(self._on_open), _DELETE(self._on_delete)
        self._mine = _Vfs.from_buffer_copy(true)
        self._mine.name = b"recording"
        self._mine.open = ctypes.cast(self._open, c_void_p)
        self._mine.delete = ctypes.cast(self._delete, c_void_p)
        self._kept: list[Any] = []
        self._folder = _OPEN_FOLDER(self._on_open_folder)
        address = _GET_CALL(true.get_call)(ctypes.cast(self._default, c_void_p), b"openDirectory")
        self._true_folder = _OPEN_FOLDER(address)

    def register(self) -> None:
        self._library.sqlite3_vfs_register(ctypes.byref(self._mine), 1)
        self._set_folder_call(ctypes.cast(self._folder, c_void_p))

    def unregister(self) -> None:
        self._set_folder_call(None)  # its own again
        self._library.sqlite3_vfs_unregister(ctypes.byref(self._mine))
        self._library.sqlite3_vfs_register(self._default, 1)

    def _set_folder_call(self, call: c_void_p | None) -> None:
        set_call = _SET_CALL(self._default.contents.set_call)
        set_call(ctypes.cast(self._default, c_void_p), b"openDirectory", call)

    def _tell(self, code: int, what: str, *arguments: Any, **named: Any) -> int:  # noqa: ANN401 - as the listener's
        """Hand the code of what was done on, and tell if it was done. An exception must not pass through C."""
        if code != _OK:
            return code
        try:
            getattr(self._listener, what)(*arguments, **named)
        except BaseException as error:  # noqa: BLE001 - raised again when the recording ends
            self.error = self.error or error
            return _IOERR
        return code

    def _on_open(self, _vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:  # noqa: ANN401 - a C pointer
        path = os.fsdecode(ctypes.string_at(name)) if name else ""
        is_new = bool(path) and not Path(path).exists()
        code: int = self._true_open(ctypes.cast(self._default, c_void_p), name, file, flags, out)
        if code == _OK and path:
            self._paths[file] = path
            self._listen_to(file)
        return self._tell(code, "opened", path, is_new=is_new) if path else code

    def _listen_to(self, file: int) -> None:
        """The first word of a file is the address of its methods."""
        slot = c_void_p.from_address(file)
        assert slot.value is not None
        methods = self._methods.get(slot.value)
        if methods is None:
            methods = self._methods[slot.value] = self._listening(_Methods.from_address(slot.value))
        slot.value = ctypes.addressof(methods)

    def _listening(self, true: _Methods) -> _Methods:
        write, truncate, sync, close = (
            _WRITE(true.write), _TRUNCATE(true.truncate), _SYNC(true.sync), _CLOSE(true.close),
        )  # fmt: skip

        def on_write(file: int, data: int, size: int, offset: int) -> int:
            return self._tell(
                write(file, data, size, offset), "written", self._paths[file], offset, ctypes.string_at(data, size)
            )

        def on_truncate(file: int, size: int) -> int:
            return self._tell(truncate(file, size), "truncated", self._paths[file], size)

        def on_sync(file: int, flags: int) -> int:
            return self._tell(sync(file, flags), "synced", self._paths[file])

        def on_close(file: int) -> int:
            self._paths.pop(file, None)
            return int(close(file))

        mine = _Methods.from_buffer_copy(true)
        calls = {"write": _WRITE(on_write), "truncate": _TRUNCATE(on_truncate)}
        calls |= {"sync": _SYNC(on_sync), "close": _CLOSE(on_close)}
        for name, call in calls.items():
            setattr(mine, name, ctypes.cast(call, c_void_p))
        self._kept += [write, truncate, sync, close, *calls.values()]
        return mine

    def _on_delete(self, _vfs: int, name: bytes, sync_folder: int) -> int:
        there = Path(os.fsdecode(name)).exists()
        code = self._true_delete(ctypes.cast(self._default, c_void_p), name, 0)
        code = self._tell(code, "deleted", os.fsdecode(name)) if there else code
        if code == _OK and sync_folder:
            self._tell(code, "folder_synced", str(Path(os.fsdecode(name)).parent))
        return int(code)

    def _on_open_folder(self, name: bytes, out: Any) -> int:  # noqa: ANN401 - a C pointer
        """SQLite opens a folder for nothing but to sync it."""
        return self._tell(self._true_folder(name, out), "folder_synced", str(Path(os.fsdecode(name)).parent))


@contextlib.contextmanager
def listening(library: ctypes.CDLL, listener: Listener) -> Iterator[None]:
    """Every database that is opened meanwhile is listened to; it must be closed before the end."""
    shim = Shim(library, listener)
    shim.register()
    try:
        yield
    finally:
        shim.unregister()
    if shim.error is not None:
        raise shim.error
