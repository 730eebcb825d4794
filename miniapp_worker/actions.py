"""`sdk.actions`: what a person does to the app in a host."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection

from miniapp_worker.listeners import Listener, Listeners, Unsubscribe
from runtime_actors.contract.inbox import MiniAppMessage
from runtime_actors.contract.lifecycle import ActionKind, RuntimeAction


class MiniAppActions:
    """Runtime Actions, each kept by the runtime until this app has taken it over."""

    def __init__(self, actions: Listeners[MiniAppMessage], acknowledge: Callable[[str], Awaitable[object]]) -> None:
        self._actions = actions
        self._acknowledge = acknowledge
        # An app that does not ask for it knows from its context: it must not stay awake for an action it ignores.
        self.subscribe(lambda _: None, kinds=["focus"])

    def subscribe(
        self, listener: Listener[RuntimeAction], *, kinds: Collection[ActionKind] | None = None
    ) -> Unsubscribe:
        """Be told of each action, or of those of some kinds. It is acknowledged when the listener is through.

        What came before the first subscription is handed over at once. What a listener raises goes to the log; the
        action stays unacknowledged and comes again after a restart, as does one that was interrupted: a listener may
        see an action twice, under the same `action_id`.
        """

        async def take(message: MiniAppMessage) -> None:
            assert message.action is not None  # noqa: S101 - `wants` says so
            outcome = listener(message.action)
            if inspect.isawaitable(outcome):
                await outcome
            await self._acknowledge(message.message_id)

        def wants(message: MiniAppMessage) -> bool:
            return message.action is not None and (kinds is None or message.action.kind in kinds)

        return self._actions.subscribe(take, wants)
