"""Has a schema outside the subset. Breaks `manifest`, on purpose."""

from __future__ import annotations

from miniapp_worker.sdk import MiniAppSDK


async def main(sdk: MiniAppSDK) -> None:
    await sdk.run_until_stopped()
