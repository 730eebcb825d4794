"""All that a MiniApp imports.

A MiniApp is a folder with `manifest.json` and an `app.py` that defines `async def main(sdk: MiniAppSDK) -> None`. It
runs once a process; when it returns, the process ends. A typical one registers handlers and waits:

    async def main(sdk: MiniAppSDK) -> None:
        @sdk.tools.handler("echo.say")
        async def say(call: MiniAppToolCall) -> dict[str, str]:
            return {"text": call.input["text"]}

        await sdk.run_until_stopped()

Everything happens on one event loop: whoever blocks it stops answering the runtime, and is ended.
"""

from __future__ import annotations

import asyncio

from miniapp_worker.calls import MiniAppToolCall
from miniapp_worker.context import MiniAppContext
from miniapp_worker.errors import CallFailed, PayloadRefused, RequestRefused
from miniapp_worker.inbox import MiniAppInbox
from miniapp_worker.listeners import Listener, Unsubscribe
from miniapp_worker.tools import MiniAppTools
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.inbox import AgentText, MiniAppMessage
from runtime_actors.contract.tools import CallStatus, CommandReceipt, ToolProgressReport

__all__ = [
    "AgentText",
    "CallFailed",
    "CallStatus",
    "CommandReceipt",
    "JsonObject",
    "Listener",
    "MiniAppContext",
    "MiniAppInbox",
    "MiniAppMessage",
    "MiniAppSDK",
    "MiniAppToolCall",
    "MiniAppTools",
    "PayloadRefused",
    "RequestRefused",
    "ToolProgressReport",
    "Unsubscribe",
]


class MiniAppSDK:
    """What an app may do. Everything it writes is a request; the runtime decides, and answers with a receipt."""

    __slots__ = ("__context", "__inbox", "__stopping", "__tools")

    def __init__(
        self, context: MiniAppContext, inbox: MiniAppInbox, tools: MiniAppTools, stopping: asyncio.Event
    ) -> None:
        self.__context = context
        self.__inbox = inbox
        self.__tools = tools
        self.__stopping = stopping

    @property
    def context(self) -> MiniAppContext:
        return self.__context

    @property
    def inbox(self) -> MiniAppInbox:
        return self.__inbox

    @property
    def tools(self) -> MiniAppTools:
        return self.__tools

    @property
    def stopping(self) -> bool:
        """The runtime has asked this process to end. After a grace period it is ended."""
        return self.__stopping.is_set()

    async def run_until_stopped(self) -> None:
        """Wait until the runtime asks this process to end, while handlers and listeners do their work."""
        await self.__stopping.wait()
