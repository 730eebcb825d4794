"""The schema, step by step. A store of an older version is brought up in one transaction; a newer one is refused."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from runtime_actors.contract.interactions import InteractionStatus
from runtime_actors.contract.tools import CallStatus
from runtime_actors.errors import StoreUnusable
from runtime_actors.rules.instances import LIVE, AttemptState, InstanceState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlite_utils import Database


def _one_of(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


_FIRST: Final = f"""
create table agents (
    agent_id text primary key, token_hash blob not null, public_key text, last_number integer not null default 0,
    unsettled integer not null default 0, created_at text not null) strict;
create table conversations (
    conversation_id text primary key, agent_id text not null references agents, created_at text not null) strict;
create table switched_off (kind text not null check (kind in ('app', 'tool')), name text not null,
    primary key (kind, name)) strict, without rowid;
create table instances (
    instance_id text primary key, conversation_id text not null references conversations, app_scope text not null,
    app_version text not null, state text not null check (state in ({_one_of(InstanceState)})), end_reason text,
    created_at text not null, updated_at text not null) strict;
create unique index one_live_instance on instances (conversation_id, app_scope)
    where state in ({_one_of(sorted(LIVE))});
create index unfinished_instances on instances (state) where state not in ('closed', 'failed');
create table focus (conversation_id text primary key references conversations, stack text not null) strict;
create table attempts (
    attempt_id text primary key, instance_id text not null references instances,
    state text not null check (state in ({_one_of(AttemptState)})), pid integer, level text, snapshot blob,
    end_reason text, unexpected integer not null default 0, started_at text not null, started_boot_s real not null,
    ended_boot_s real, ended_at text) strict;
create index attempts_of on attempts (instance_id, started_boot_s);
create index running_attempts on attempts (state) where state <> 'ended';
create table calls (
    seq integer primary key, agent_id text not null, conversation_id text not null references conversations,
    call_id text not null, tool_id text not null, inventory_revision text not null, app_scope text not null,
    instance_id text references instances, status text not null check (status in ({_one_of(CallStatus)})),
    input blob not null, digest blob not null, result blob, error_code text, failure blob, progress blob,
    cancel_requested integer not null default 0, crashes integer not null default 0,
    refused_outputs text not null default '', fails_on_interruption integer not null default 0, handling text not null,
    fronted_over text, deadline_boot_s real not null, deadline_wall_s real not null, due_boot_s real,
    created_at text not null, updated_at text not null,
    unique (agent_id, conversation_id, call_id)) strict;
create index calls_of_worker on calls (call_id, instance_id);
create index open_calls on calls (instance_id, seq) where due_boot_s is not null;
create index due_calls on calls (due_boot_s) where due_boot_s is not null;
create table inboxes (conversation_id text not null, app_scope text not null, last_number integer not null,
    primary key (conversation_id, app_scope)) strict, without rowid;
create table inbox (
    conversation_id text not null, app_scope text not null, number integer not null,
    kind text not null check (kind in ('tool.call', 'message')), agent_id text not null, call_id text,
    body blob not null, repeated integer not null default 0, created_at text not null,
    primary key (conversation_id, app_scope, number)) strict;
create index message_of_call on inbox (conversation_id, call_id) where call_id is not null;
create table received_messages (
    agent_id text not null, conversation_id text not null, message_id text not null, digest blob not null,
    created_at text not null, primary key (agent_id, conversation_id, message_id)) strict, without rowid;
create table outbox (
    agent_id text not null references agents, number integer not null, conversation_id text not null,
    kind text not null check (kind in ('lineup.v1.tool.progress', 'lineup.v1.tool.result')), call_id text not null,
    frame blob not null, created_at text not null, created_wall_s real not null,
    primary key (agent_id, number)) strict;
create index progress_of_call on outbox (agent_id, conversation_id, call_id) where kind = 'lineup.v1.tool.progress';
create index old_deliveries on outbox (created_wall_s);
create table audit (
    seq integer primary key, at text not null, event text not null, subject blob not null, detail blob not null,
    digest blob not null, head blob not null) strict;
create table set_aside (
    id integer primary key, actor text not null, message text not null, error text not null, at text not null) strict;
create table counters (name text primary key, value integer not null) strict, without rowid;
insert into counters values ('open_calls', 0);
create trigger call_opened after insert on calls when new.due_boot_s is not null
    begin update counters set value = value + 1 where name = 'open_calls'; end;
create trigger call_ended after update of due_boot_s on calls when old.due_boot_s is not null and new.due_boot_s is null
    begin update counters set value = value - 1 where name = 'open_calls'; end;
create trigger delivery_posted after insert on outbox
    begin update agents set unsettled = unsettled + 1 where agent_id = new.agent_id; end;
create trigger delivery_settled after delete on outbox
    begin update agents set unsettled = unsettled - 1 where agent_id = old.agent_id; end;
create table meta (name text primary key, value text not null) strict, without rowid;
"""  # noqa: S608 - our own words

_FEWER_PAGES: Final = """
drop index calls_of_worker;
drop trigger call_opened;
drop trigger call_ended;
drop table counters;
alter table agents add column open_calls integer not null default 0;
update agents set open_calls = (
    select count(*) from calls where calls.agent_id = agents.agent_id and due_boot_s is not null);
create trigger call_opened after insert on calls when new.due_boot_s is not null
    begin update agents set open_calls = open_calls + 1 where agent_id = new.agent_id; end;
create trigger call_ended after update of due_boot_s on calls when old.due_boot_s is not null and new.due_boot_s is null
    begin update agents set open_calls = open_calls - 1 where agent_id = new.agent_id; end;
alter table calls add column message integer;
update calls set message = (
    select number from inbox where inbox.conversation_id = calls.conversation_id and inbox.call_id = calls.call_id
        and inbox.agent_id = calls.agent_id)
    where due_boot_s is not null;
drop index message_of_call;
alter table inbox rename to inbox_with_rowid;
create table inbox (
    conversation_id text not null, app_scope text not null, number integer not null,
    kind text not null check (kind in ('tool.call', 'message')), agent_id text not null, call_id text,
    body blob not null, repeated integer not null default 0, created_at text not null,
    primary key (conversation_id, app_scope, number)) strict, without rowid;
insert into inbox select * from inbox_with_rowid;
drop table inbox_with_rowid;
create trigger message_put after insert on inbox begin
    insert or replace into inboxes values (new.conversation_id, new.app_scope, new.number);
end;
drop trigger delivery_posted;
drop trigger delivery_settled;
drop index progress_of_call;
drop index old_deliveries;
alter table outbox rename to outbox_with_rowid;
create table outbox (
    agent_id text not null references agents, number integer not null, conversation_id text not null,
    kind text not null check (kind in ('lineup.v1.tool.progress', 'lineup.v1.tool.result')), call_id text not null,
    created_at text not null, created_wall_s real not null, frame blob not null,
    primary key (agent_id, number)) strict, without rowid;
insert into outbox select agent_id, number, conversation_id, kind, call_id, created_at, created_wall_s, frame
    from outbox_with_rowid;
drop table outbox_with_rowid;
create index progress_of_call on outbox (agent_id, conversation_id, call_id) where kind = 'lineup.v1.tool.progress';
create trigger delivery_posted after insert on outbox begin
    update agents set unsettled = unsettled + 1, last_number = new.number where agent_id = new.agent_id;
end;
create trigger delivery_settled after delete on outbox
    begin update agents set unsettled = unsettled - 1 where agent_id = old.agent_id; end;
"""
"""A commit writes whole pages: what a call needs stands in as few of them as can be."""

_OPEN: Final = "status in ('pending', 'presented', 'submitted')"
_PEOPLE: Final = f"""
create table interactions (
    interaction_id text primary key, instance_id text references instances,
    conversation_id text not null references conversations, app_scope text not null, agent_id text,
    parent_call_id text, surface_id text, key text,
    source text not null check (source in ('agent_tool', 'miniapp_tool', 'runtime_policy')),
    kind text not null check (kind in ('notice', 'choice', 'confirm', 'input')), request blob not null,
    presentation text not null check (presentation in ('default', 'inline', 'modal')),
    status text not null check (status in ({_one_of(InteractionStatus)})), result blob, draft blob,
    draft_sequence integer not null default -1, reason text,
    listed_until text, purpose blob, request_id text, settled integer not null default 0, created_at text not null,
    updated_at text not null, expires_at text, expires_wall_s real) strict;
create unique index interaction_of_request on interactions (instance_id, request_id) where request_id is not null;
create unique index interaction_of_key on interactions (instance_id, coalesce(parent_call_id, ''), key)
    where key is not null;
create index open_interactions on interactions (instance_id) where {_OPEN};
create index unsettled_interactions on interactions (app_scope) where not settled;
create index settled_interactions on interactions (instance_id) where settled;
create index questions_of_call on interactions (conversation_id, parent_call_id)
    where parent_call_id is not null and {_OPEN};
create index due_interactions on interactions (expires_wall_s) where expires_wall_s is not null and {_OPEN};
create table surfaces (
    surface_id text primary key, instance_id text not null references instances,
    conversation_id text not null references conversations, app_scope text not null, call_id text, key text,
    digest blob not null, kind text not null, title text not null, state blob not null, revision integer not null,
    status text not null check (status in ('open', 'closed')), created_at text not null,
    updated_at text not null) strict;
create unique index surface_of_key on surfaces (instance_id, coalesce(call_id, ''), key) where key is not null;
create index open_surfaces on surfaces (instance_id) where status = 'open';
alter table calls add column surfaces integer not null default 0;
create table artifacts (
    artifact_id text primary key, instance_id text not null references instances,
    conversation_id text not null references conversations, app_scope text not null, call_id text, name text not null,
    media_type text not null, size integer not null, sha256 text not null, received integer not null default 0,
    status text not null check (status in ('receiving', 'complete')), created_at text not null) strict;
create index artifacts_of on artifacts (instance_id, sha256);
create index unfinished_artifacts on artifacts (created_at) where status = 'receiving';
create table artifact_sums (
    conversation_id text primary key, artifacts integer not null, bytes integer not null) strict, without rowid;
create trigger artifact_begun after insert on artifacts begin
    insert into artifact_sums values (new.conversation_id, 1, new.size), ('', 1, new.size)
        on conflict (conversation_id) do update set artifacts = artifacts + 1, bytes = bytes + excluded.bytes;
end;
create trigger artifact_dropped after delete on artifacts begin
    update artifact_sums set artifacts = artifacts - 1, bytes = bytes - old.size
        where conversation_id in (old.conversation_id, '');
end;
create table artifact_chunks (artifact_id text not null references artifacts, start integer not null,
    content blob not null, primary key (artifact_id, start)) strict, without rowid;
create table hosts (
    host text not null, nonce text not null, peer integer, surfaces integer not null, on_screen text,
    gone_wall_s real, primary key (host, nonce)) strict, without rowid;
create table host_requests (
    host text not null, nonce text not null, request_id text not null, digest blob not null, answer blob not null,
    at_wall_s real not null, primary key (host, nonce, request_id)) strict, without rowid;
create index old_host_requests on host_requests (at_wall_s);
create table actions (
    action_id text primary key, instance_id text not null references instances, conversation_id text not null,
    app_scope text not null, kind text not null, message integer,
    status text not null check (status in ('waiting', 'acknowledged', 'withdrawn')),
    sent integer not null default 0, hanging integer not null default 0, due_boot_s real,
    created_at text not null) strict;
create index waiting_actions on actions (conversation_id, app_scope) where status = 'waiting';
create table receipts (
    attempt_id text not null, request_id text not null, number integer not null, kind text not null,
    body blob not null, primary key (attempt_id, request_id)) strict, without rowid;
create table grants (
    grant_id text primary key, app_scope text not null, conversation_id text not null, capability text not null,
    span text not null check (span in ('once', 'always')),
    status text not null check (status in ('asking', 'granted', 'denied', 'used', 'revoked', 'expired')),
    instance_id text references instances, call_id text, interaction_id text not null, reason text, lasts_s integer,
    declined_wall_s real, expires_at text, expires_wall_s real, created_at text not null,
    updated_at text not null) strict;
create index grants_of_app on grants (app_scope, conversation_id, capability);
create index grants_of_question on grants (interaction_id) where status = 'asking';
create table host_events (
    number integer primary key autoincrement, at text not null, conversation_id text not null, kind text not null,
    subject text not null, data blob not null) strict;
create index changes_of_surface on host_events (subject) where kind = 'surface.changed';
create index openings_of_surface on host_events (subject) where kind = 'surface.opened';
alter table calls add column remaining_s real;
alter table calls add column questions integer not null default 0;
alter table instances add column put_off_until_s real;
drop trigger message_put;
alter table inbox rename to inbox_of_two_kinds;
create table inbox (
    conversation_id text not null, app_scope text not null, number integer not null,
    kind text not null check (kind in ('tool.call', 'message', 'interaction', 'action', 'capability')),
    agent_id text not null, call_id text, body blob not null, repeated integer not null default 0,
    created_at text not null, primary key (conversation_id, app_scope, number)) strict, without rowid;
insert into inbox select * from inbox_of_two_kinds;
drop table inbox_of_two_kinds;
create trigger message_put after insert on inbox begin
    insert or replace into inboxes values (new.conversation_id, new.app_scope, new.number);
end;
drop trigger delivery_posted;
drop trigger delivery_settled;
drop index progress_of_call;
alter table outbox rename to outbox_of_calls;
create table outbox (
    agent_id text not null references agents, number integer not null, conversation_id text not null,
    kind text not null check (kind in ('lineup.v1.tool.progress', 'lineup.v1.tool.result', 'lineup.v1.text')),
    call_id text, created_at text not null, created_wall_s real not null, frame blob not null,
    primary key (agent_id, number)) strict, without rowid;
insert into outbox select * from outbox_of_calls;
drop table outbox_of_calls;
create index progress_of_call on outbox (agent_id, conversation_id, call_id) where kind = 'lineup.v1.tool.progress';
create trigger delivery_posted after insert on outbox begin
    update agents set unsettled = unsettled + 1, last_number = new.number where agent_id = new.agent_id;
end;
create trigger delivery_settled after delete on outbox
    begin update agents set unsettled = unsettled - 1 where agent_id = old.agent_id; end;
"""  # noqa: S608 - our own words
"""What people are asked and shown, what they did, and what they allowed."""

MIGRATIONS: Final = (_FIRST, _FEWER_PAGES, _PEOPLE)
"""One script a version, oldest first. A script that was released is never changed."""


def migrate(db: Database, migrations: Sequence[str] = MIGRATIONS) -> int:
    """Bring the schema up to date, all steps in one transaction; the version found is returned (0 for a new store).

    Raises:
        StoreUnusable: The store was written by a newer runtime, or is another program's.

    """
    found = int(db.execute("pragma user_version").fetchone()[0])
    if not 0 <= found <= len(migrations):
        detail = (
            f"the store has schema version {found}, this runtime knows {len(migrations)}. "
            "Use the newer runtime, or restore a backup made with this one"
        )
        raise StoreUnusable(detail)
    if found == 0 and db.execute("select 1 from sqlite_master").fetchone() is not None:
        raise StoreUnusable("the file in the store's place is a database of another program; move it away")
    if found < len(migrations):
        db.execute("begin immediate")
        try:
            for script in migrations[found:]:
                for statement in _statements(script):
                    db.execute(statement)
            db.execute(f"pragma user_version = {len(migrations)}")
            db.execute("commit")
        except BaseException:
            if db.conn.in_transaction:
                db.execute("rollback")
            raise
    return found


def _statements(script: str) -> Iterator[str]:
    """A script's statements; those of a trigger's body belong to the trigger. Each ends at the end of a line."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
