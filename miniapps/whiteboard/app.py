"""Whiteboard. The call that opens a board stays open until the board is submitted, by an agent or by the person.

The board is the state of its surface, changed by patches only: of this app, and of the host that the person draws in.
That it was submitted is the progress of its call. So the app keeps nothing: after a restart the call comes again, and
the surface is there under its key with all that was drawn.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from miniapp_worker.sdk import (
    CallFailed,
    JsonObject,
    MiniAppSDK,
    MiniAppToolCall,
    PayloadRefused,
    RuntimeAction,
    SurfaceRecord,
)

from . import board, drawing

KIND: Final = "whiteboard"
_TRIES: Final = 8
"""To submit a board on which the person goes on drawing."""
_NOT_WANTED: Final = "the agent does not want it any longer"


async def main(sdk: MiniAppSDK) -> None:
    whiteboard = Whiteboard(sdk)
    sdk.tools.handler("whiteboard.open")(whiteboard.open)
    sdk.tools.handler("whiteboard.submit")(whiteboard.submit)
    sdk.tools.subscribe_changes(whiteboard.changed)
    sdk.surfaces.subscribe(whiteboard.acted)
    sdk.actions.subscribe(whiteboard.close, kinds=["close"])
    await sdk.run_until_stopped()


class Declined(Exception):
    """The person does not want it submitted."""


class OpenBoard:
    """A board that is open: its call, and its surface once that is there."""

    def __init__(self, board_id: str, call_id: str) -> None:
        self.board_id = board_id
        self.call_id = call_id
        self.surface: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """None if it never comes, or is not needed any more."""
        self.submitting = asyncio.Lock()
        self.submitted: JsonObject | None = None
        """Status, summary, and artifact_id if there is a picture. As reported: a surface is written by others, too."""


class Whiteboard:
    """The boards, and the calls and actions about them."""

    def __init__(self, sdk: MiniAppSDK) -> None:
        self._sdk = sdk
        self._boards: dict[str, OpenBoard] = {}
        """Submitted ones stay until the process ends: a submit that was interrupted must find what it did."""
        self._awaited: dict[str, asyncio.Future[OpenBoard | None]] = {}
        """By call: after a restart, actions may come before the call that opened their board."""
        self._news = asyncio.Event()
        """Set, and replaced, when boards or calls have changed."""

    # --- what agents ask ---

    async def open(self, call: MiniAppToolCall) -> JsonObject | None:
        """Serve `whiteboard.open`; the call is ended by a submit, or by a wish to cancel it."""
        state = board.first_state(call.input)
        present = self._boards.get(state["board_id"])
        if present is not None and present.submitted is None:
            raise CallFailed("app.board_already_open", "a board of this id is open already")
        opened = self._boards[state["board_id"]] = OpenBoard(state["board_id"], call.call_id)
        reported = call.progress.data if call.progress else None
        if reported and reported["status"] == "submitted":  # and the process died before it could say so
            opened.submitted = reported
            self._forget(call.call_id)
            return _ended(reported)
        try:
            record = await self._show(call, state)
        except BaseException:
            self._forget(call.call_id)
            raise
        if opened.surface.done():
            return None  # the person closed it meanwhile
        opened.surface.set_result(record.surface_id)
        self._tell()
        self._awaited_board(call.call_id).set_result(opened)
        if call.cancel_requested:
            await self._cancel(call.call_id, _NOT_WANTED)
            return None
        if reported is None:
            await self._ask_to_notify(record)
            said = {"status": "open", "surface_id": record.surface_id}
            await self._sdk.tools.report_progress(call.call_id, note="open", data=said)
        if call.message_id is not None and not call.is_final:
            await self._sdk.inbox.acknowledge(call.message_id)
        return None

    async def submit(self, call: MiniAppToolCall) -> None:
        """Serve `whiteboard.submit`, and end the call that opened the board."""
        opened = self._boards.get(call.input["board_id"])
        if opened is None or (opened.submitted is not None and not call.repeated):
            raise CallFailed("app.board_not_found", "no board of this id is open")
        if call.cancel_requested:
            await self._sdk.tools.cancel(call.call_id, _NOT_WANTED)
            return
        with_picture = call.input.get("request", {}).get("as", "artifact") == "artifact"
        try:
            done = await self._submit(opened, call.call_id, key="empty", with_picture=with_picture)
        except Declined:
            raise CallFailed("app.submit_declined", "the board is empty, and the person keeps it open") from None
        result: JsonObject = {"board_id": opened.board_id} | done
        del result["status"]
        # First of all: the end of the other call ends this instance unless calls are open.
        await self._sdk.tools.complete(call.call_id, result)
        await self._end(opened, done)
        self._tell()

    async def changed(self, call: MiniAppToolCall) -> None:
        """Follow what becomes of open calls without the app's doing."""
        if call.is_final:
            self._forget(call.call_id)
        else:
            await self._cancel(call.call_id, _NOT_WANTED)
        self._tell()

    async def _show(self, call: MiniAppToolCall, state: JsonObject) -> SurfaceRecord:
        """The surface of a call, as it is now."""
        asked = {"kind": KIND, "title": call.input["title"], "state": state}
        try:
            receipt = await self._sdk.surfaces.request_open(asked, call_id=call.call_id, key=state["board_id"])
        except PayloadRefused as refused:
            raise CallFailed("app.board_invalid", refused.detail) from None
        if receipt.code == "surface_invalid":
            raise CallFailed("app.board_invalid", receipt.detail or "the drawing is too large")
        record = await self._sdk.surfaces.get(receipt.surface_id) if receipt.surface_id is not None else None
        if record is None or not receipt.accepted:
            raise CallFailed("app.board_not_shown", f"{receipt.code}: {receipt.detail}", retryable=True)
        return record

    async def _ask_to_notify(self, record: SurfaceRecord) -> None:
        """A board may tell the person when it was submitted. Without that it works as well."""
        receipt = await self._sdk.capabilities.request("notify", "To tell you when this board was submitted.")
        await self._sdk.surfaces.update(record.surface_id, {"notify": receipt.decision or "denied"})

    # --- what the person does ---

    async def acted(self, action: RuntimeAction) -> None:
        """Follow what the person does on a board."""
        record = await self._sdk.surfaces.get(action.surface_id or "none")
        if record is None or record.state is None or record.call_id is None:
            return  # it was closed meanwhile
        opened = await self._awaited_board(record.call_id)
        if opened is None:
            return
        match action.kind:
            case "surface.update":
                await self._tidy(opened, record)
            case "surface.submit":
                await self._submit_by_person(opened, action)
            case "surface.ask" if (action.data or {}).get("question") == "clear":
                await self._clear(opened, record, action)
            case _:
                pass  # a question that this version does not know

    async def close(self, _: RuntimeAction) -> None:
        """The person wants this app closed: what was not submitted is not wanted."""
        while True:
            news = self._news
            for opened in [one for one in self._boards.values() if one.submitted is None]:
                await self._cancel(opened.call_id, "the person closed the board")
            receipt = await self._sdk.lifecycle.request_close("closed by the person")
            if receipt.code != "lifecycle_denied":  # it closes, or the last call has closed it
                return
            await news.wait()  # a call is open: after a restart it may come behind this action

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _tidy(self, opened: OpenBoard, record: SurfaceRecord) -> None:
        """Take over what was drawn."""
        if opened.submitted is None:
            patch = board.tidied(record.state or {}, opened.board_id, record.title)
            # If it is stale, the person went on drawing, and that is told as well.
            await self._sdk.surfaces.update(record.surface_id, patch, revision=record.revision)

    async def _submit_by_person(self, opened: OpenBoard, action: RuntimeAction) -> None:
        try:
            done = await self._submit(opened, opened.call_id, key=action.action_id)
        except Declined:
            return
        await self._end(opened, done)

    async def _clear(self, opened: OpenBoard, record: SurfaceRecord, action: RuntimeAction) -> None:
        prompt = f"All of “{record.title}” is taken away."
        sure = await self._sdk.ui.confirm(
            "Clear the board?", prompt, parent_call_id=opened.call_id, key=action.action_id
        )
        now = await self._sdk.surfaces.get(record.surface_id) if sure else None
        if now is not None and now.state is not None:
            await self._sdk.surfaces.update(now.surface_id, board.cleared(now.state))

    # --- the end of a board ---

    async def _submit(
        self, opened: OpenBoard, parent_call_id: str, *, key: str, with_picture: bool = True
    ) -> JsonObject:
        """Make the picture, and report it: from then on the board is submitted, whatever happens.

        Raises:
            Declined: It is empty, and the person does not want that.
            CallFailed: It cannot be submitted.

        """
        surface_id = await opened.surface
        async with opened.submitting:
            for _ in range(_TRIES):
                if opened.submitted is not None:
                    return opened.submitted
                record = await self._sdk.surfaces.get(surface_id) if surface_id is not None else None
                if record is None or record.state is None:
                    raise CallFailed("app.board_not_found", "the board was closed meanwhile")
                strokes = board.strokes_of(record.state)
                if not strokes and not await self._may_be_empty(record, parent_call_id, key):
                    raise Declined
                done: dict[str, Any] = {"status": "submitted", "summary": board.summary(strokes)}
                if with_picture:
                    done["artifact_id"] = await self._store(record, strokes, parent_call_id)
                receipt = await self._sdk.surfaces.update(record.surface_id, done, revision=record.revision)
                if receipt.accepted:
                    await self._sdk.tools.report_progress(opened.call_id, percent=100, note="submitted", data=done)
                    opened.submitted = done
                elif receipt.code != "surface_stale":
                    raise CallFailed("app.board_not_kept", f"{receipt.code}: {receipt.detail}")
        if opened.submitted is None:
            raise CallFailed("app.board_busy", "the person goes on drawing", retryable=True)
        return opened.submitted

    async def _may_be_empty(self, record: SurfaceRecord, parent_call_id: str, key: str) -> bool:
        prompt = f"Nothing is drawn on “{record.title}”."
        return await self._sdk.ui.confirm("Submit an empty board?", prompt, parent_call_id=parent_call_id, key=key)

    async def _store(self, record: SurfaceRecord, strokes: dict[str, board.Stroke], call_id: str) -> str:
        picture = drawing.svg(record.title, strokes)
        receipt = await self._sdk.artifacts.put("board.svg", "image/svg+xml", picture, call_id)
        if not receipt.complete or receipt.artifact_id is None:
            raise CallFailed("app.picture_not_kept", f"{receipt.code}: {receipt.detail}", retryable=True)
        return receipt.artifact_id

    async def _end(self, opened: OpenBoard, done: JsonObject) -> None:
        self._forget(opened.call_id)
        await self._sdk.tools.complete(opened.call_id, _ended(done))

    async def _cancel(self, call_id: str, reason: str) -> None:
        self._forget(call_id)
        await self._sdk.tools.cancel(call_id, reason)

    def _awaited_board(self, call_id: str) -> asyncio.Future[OpenBoard | None]:
        """The board of a call, now or when that comes; None if it never does."""
        return self._awaited.setdefault(call_id, asyncio.get_running_loop().create_future())

    def _forget(self, call_id: str) -> None:
        for opened in [one for one in self._boards.values() if one.call_id == call_id]:
            if opened.submitted is None:
                del self._boards[opened.board_id]
            if not opened.surface.done():
                opened.surface.set_result(None)
        awaited = self._awaited.pop(call_id, None)
        if awaited is not None and not awaited.done():
            awaited.set_result(None)


def _ended(done: JsonObject) -> JsonObject:
    """What the agent that opened a board is told of its end."""
    return {name: done[name] for name in ("status", "artifact_id") if name in done}
