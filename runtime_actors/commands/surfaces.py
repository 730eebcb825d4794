"""What can become of a surface: what an app shows in a container of its own (docs/people.md, section 6)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgpack

from runtime_actors.commands import action_messages, hosts, inbox, receipts, screens, states
from runtime_actors.commands.command import command
from runtime_actors.contract import codec
from runtime_actors.contract.lifecycle import ActionKind, RuntimeAction
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.surfaces import SurfaceReceipt
from runtime_actors.records import calls, instances
from runtime_actors.records import surfaces as rows
from runtime_actors.rules.calls import FINAL
from runtime_actors.rules.flood import SURFACE_CHANGED
from runtime_actors.rules.instances import LIVE
from runtime_actors.rules.surfaces import MAX_OPEN, MAY_OPEN, Surface, canonical_state, closed, patched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime_actors.commands.asker import Asker
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.host import HostSurface
    from runtime_actors.contract.surfaces import SurfaceClose, SurfaceOpen, SurfaceRecord, SurfaceUpdate
    from runtime_actors.records.boxes import InboxRow
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallRecord
    from runtime_actors.rules.instances import InstanceRecord

_ACTIONS: Final[Mapping[str, ActionKind]] = {
    "update": "surface.update",
    "submit": "surface.submit",
    "ask": "surface.ask",
}


# --- what an app asks ---


@dataclass(frozen=True, slots=True)
class Opening:
    """An app wants to show something."""

    by: Asker
    asked: SurfaceOpen


@command(growing=True)
def open_surface(tx: Transaction, opening: Opening) -> SurfaceReceipt | Rejection:
    """Open one, or answer a request that is known by its key or its id."""
    by, asked = opening.by, opening.asked
    digest = codec.digest(asked.surface.to_wire())
    known = rows.by_key(tx, by.instance_id, asked.call_id, asked.key) if asked.key is not None else None
    if known is not None:
        return _known(tx, by, known, digest)
    before = receipts.known(tx, by, SurfaceReceipt) if asked.key is None else None
    if before is not None:
        return before
    instance = instances.get(tx, by.instance_id)
    if instance is None or instance.state not in MAY_OPEN:
        return _refuse(tx, by, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is not running")
    call = calls.of_instance(tx, by.instance_id, asked.call_id) if asked.call_id is not None else None
    state = canonical_state(asked.surface.state)
    refused = _may_open(tx, opening, call, state)
    if refused is not None or isinstance(state, Rejection):
        return refused or _refuse(tx, by, RejectionCode.SURFACE_INVALID, "")
    surface = Surface(
        surface_id=tx.ids.new("srf"),
        instance_id=instance.instance_id,
        conversation_id=instance.conversation_id,
        app_scope=instance.app_scope,
        call_id=asked.call_id,
        key=asked.key,
        digest=digest,
        kind=asked.surface.kind,
        title=asked.surface.title,
        state=state,
        revision=1,
        status="open",
        created_at=tx.at,
        updated_at=tx.at,
    )
    rows.add(tx, surface)
    if call is not None:
        calls.save(tx, replace(call, surfaces=call.surfaces + 1))
    _note(tx, "surface.opened", surface)
    screens.show(tx, "surface.opened", surface.conversation_id, surface.surface_id, _event(surface))
    receipt = _receipt(by, surface)
    return receipt if asked.key is not None else receipts.keep(tx, by, receipt)


def _known(tx: Transaction, by: Asker, surface: Surface, digest: bytes) -> SurfaceReceipt | Rejection:
    if surface.digest != digest:
        return _refuse(tx, by, RejectionCode.KEY_CONFLICT, "this key was used for another surface")
    if surface.status != "open":
        return _refuse(tx, by, RejectionCode.SURFACE_CLOSED, f"{surface.surface_id}, which has this key, is closed")
    return _receipt(by, surface)


def _may_open(tx: Transaction, opening: Opening, call: CallRecord | None, state: bytes | Rejection) -> Rejection | None:
    by, asked = opening.by, opening.asked
    if asked.call_id is not None and call is None:
        return _refuse(tx, by, RejectionCode.CALL_NOT_FOUND, "this instance was given no such call")
    if call is not None and call.status in FINAL:
        return _refuse(tx, by, RejectionCode.CALL_ALREADY_FINAL, f"call {call.call_id} is already {call.status}")
    if not hosts.capable_host(tx):
        return _refuse(tx, by, RejectionCode.HOST_UNSUPPORTED, "no host here can show a surface")
    if isinstance(state, Rejection):
        return _refuse(tx, by, state.code, state.detail)
    if len(rows.open_of_instance(tx, by.instance_id)) >= MAX_OPEN:
        return _refuse(tx, by, RejectionCode.BUSY, f"{MAX_OPEN} surfaces of this instance are open")
    return None


@dataclass(frozen=True, slots=True)
class Updating:
    """An app wants to change what it shows."""

    by: Asker
    asked: SurfaceUpdate


@command()
def update_surface(tx: Transaction, updating: Updating) -> SurfaceReceipt | Rejection:
    """Apply a merge patch to a surface of the asking instance."""
    by, asked = updating.by, updating.asked
    before = receipts.known(tx, by, SurfaceReceipt)
    if before is not None:
        return before
    surface = rows.of_instance(tx, by.instance_id, asked.surface_id)
    if surface is None:
        return _not_found(tx, by)
    after = patched(surface, asked.patch, asked.revision, tx.at)
    if isinstance(after, Rejection):
        refused = _refuse(tx, by, after.code, after.detail)
        return _with_revision(by, surface, refused) if after.code is RejectionCode.SURFACE_STALE else refused
    _change(tx, surface, after)
    return receipts.keep(tx, by, _receipt(by, after))


@dataclass(frozen=True, slots=True)
class Closing:
    """An app does not need a surface any more."""

    by: Asker
    asked: SurfaceClose


@command()
def close_surface(tx: Transaction, closing: Closing) -> SurfaceReceipt | Rejection:
    """Close a surface of the asking instance."""
    by = closing.by
    before = receipts.known(tx, by, SurfaceReceipt)
    if before is not None:
        return before
    surface = rows.of_instance(tx, by.instance_id, closing.asked.surface_id)
    if surface is None:
        return _not_found(tx, by)
    if surface.status != "open":
        return _refuse(tx, by, RejectionCode.SURFACE_CLOSED, f"{surface.surface_id} is closed already")
    return receipts.keep(tx, by, _receipt(by, _close(tx, surface)))


def read_surface(tx: Transaction, of: tuple[str, str]) -> SurfaceRecord | None:
    """A surface as its owner sees it; `of` is (instance_id, surface_id)."""
    surface = rows.of_instance(tx, *of)
    return None if surface is None else rows.shown(surface, with_state=True)


def list_surfaces(tx: Transaction, instance_id: str) -> tuple[SurfaceRecord, ...]:
    """Open ones of an instance in order of opening, without their states."""
    return tuple(rows.shown(one, with_state=False) for one in rows.open_of_instance(tx, instance_id))


# --- what a person does in one ---


@command(growing=True)
def bridge(tx: Transaction, said: tuple[HostSurface, str]) -> JsonObject | Rejection:
    """Do what a surface's own bridge asks: change the state, or tell the owner of a submit or a question.

    `said` is the request and the name of the host that brings it.
    """
    asked, host = said
    surface = rows.get(tx, asked.surface_id)
    if surface is None:
        return _refuse_host(tx, host, RejectionCode.SURFACE_NOT_FOUND, "there is no such surface")
    instance = instances.get(tx, surface.instance_id)
    if surface.status != "open" or instance is None or instance.state not in LIVE:
        return _refuse_host(tx, host, RejectionCode.SURFACE_CLOSED, f"{surface.surface_id} is closed")
    if (asked.op == "update") != (asked.patch is not None):
        return _refuse_host(tx, host, RejectionCode.MESSAGE_INVALID, "patch: needed with update, and refused otherwise")
    older = _untaken_update(tx, surface) if asked.op == "update" else None
    if older is None and (full := action_messages.no_room(tx, surface.conversation_id, surface.app_scope)) is not None:
        return full
    after = surface if asked.patch is None else patched(surface, asked.patch, asked.revision, tx.at)
    if isinstance(after, Rejection):
        return _refuse_host(tx, host, after.code, after.detail)
    if asked.op == "update" and after is surface:
        return {"revision": surface.revision}
    _change(tx, surface, after, host=host)
    if older is not None:  # the newer one says all that it said
        action_messages.withdraw(tx, instance, older)
    action = RuntimeAction(
        action_id=tx.ids.new("act"),
        kind=_ACTIONS[asked.op],
        surface_id=surface.surface_id,
        revision=after.revision,
        data=asked.data,
    )
    action_messages.give(tx, instance, action)
    states.wake(tx, instance)
    return {"revision": after.revision, "action_id": action.action_id}


def _untaken_update(tx: Transaction, surface: Surface) -> InboxRow | None:
    """The message of an earlier update of the same surface that the owner has not acknowledged."""
    for row in inbox.news(tx, surface.conversation_id, surface.app_scope, "action"):
        action = msgpack.unpackb(row.body)
        if action["kind"] == "surface.update" and action["surface_id"] == surface.surface_id:
            return row
    return None


# --- what ends them ---


def close_of_call(tx: Transaction, call: CallRecord) -> None:
    """The call has ended: close what was opened for it. Costs nothing for a call that has no surface."""
    if call.surfaces and call.instance_id is not None:
        for surface in rows.open_of_instance(tx, call.instance_id):
            if surface.call_id == call.call_id:
                _close(tx, surface)


def close_of_instance(tx: Transaction, instance: InstanceRecord) -> None:
    """The instance is at its end, and so is all that it shows."""
    for surface in rows.open_of_instance(tx, instance.instance_id):
        _close(tx, surface)


def _close(tx: Transaction, surface: Surface) -> Surface:
    after = closed(surface, tx.at)
    rows.save(tx, after)
    _note(tx, "surface.closed", after)
    screens.forget_state(tx, after.surface_id, _event(after))
    screens.show(tx, "surface.closed", after.conversation_id, after.surface_id, _event(after))
    return after


def _change(tx: Transaction, before: Surface, after: Surface, *, host: str | None = None) -> None:
    if after is before:
        return
    rows.save(tx, after)
    tx.note_often(
        SURFACE_CHANGED,
        who=after.surface_id,
        digest=hashlib.sha256(after.state).digest(),
        detail={"revision": after.revision},
        conversation_id=after.conversation_id,
        instance_id=after.instance_id,
        surface_id=after.surface_id,
        host=host,
    )
    screens.show(tx, "surface.changed", after.conversation_id, after.surface_id, _event(after))


def _event(surface: Surface) -> dict[str, object]:
    return {"surface": rows.shown(surface, with_state=True).to_wire()}


def _note(tx: Transaction, event: str, surface: Surface) -> None:
    tx.note(
        event,
        digest=hashlib.sha256(surface.state).digest(),
        detail={"revision": surface.revision},
        conversation_id=surface.conversation_id,
        instance_id=surface.instance_id,
        call_id=surface.call_id,
        surface_id=surface.surface_id,
    )


def _receipt(by: Asker, surface: Surface) -> SurfaceReceipt:
    return SurfaceReceipt(
        request_id=by.request_id, accepted=True, surface_id=surface.surface_id, revision=surface.revision
    )


def _with_revision(by: Asker, surface: Surface, refused: Rejection) -> SurfaceReceipt:
    return SurfaceReceipt(
        request_id=by.request_id,
        accepted=False,
        surface_id=surface.surface_id,
        revision=surface.revision,
        code=refused.code,
        detail=refused.detail,
    )


def _not_found(tx: Transaction, by: Asker) -> Rejection:
    return _refuse(tx, by, RejectionCode.SURFACE_NOT_FOUND, "this instance has no such surface")


def _refuse_host(tx: Transaction, host: str, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("surface.refused", code, detail, who=f"host {host}")


def _refuse(tx: Transaction, by: Asker, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("surface.refused", code, detail, who=by.instance_id, attempt_id=by.attempt_id)
