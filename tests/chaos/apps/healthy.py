from __future__ import annotations

from miniapp_worker.sdk import MiniAppSDK

from .tally import Tally


async def main(sdk: MiniAppSDK) -> None:
    await Tally(sdk).serve()
