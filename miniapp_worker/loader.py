"""From a MiniApp's folder to its `main`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from miniapp_worker.sdk import MiniAppSDK

Main = Callable[["MiniAppSDK"], Awaitable[None]]


class MainMissing(Exception):
    """`app.py` does not define `async def main(sdk)`."""


def load_main(folder: Path, app_scope: str) -> Main:
    """Import `app.py` of `folder`. It sees its neighbours by relative imports only, so none can shadow a library.

    Inside its process the folder is the package `miniapp_` and the scope, whatever it is called outside.

    Raises:
        MainMissing: there is no coroutine function `main` in it.
        BaseException: whatever its import raised.

    """
    package = ModuleType(f"miniapp_{app_scope.replace('-', '_')}")
    package.__path__ = [str(folder)]
    sys.modules[package.__name__] = package
    main: Any = getattr(importlib.import_module(f"{package.__name__}.app"), "main", None)
    if not inspect.iscoroutinefunction(main):
        raise MainMissing(f"{folder / 'app.py'} must define `async def main(sdk)`")
    return main  # type: ignore[no-any-return]  # it was asked just now
