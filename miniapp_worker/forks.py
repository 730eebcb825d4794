"""`os.fork` in a process with one thread, without what modules of Python do around it.

`logging`, `threading` and `random` register functions that a child runs: new locks, since another thread might have
held the old ones, and a new state of chance. They touch 0.6 MiB, which each worker would then have for itself. Where
there are no other threads the locks are as they should be; the rest is done by `born`.
"""

from __future__ import annotations

import os
from collections.abc import Callable


def register_nothing() -> None:
    """What is imported from now on registers nothing. To be called before `threading` is imported."""
    os.register_at_fork = _ignore


def born() -> Callable[[], None]:
    """What a child has to call, for what the registered functions would have done for it."""
    import random  # noqa: PLC0415 - not before `register_nothing`
    import threading  # noqa: PLC0415

    seed = super(random.Random, random.seed.__self__).seed  # type: ignore[attr-defined]  # from the kernel, in C
    note_thread = threading.main_thread()._set_native_id  # type: ignore[attr-defined]  # noqa: SLF001 - as threading does

    def be_born() -> None:
        seed()
        note_thread()

    return be_born


def _ignore(**_: object) -> None:
    pass
