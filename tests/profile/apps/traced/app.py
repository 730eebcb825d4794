"""Echoes, and notes when a call passed each station in its own process. It gives what it noted as a result.

A confined process can write nowhere, so its marks leave it in the only way there is.
"""

from __future__ import annotations

import gc
import time

from miniapp_worker.link import _Connection
from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

_AT_ONCE = 1500


async def main(sdk: MiniAppSDK) -> None:
    marks: list[str] = []
    trace(marks)

    @sdk.tools.handler("traced.echo")
    async def echo(call: MiniAppToolCall) -> JsonObject:
        note(marks, "handles")
        return {"text": call.input["text"]}

    @sdk.tools.handler("traced.marks")
    async def give(_call: MiniAppToolCall) -> JsonObject:
        given = marks[:_AT_ONCE]
        del marks[:_AT_ONCE]
        return {"marks": given}

    await sdk.run_until_stopped()


def note(marks: list[str], what: str) -> None:
    marks.append(f"{time.monotonic_ns()} {what}")


def trace(marks: list[str]) -> None:
    """Wrap what takes and what sends the frames of this process."""
    plain = _Connection.send

    def sending(self: _Connection, frame: bytes) -> None:
        note(marks, "sends")
        plain(self, frame)

    _Connection.send = sending  # type: ignore[method-assign]
    # The connection was made before this app was imported, and keeps the function that takes its frames.
    (connection,) = (one for one in gc.get_objects() if isinstance(one, _Connection))
    take = connection._on_frame

    def taking(frame: bytes) -> None:
        note(marks, "takes a frame")
        take(frame)

    connection._on_frame = taking
