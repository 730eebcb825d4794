"""Keeps its count in memory alone."""

from __future__ import annotations

from miniapp_worker.sdk import MiniAppSDK, MiniAppToolCall

from .tally import Tally


async def main(sdk: MiniAppSDK) -> None:
    await Forgetful(sdk).serve()


class Forgetful(Tally):
    def remember(self, call: MiniAppToolCall) -> None:
        del call  # whatever its progress was
        self.count = 0
