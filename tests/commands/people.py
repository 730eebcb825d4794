"""A catalogue with `chat`, and the store of a conversation that a person takes part in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgpack

from runtime_actors.commands import actions, instances
from runtime_actors.contract.lifecycle import RuntimeAction
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.rules.registration import RegisteredApp, register
from tests.fakes import BOARD, NOTES, TALK, a_manifest, an_app, some_records, some_settings

if TYPE_CHECKING:
    from runtime_actors.config import Bounds
    from runtime_actors.records.boxes import InboxRow
    from tests.fakes import Records

CHAT: Final = a_manifest("chat", kind="system", subscriptions=[{"type": "lineup.v1.message"}])


def a_system_app(manifest: dict[str, Any]) -> RegisteredApp:
    """One that came with the runtime, as only those may be of kind `system`."""
    app = register(manifest, f"/apps/{manifest['app_scope']}", packaged=True)
    assert isinstance(app, RegisteredApp), app
    return app


PEOPLE: Final = Catalogue.of([a_system_app(CHAT), an_app(BOARD), an_app(NOTES)])


def some_people(bounds: Bounds | None = None) -> Records:
    """A store whose catalogue has `chat`."""
    return some_records(some_settings(PEOPLE, bounds))


def a_chat(records: Records) -> str:
    """A `chat` instance in the conversation that an agent has opened."""
    return records.run(lambda tx, scope: instances.ensure(tx, TALK, scope), "chat").instance_id


def shown(records: Records, kind: str | None = None) -> list[dict[str, Any]]:
    """What hosts are told, oldest first."""
    rows = records.sql.execute("select kind, data from host_events order by number").fetchall()
    return [msgpack.unpackb(data) for one, data in rows if kind in {None, one}]


def action_of(row: InboxRow) -> RuntimeAction:
    """What a message of kind `action` says."""
    assert row.kind == "action"
    return RuntimeAction.model_validate(msgpack.unpackb(row.body))


def acted(records: Records, instance_id: str | None, action: Any = "close", **more: Any) -> str:  # noqa: ANN401 - a word
    """A person did this; the action's id is returned."""
    outcome = records.run(actions.act, actions.Act(instance_id or "", action, **more))
    assert isinstance(outcome, actions.Acted), outcome
    return outcome.action_id


def states_of(records: Records) -> dict[str, str]:
    """Every action and its status."""
    return dict(records.sql.execute("select action_id, status from actions").fetchall())
