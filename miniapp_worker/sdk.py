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

from miniapp_worker.actions import MiniAppActions
from miniapp_worker.artifacts import MiniAppArtifacts
from miniapp_worker.calls import MiniAppToolCall
from miniapp_worker.capabilities import MiniAppCapabilities
from miniapp_worker.context import MiniAppContext
from miniapp_worker.conversation import MiniAppConversation
from miniapp_worker.errors import CallFailed, PayloadRefused, RequestRefused
from miniapp_worker.inbox import MiniAppInbox
from miniapp_worker.lifecycle import MiniAppLifecycle
from miniapp_worker.listeners import Listener, Unsubscribe
from miniapp_worker.surfaces import MiniAppSurfaces
from miniapp_worker.tools import MiniAppTools
from miniapp_worker.ui import MiniAppUi
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.capabilities import CapabilityDecision, CapabilityReceipt
from runtime_actors.contract.inbox import AgentText, MiniAppMessage
from runtime_actors.contract.interactions import InteractionReceipt, InteractionRecord, InteractionStatus
from runtime_actors.contract.lifecycle import RuntimeAction
from runtime_actors.contract.surfaces import ArtifactReceipt, SurfaceReceipt, SurfaceRecord, SurfaceRequest
from runtime_actors.contract.tools import CallStatus, CommandReceipt, ToolProgressReport

__all__ = [
    "AgentText",
    "ArtifactReceipt",
    "CallFailed",
    "CallStatus",
    "CapabilityDecision",
    "CapabilityReceipt",
    "CommandReceipt",
    "InteractionReceipt",
    "InteractionRecord",
    "InteractionStatus",
    "JsonObject",
    "Listener",
    "MiniAppActions",
    "MiniAppArtifacts",
    "MiniAppCapabilities",
    "MiniAppContext",
    "MiniAppConversation",
    "MiniAppInbox",
    "MiniAppLifecycle",
    "MiniAppMessage",
    "MiniAppSDK",
    "MiniAppSurfaces",
    "MiniAppToolCall",
    "MiniAppTools",
    "MiniAppUi",
    "PayloadRefused",
    "RequestRefused",
    "RuntimeAction",
    "SurfaceReceipt",
    "SurfaceRecord",
    "SurfaceRequest",
    "ToolProgressReport",
    "Unsubscribe",
]


class MiniAppSDK:
    """What an app may do. Everything it writes is a request; the runtime decides, and answers with a receipt."""

    __slots__ = (
        "__actions",
        "__artifacts",
        "__capabilities",
        "__context",
        "__conversation",
        "__inbox",
        "__lifecycle",
        "__stopping",
        "__surfaces",
        "__tools",
        "__ui",
    )

    def __init__(
        self,
        context: MiniAppContext,
        inbox: MiniAppInbox,
        tools: MiniAppTools,
        stopping: asyncio.Event,
        *,
        ui: MiniAppUi,
        lifecycle: MiniAppLifecycle,
        actions: MiniAppActions,
        surfaces: MiniAppSurfaces,
        artifacts: MiniAppArtifacts,
        capabilities: MiniAppCapabilities,
        conversation: MiniAppConversation,
    ) -> None:
        self.__context = context
        self.__inbox = inbox
        self.__tools = tools
        self.__stopping = stopping
        self.__ui = ui
        self.__lifecycle = lifecycle
        self.__actions = actions
        self.__surfaces = surfaces
        self.__artifacts = artifacts
        self.__capabilities = capabilities
        self.__conversation = conversation

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
    def ui(self) -> MiniAppUi:
        return self.__ui

    @property
    def lifecycle(self) -> MiniAppLifecycle:
        return self.__lifecycle

    @property
    def actions(self) -> MiniAppActions:
        return self.__actions

    @property
    def surfaces(self) -> MiniAppSurfaces:
        return self.__surfaces

    @property
    def artifacts(self) -> MiniAppArtifacts:
        return self.__artifacts

    @property
    def conversation(self) -> MiniAppConversation:
        """For apps of kind `system` alone; others are refused."""
        return self.__conversation

    @property
    def capabilities(self) -> MiniAppCapabilities:
        return self.__capabilities

    @property
    def stopping(self) -> bool:
        """The runtime has asked this process to end. After a grace period it is ended."""
        return self.__stopping.is_set()

    async def run_until_stopped(self) -> None:
        """Wait until the runtime asks this process to end, while handlers and listeners do their work."""
        await self.__stopping.wait()
