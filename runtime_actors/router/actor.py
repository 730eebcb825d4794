"""The router actor: lets calls in, and checks what MiniApps report about them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, TypeVar

from runtime_actors.actor import RuntimeActor
from runtime_actors.channel.messages import Decided, Report, SessionOver
from runtime_actors.commands import agents, apps, calls
from runtime_actors.commands.follow_ups import DueAt, InventoryChanged
from runtime_actors.contract import codec, payload
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CallStatus, Cancel, Complete, Fail, Failure, ReportProgress, ToolInvoke
from runtime_actors.router import messages as m
from runtime_actors.rules import admission
from runtime_actors.rules.inventory import Inventory
from runtime_actors.rules.lifecycle import CHAT

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.actor import Care
    from runtime_actors.commands.calls import Reported, Reporter
    from runtime_actors.contract.interactions import OldToolCall
    from runtime_actors.mailbox import Clock, Mailbox
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallKey
    from runtime_actors.rules.inventory import Catalogue
    from runtime_actors.store.client import Store
    from runtime_actors.timers import Timers

A = TypeVar("A")

CANCELLED_BY_APP: Final = "app.cancelled"
_LATEST_LOOK_S: Final = 3600.0


class RouterActor(RuntimeActor):
    """Owns calls. Keeps only the current inventory and the next deadline, so a rebuild loses nothing."""

    def __init__(
        self,
        care: Care,
        *,
        store: Store,
        channel: Mailbox[object],
        supervisor: Mailbox[object],
        gateway: Mailbox[object],
        me: Mailbox[object],
        timers: Timers,
        clock: Clock,
        catalogue: Catalogue,
        inventory: Inventory,
        sweep_s: float,
    ) -> None:
        super().__init__(care)
        self._store, self._channel, self._supervisor, self._gateway = store, channel, supervisor, gateway
        self._me, self._timers, self._clock, self._sweep_s = me, timers, clock, sweep_s
        self._catalogue, self._inventory = catalogue, inventory
        self._next_look_s = float("inf")

    def on_start(self) -> None:
        """Begin to sweep."""
        self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())

    def rebuild(self) -> None:
        """Read switches and deadlines again."""
        self._next_look_s = float("inf")
        self._sweep()

    def receive(self, message: object) -> None:  # noqa: C901, PLR0912 - one line a message
        """Handle one message."""
        match message:
            case m.Invoke():
                self._invoke(message)
            case m.OldCall():
                self._invoke_by_old_form(message)
            case Report():
                self._report(message)
            case m.CancelCall(key, reason, answer):
                self._store.run(calls.request_cancel, calls.CancelWish(key, reason), answer, call_key=key)
            case m.GetCall(key, answer):
                self._store.run(calls.read_call, key, answer)
            case SessionOver():
                self._supervisor.tell(message)  # behind every report of that session
            case DueAt(boot_s):
                self._look_at(boot_s)
            case m.TimeUp():
                self._expire()
            case m.ExpiryDone(calls.Expiry(_, next_due_boot_s)):
                if next_due_boot_s is not None:
                    self._look_at(next_due_boot_s)
            case m.ExpiryDone():
                pass  # the sweep looks again
            case InventoryChanged(inventory):
                self._inventory = inventory
                self._gateway.tell(message)
            case Inventory():
                self._compare(message)
            case m.SweepDue():
                self._timers.tell_after(self._sweep_s, self._me, m.SweepDue())
                self._sweep()
            case _:
                detail = f"the router cannot take {type(message).__name__}"
                raise TypeError(detail)

    # --- agents ---

    def _invoke_by_old_form(self, old: m.OldCall) -> None:
        """As a call of the tool that has the name now. It is known again by its own words, whatever the revision is."""
        said = old.request
        request = ToolInvoke(
            call_id=said.call_id,
            tool_id=f"{CHAT}.{said.tool}",
            inventory_revision=said.inventory_revision or self._inventory.revision,
            input=said.input,
        )
        self._invoke(m.Invoke(old.call_key, request, old.answer), said)

    def _invoke(self, invoke: m.Invoke, said: OldToolCall | None = None) -> None:
        request = invoke.request
        try:
            given = payload.canonical(request.input)
        except codec.IntakeError as error:
            refused = Rejection(code=RejectionCode(error.code), detail=f"input: {error.detail}")
            self._refuse(invoke.call_key, refused, invoke.answer)
            return
        body = codec.encode((said or request).to_wire())
        verdict = admission.verdict(request, self._catalogue, self._inventory)
        if verdict is None:
            timeout_ms = self._catalogue.tools[request.tool_id].descriptor.timeout_ms
            self._look_at(self._clock.now().boot_s + timeout_ms / 1000)
        checked = calls.CheckedInvoke(
            key=invoke.call_key,
            tool_id=request.tool_id,
            inventory_revision=request.inventory_revision,
            input=given,
            digest=hashlib.sha256(body).digest(),
            verdict=verdict,
        )
        self._store.run(calls.admit, checked, invoke.answer, call_key=invoke.call_key)

    def _refuse(self, key: CallKey, refused: Rejection, answer: Callable[[Rejection], None]) -> None:
        subject = {"who": key.agent_id, "conversation_id": key.conversation_id, "call_id": key.call_id}
        event = agents.Event("call.refused", subject, refused.code)
        self._store.run(agents.note_event, event, lambda _: answer(refused))

    # --- MiniApps ---

    def _report(self, report: Report) -> None:
        by = report.by
        match report.word:
            case ReportProgress(progress=progress):
                told = codec.encode(progress.to_wire())
                self._decide(calls.report_progress, calls.ProgressReport(by, told), by)
            case Complete(result=result):
                try:
                    given = payload.canonical(result)
                except codec.IntakeError as error:
                    fault = f"result: {error.detail}"
                    self._finish(calls.FinalReport(by, CallStatus.COMPLETED, None, output_fault=fault))
                else:  # which tool's schema has to hold, the record knows
                    self._finish(calls.FinalReport(by, CallStatus.COMPLETED, given, result=result))
            case Fail(failure=failure):
                given = codec.encode(Failure(**failure.to_wire()).to_wire())
                self._finish(calls.FinalReport(by, CallStatus.FAILED, given, code=failure.code))
            case Cancel(reason=reason):
                given = codec.encode(Failure(code=CANCELLED_BY_APP, message=reason or "").to_wire())
                self._finish(calls.FinalReport(by, CallStatus.CANCELLED, given, code=CANCELLED_BY_APP))

    def _finish(self, report: calls.FinalReport) -> None:
        self._decide(calls.finish, report, report.by)

    def _decide(self, rule: Callable[[Transaction, A], Reported | Rejection], report: A, by: Reporter) -> None:
        def told(outcome: Reported | Rejection) -> None:
            if isinstance(outcome, Rejection):
                self._channel.tell(Decided(by.attempt_id, by.request_id, outcome))
            else:
                self._channel.tell(Decided(by.attempt_id, by.request_id, None, outcome.call_status))

        self._store.run(rule, report, told)

    # --- time and switches ---

    def _look_at(self, boot_s: float) -> None:
        """Wake up when something is due, if no earlier look is planned."""
        if boot_s < self._next_look_s:
            self._next_look_s = boot_s
            wait = min(_LATEST_LOOK_S, boot_s - self._clock.now().boot_s)
            self._timers.tell_after(wait, self._me, m.TimeUp())

    def _expire(self) -> None:
        self._next_look_s = float("inf")
        self._store.run(calls.expire_due, None, lambda outcome: self._me.tell(m.ExpiryDone(outcome)))

    def _sweep(self) -> None:
        """A timer that was lost, a suspended machine, a switch whose news got lost."""
        self._expire()
        self._store.run(agents.count_floods, None)
        self._store.run(agents.drop_unread, None)
        self._store.run(
            apps.current_inventory, None, lambda now: self._me.tell(now) if isinstance(now, Inventory) else None
        )

    def _compare(self, inventory: Inventory) -> None:
        if inventory.revision != self._inventory.revision or inventory.disabled != self._inventory.disabled:
            self._inventory = inventory
            self._gateway.tell(InventoryChanged(inventory))
