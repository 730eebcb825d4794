"""Cannot be imported. Breaks `starts`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import Nonsense  # type: ignore[attr-defined] # the fault: there is no such thing


async def main(sdk: Nonsense) -> None:
    await sdk.run_until_stopped()
