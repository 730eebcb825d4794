"""`sdk.surfaces`: what the app shows in a container of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from miniapp_worker.actions import MiniAppActions
from miniapp_worker.errors import PayloadRefused
from miniapp_worker.listeners import Listener, Unsubscribe
from miniapp_worker.pending import Pending, refused
from runtime_actors.contract import codec, payload
from runtime_actors.contract import surfaces as wire
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.lifecycle import RuntimeAction
from runtime_actors.contract.surfaces import SurfaceReceipt, SurfaceRecord, SurfaceRequest

B = TypeVar("B", bound=BaseModel)


class MiniAppSurfaces:
    """Seed section 3.5. A surface is a JSON object that hosts draw; its state outlives this process.

    What changes something returns the runtime's receipt: `accepted` with the revision, or the `code` of its refusal.
    """

    def __init__(self, pending: Pending, actions: MiniAppActions) -> None:
        self._pending = pending
        self._actions = actions

    async def request_open(
        self, surface: SurfaceRequest | JsonObject, *, call_id: str | None = None, key: str | None = None
    ) -> SurfaceReceipt:
        """Ask for a surface: `kind`, `title` and the `state` that it begins with, of at most 64 KiB.

        It ends with the call `call_id`, or with the instance. With a `key`, the same request for the same call gets
        the same surface again, also from a later process; its state is then what became of it meanwhile.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        asked = _checked(SurfaceRequest, surface)
        body = _checked(wire.SurfaceOpen, {"surface": asked, "call_id": call_id, "key": key})
        _check_json(asked.state)
        said = {"kind": asked.kind, "title": asked.title, "state": asked.state}  # the state as it was given
        return await self._wish("lineup.v1.surfaces.open", {"surface": said, "call_id": body.call_id, "key": body.key})

    async def get(self, surface_id: str) -> SurfaceRecord | None:
        """Ask the runtime for a surface of this instance with its state; None if there is none of this id.

        Raises:
            PayloadRefused: `surface_id` is no id.
            RequestRefused: the runtime cannot answer now.

        """
        body = _checked(wire.SurfaceGet, {"surface_id": surface_id})
        reply = await self._pending.question("lineup.v1.surfaces.get", body.to_wire())
        return wire.SurfaceReply.model_validate(reply).surface

    async def list(self) -> tuple[SurfaceRecord, ...]:
        """Open ones of this instance in order of opening, without their states.

        Raises:
            RequestRefused: the runtime cannot answer now.

        """
        reply = await self._pending.question("lineup.v1.surfaces.list", {})
        return wire.SurfaceListed.model_validate(reply).surfaces

    async def update(self, surface_id: str, patch: JsonObject, revision: int | None = None) -> SurfaceReceipt:
        """Ask for a change of the state: a JSON merge patch (RFC 7396), in which null takes a member away.

        With a `revision` it is made only if the surface still has this one (`surface_stale` otherwise): for a patch
        that was worked out from the state, which a person may change at any time.

        Raises:
            PayloadRefused: an argument breaks the contract. Nothing was sent.

        """
        _checked(wire.SurfaceUpdate, {"surface_id": surface_id, "patch": patch, "revision": revision})
        _check_json(patch)
        said = {"surface_id": surface_id, "patch": patch, "revision": revision}
        return await self._wish("lineup.v1.surfaces.update", said)

    async def request_close(self, surface_id: str) -> SurfaceReceipt:
        """Ask for the end of a surface.

        Raises:
            PayloadRefused: `surface_id` is no id.

        """
        body = _checked(wire.SurfaceClose, {"surface_id": surface_id})
        return await self._wish("lineup.v1.surfaces.close", body.to_wire())

    def subscribe(self, listener: Listener[RuntimeAction]) -> Unsubscribe:
        """Be told of what a person does in a surface: `surface.update`, `surface.submit` and `surface.ask`.

        An update says that the state was changed and brings no state: read it. See also `sdk.actions.subscribe`.
        """
        return self._actions.subscribe(listener, kinds=("surface.update", "surface.submit", "surface.ask"))

    async def _wish(self, kind: str, said: Mapping[str, object]) -> SurfaceReceipt:
        filled = {name: value for name, value in said.items() if value is not None}
        return SurfaceReceipt.model_validate(await self._pending.request(kind, filled))


def _check_json(value: JsonObject) -> None:
    try:
        payload.canonical(value)
    except codec.IntakeError as error:
        raise PayloadRefused(error.code, error.detail) from None


def _checked(model: type[B], fields: object) -> B:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refused(error) from None
