"""Makes the attempts that the doctor asks for. What it reports is one witness; the doctor's traps are the other."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from miniapp_worker.sdk import JsonObject, MiniAppSDK, MiniAppToolCall

from .attempts import ALL, channel
from .attempts.attempt import Refused, ended
from .attempts.decoys import Decoys


async def main(sdk: MiniAppSDK) -> None:
    @sdk.tools.handler("intruder.try")
    async def attempt(call: MiniAppToolCall) -> JsonObject:
        name, decoys = call.input["attempt"], Decoys(**call.input["decoys"])
        if name in channel.ALL:
            return await _on_channel(name, sdk, decoys)
        # A thread for each: what an attempt does to its own thread ends with it, and the runtime's pings are answered.
        with ThreadPoolExecutor(1) as thread:
            outcome, errno = await asyncio.get_running_loop().run_in_executor(thread, ended, ALL[name], decoys)
        return {"outcome": outcome} | ({"errno": errno} if errno else {})

    await sdk.run_until_stopped()


async def _on_channel(name: str, sdk: MiniAppSDK, decoys: Decoys) -> JsonObject:
    try:
        await channel.ALL[name](sdk, decoys)
    except Refused:
        return {"outcome": "stopped"}
    return {"outcome": "open"}
