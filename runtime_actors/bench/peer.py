"""The peer: a plain call of the MCP Python SDK, an echo tool over stdio in a server process of its own.

Nothing of such a call is recorded, and its server is not confined. It is measured as quick as it can be had: an
asynchronous tool without structured output, and a server that logs nothing.

`python -m runtime_actors.bench.peer` is that server. The SDK is an extra; without it there is no peer.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import ClientSession

GET_IT: Final = "the MCP Python SDK, which is not installed: pip install 'lineup-runtime[bench]'"
IS: Final = "a call of the MCP Python SDK, unrecorded"
IN_FLIGHT: Final = (1, 8, 64)
"""Numbers of calls in flight, of which the best counts."""


def is_installed() -> bool:
    """Whether the SDK is there."""
    return importlib.util.find_spec("mcp") is not None


class Peer:
    """A session with its server. Its event loop has a thread of its own, on which the times are taken."""

    def __init__(self, portal: BlockingPortal, session: ClientSession) -> None:
        self._portal, self._session = portal, session

    def calls(self, count: int) -> list[float]:
        """Seconds of each of so many calls, one at a time."""
        return list(self._portal.call(self._calls, count))

    def flow(self, count: int, in_flight: int) -> float:
        """Seconds for so many calls, with so many of them under way at any time."""
        return float(self._portal.call(self._flow, count, in_flight))

    async def _calls(self, count: int) -> list[float]:
        return [await self._call() for _ in range(count)]

    async def _call(self) -> float:
        begun = time.perf_counter()
        await self._session.call_tool("echo", {"text": "hello"})
        return time.perf_counter() - begun

    async def _flow(self, count: int, in_flight: int) -> float:
        import anyio  # noqa: PLC0415 - comes with the extra

        left = count

        async def lane() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await self._call()

        begun = time.perf_counter()
        async with anyio.create_task_group() as lanes:
            for _ in range(in_flight):
                lanes.start_soon(lane)
        return time.perf_counter() - begun


@contextlib.contextmanager
def peer() -> Iterator[Peer | None]:
    """A session with a server, or None where the SDK is not installed."""
    if not is_installed():
        yield None
        return
    from anyio.from_thread import start_blocking_portal  # noqa: PLC0415 - comes with the extra

    with start_blocking_portal() as portal:
        session = portal.wrap_async_context_manager(_session())
        opened = session.__enter__()
        try:
            yield Peer(portal, opened)
        finally:  # without what was raised here, which would come back wrapped into groups
            session.__exit__(None, None, None)


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[ClientSession]:
    from mcp import ClientSession, StdioServerParameters  # noqa: PLC0415 - the extra
    from mcp.client.stdio import stdio_client  # noqa: PLC0415 - the extra

    server = StdioServerParameters(command=sys.executable, args=["-m", __name__], env=dict(os.environ))
    errors = sys.__stderr__ or sys.stderr  # the real one: the server needs a descriptor
    async with stdio_client(server, errlog=errors) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        yield session


def serve() -> None:
    """Be the server."""
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - the extra

    async def echo(text: str) -> str:
        return text

    server = MCPServer("echo", log_level="ERROR")
    server.add_tool(echo, structured_output=False)
    server.run("stdio")


if __name__ == "__main__":
    serve()
