"""What the zygote lives through before the first fork leaves nothing behind, and is a whole life."""

from __future__ import annotations

import asyncio
import threading

import psutil
import pytest

from miniapp_worker import warm_up


def test_nothing_stays_open_and_no_thread_is_left() -> None:
    process = psutil.Process()
    before = process.num_fds(), threading.active_count()

    warm_up.warm_up()

    assert (process.num_fds(), threading.active_count()) == before


def test_every_call_of_a_life_is_served_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    read = warm_up._Nowhere._receipt

    def noted(link: warm_up._Nowhere, request_id: str, status: str) -> None:
        said.append(status)
        read(link, request_id, status)  # type: ignore[arg-type]

    monkeypatch.setattr(warm_up._Nowhere, "_receipt", noted)

    asyncio.run(asyncio.wait_for(warm_up._live(), 10))

    assert said == ["running", "completed"] * warm_up._CALLS
