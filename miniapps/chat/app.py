"""Interact: where the person and the agent talk. Questions are kept and shown by the runtime; their ends come here.

It keeps nothing that it cannot get back: calls and ends wait in its inbox, and its timeline is the state of a surface.
Text is its one mode. Audio and video have their names and no more: whoever asks for one is told so, and stays in `im`.
"""

from __future__ import annotations

from miniapp_worker.sdk import (
    InteractionRecord,
    InteractionStatus,
    JsonObject,
    MiniAppMessage,
    MiniAppSDK,
    MiniAppToolCall,
    RuntimeAction,
)

from .timeline import EMPTY, Timeline, of_note, of_person, of_question, of_text

QUESTIONS = ("chat.notice", "chat.choice", "chat.confirm", "chat.input")
MODES = ("im", "audio", "video")


async def main(sdk: MiniAppSDK) -> None:
    interact = Interact(sdk)
    for tool_id in QUESTIONS:
        sdk.tools.handler(tool_id)(interact.serve)
    sdk.tools.subscribe_changes(interact.changed)
    sdk.ui.subscribe(interact.ended)
    sdk.inbox.subscribe(interact.heard)
    sdk.actions.subscribe(interact.written, kinds=["text"])
    sdk.actions.subscribe(interact.acted, kinds=["app"])
    sdk.actions.subscribe(interact.stays, kinds=["close", "focus"])
    await sdk.run_until_stopped()


class Interact:
    """The calls by which agents ask the person, and what both of them say."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._screen = Screen(sdk)

    async def serve(self, call: MiniAppToolCall) -> None:
        """Take a question over; it ends with the person's answer."""
        if call.cancel_requested:
            await self.changed(call)
        elif call.message_id is not None and not call.is_final:
            await self._sdk.inbox.acknowledge(call.message_id)

    async def changed(self, call: MiniAppToolCall) -> None:
        """The agent no longer wants an answer: then the person is not asked any longer."""
        if not call.is_final:
            await self._sdk.tools.cancel(call.call_id, "the agent does not ask any longer")

    async def ended(self, asked: InteractionRecord) -> None:
        """End the call of a question that has ended, and show what was answered."""
        call_id, tools = asked.owner.parent_call_id, self._sdk.tools
        if call_id is None or asked.owner.source != "agent_tool":
            return
        await self._screen.show(asked.interaction_id, of_question(asked))
        match asked.status:
            case InteractionStatus.COMPLETED:
                await tools.complete(call_id, asked.result or {})
            case InteractionStatus.CANCELLED:
                await tools.cancel(call_id, asked.reason or "the person did not answer")
            case InteractionStatus.EXPIRED:
                await tools.fail(call_id, code="app.question_expired", message="the person did not answer in time")
            case InteractionStatus.FAILED:
                await tools.fail(call_id, code="app.question_failed", message="the question could not be shown")

    async def heard(self, message: MiniAppMessage) -> None:
        """Show what an agent says."""
        if message.message is not None:
            await self._screen.show(message.message_id, of_text(message.message))
        await self._sdk.inbox.acknowledge(message.message_id)

    async def written(self, action: RuntimeAction) -> None:
        """Pass on what the person wrote, and show it."""
        text = action.text or ""
        receipt = await self._sdk.conversation.send_text(text, action_id=action.action_id)
        shown = of_person(text) if receipt.accepted else of_note(f"This was not sent ({receipt.code}): {text}")
        await self._screen.show(action.action_id, shown)

    async def acted(self, action: RuntimeAction) -> None:
        """Refuse what this mode cannot do."""
        wanted = str((action.data or {}).get("mode", "")) if action.name == "mode" else ""
        if wanted in MODES and wanted != self._sdk.context.mode:
            await self._screen.show(action.action_id, of_note(f"{wanted} is not available here; this stays in text."))

    def stays(self, action: RuntimeAction) -> None:
        """Take over a wish to close it, which changes nothing: it is the floor of its conversation."""


class Screen:
    """The timeline's surface. Where no host can show one, there is none, and everything else goes on."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._surface_id: str | None = None
        self._timeline = Timeline()

    async def show(self, name: str, entry: JsonObject) -> None:
        """Show an entry, or what became of it."""
        if self._surface_id is None and not await self._open():
            return
        patch = self._timeline.put(name, entry)
        if patch is None or self._surface_id is None:
            return
        receipt = await self._sdk.surfaces.update(self._surface_id, patch)
        if not receipt.accepted:  # it was closed: the next entry opens another
            self._surface_id = None

    async def _open(self) -> bool:
        asked = {"kind": "im", "title": "Interact", "state": EMPTY}
        receipt = await self._sdk.surfaces.request_open(asked, key="timeline")
        if receipt.surface_id is None or not receipt.accepted:
            return False
        surface = await self._sdk.surfaces.get(receipt.surface_id)
        if surface is None or surface.status != "open":
            return False
        self._surface_id, self._timeline = receipt.surface_id, Timeline(surface.state)
        return True
