"""What hosts, MiniApps and the listings say about questions, surfaces and grants, against the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from runtime_actors.checker.chain import Entry, digest_of
from runtime_actors.checker.evidence import Row
from runtime_actors.checker.history import Given
from runtime_actors.checker.model import Place, Question, Surface
from runtime_actors.checker.model_people import POLICY
from runtime_actors.checker.run import Operation, Run, number_of
from runtime_actors.checker.violation import Violation

GRACE_S: Final = 5.0
"""A question may be open for so long after its time: a look has to come round."""
_WORDS: Final = frozenset({"host.answer", "host.dismiss"})
_LATE: Final = "interaction_already_final"


def check_people(run: Run) -> Iterator[Violation]:
    """Everything between apps and people."""
    yield from _answers(run)
    yield from _told(run)
    yield from _folds(run)
    yield from _open_questions(run)
    yield from _open_surfaces(run)
    yield from _grants(run)


# --- questions ---


def _answers(run: Run) -> Iterator[Violation]:
    """What a host was told about its answers."""
    taken: dict[str, Operation] = {}
    for one in run.operations.values():
        if one.asked.kind not in _WORDS or one.answer is None:
            continue
        name = one.asked.body["interaction_id"]
        question = run.model.questions.get(name)
        ended = None if question is None else question.ended
        if one.outcome == "ok" and ended is None:
            yield Violation("ok-missing", _name(name), "an answer was taken, and it has not ended", one.rows)
        elif one.outcome == "ok" and ended is not None:
            if not one.answer.body.get("repeated"):
                first = taken.setdefault(name, one)
                if first is not one and _request(first) != _request(one):
                    shown = (*first.rows, *one.rows)
                    yield Violation("second-answer", _name(name), "two answers were taken", shown)
            yield from _is_how_it_ended(name, one, ended)
        elif one.answer.code == _LATE and ended is None:
            yield Violation("answer-disagrees", _name(name), "it is said to be final, and is open", one.rows)


def _request(one: Operation) -> object:
    """One request has one name, however often it is sent."""
    return one.asked.body, one.asked.row.get("request_id", one.asked.id)


def _is_how_it_ended(name: str, one: Operation, ended: Entry) -> Iterator[Violation]:
    body = one.asked.body
    given = {key: body[key] for key in ("approved", "acknowledged") if body.get(key) is not None}
    fits = not given or digest_of(given) == ended.digest
    if one.asked.kind == "host.answer" and (ended.detail["path"][-1] != "completed" or not fits):
        message = f"this answer was taken, and it ended by way of {ended.detail['path']} with another"
        yield Violation("answer-disagrees", _name(name), message, (*one.rows, ended.row))


def _told(run: Run) -> Iterator[Violation]:
    """Whom MiniApps say that a question was theirs, and how it ended."""
    for one in run.of(Given):
        if one.interaction_id is None:
            continue
        put = run.model.put.get((Place(one.conversation, one.scope), number_of(one.message_id)))
        question = run.model.questions.get(one.interaction_id)
        ended = None if question is None else question.ended
        if question is None or ended is None or not _is_its(one, question, None if put is None else put.entry):
            shown = (one.row,) if ended is None else (ended.row, one.row)
            yield Violation("result-astray", _name(one.interaction_id), "its end was told to somebody else", shown)
        elif one.result is not None and digest_of(one.result) != ended.digest:
            yield Violation("result-astray", _name(one.interaction_id), "another result was told", (ended.row, one.row))


def _is_its(one: Given, question: Question, put: Entry | None) -> bool:
    """An SDK that acknowledges by itself does not say which message it was."""
    place = Place(one.conversation, one.scope)
    return question.source != POLICY and question.place == place and (one.message_id is None or put is question.ended)


def _open_questions(run: Run) -> Iterator[Violation]:
    if "interactions" not in run.listings:
        return
    rows = {row["interaction"]["interaction_id"]: row for row in run.listings["interactions"]}
    for name, question in run.model.asked.items():
        row = rows.pop(name, None)
        if row is None:
            yield Violation("questions-differ", _name(name), "it is missing", (question.opened.row,))
        elif row["interaction"]["status"] != question.status:
            message = f"it is shown as {row['interaction']['status']}, and the log says {question.status}"
            yield Violation("questions-differ", _name(name), message, (question.opened.row, row))
        else:
            yield from _is_overdue(run, name, row)
            yield from _keeps_draft(run, name, question, row)
    for name, row in rows.items():
        yield Violation("questions-differ", _name(name), "it is there, and should not be", (row,))


def _is_overdue(run: Run, name: str, row: Row) -> Iterator[Violation]:
    until = row["interaction"].get("expires_at")
    if until is None or not run.entries:
        return
    late_s = (_time(run.entries[-1].row["at"]) - _time(until)).total_seconds()
    if late_s > GRACE_S and run.has_drained:
        yield Violation("overdue", _name(name), f"it is open {late_s:.1f} s after its time", (row,))


def _keeps_draft(run: Run, name: str, question: Question, row: Row) -> Iterator[Violation]:
    """The newest draft that was receipted is there, or a newer one."""
    kept = [
        one
        for one in run.operations.values()
        if one.asked.kind == "host.draft" and one.asked.body["interaction_id"] == name
    ]
    receipted = [one.asked.body["sequence"] for one in kept if one.outcome == "ok"]
    if not receipted:
        return
    newer = [one for one in kept if one.asked.body["sequence"] >= max(receipted) and one.outcome != "fail"]
    if all(one.asked.body["values"] != row.get("draft") for one in newer):
        shown = (question.opened.row, *newer[0].rows, row)
        yield Violation("questions-differ", _name(name), "its newest draft was lost", shown)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _name(interaction_id: str) -> str:
    return f"question {interaction_id}"


# --- surfaces ---


def merged(state: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON
    """The patch applied: RFC 7396, section 2."""
    if not isinstance(patch, Mapping):
        return patch
    made = dict(state) if isinstance(state, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made


def _folds(run: Run) -> Iterator[Violation]:
    """As far as the requests that made a surface what it is are known."""
    begun: dict[str, Operation] = {}
    patches: dict[str, list[Operation]] = defaultdict(list)
    for one in run.operations.values():
        if one.asked.kind == "surfaces.open" and one.outcome == "ok" and one.answer is not None:
            begun.setdefault(one.answer.body["surface_id"], one)
        elif one.asked.kind == "surfaces.update" or (
            one.asked.kind == "host.surface" and one.asked.body["op"] == "update"
        ):
            patches[one.asked.body["surface_id"]].append(one)
    for name, surface in run.model.surfaces.items():
        for one in patches[name]:
            yield from _receipted(name, surface, one)
        if name in begun:
            yield from _fold(name, surface, begun[name], patches[name])


def _receipted(name: str, surface: Surface, one: Operation) -> Iterator[Violation]:
    """A revision that somebody was told of is there."""
    if one.outcome == "ok" and _revision(one) > surface.revision:
        message = f"revision {_revision(one)} was receipted, and it has {surface.revision}"
        yield Violation("ok-missing", f"surface {name}", message, (*one.rows, surface.opened.row))


def _fold(name: str, surface: Surface, begun: Operation, patches: list[Operation]) -> Iterator[Violation]:
    state = begun.asked.body["surface"].get("state", {})
    if digest_of(state) != surface.digests[1]:
        yield Violation("surface-unfolded", f"surface {name}", "it began as something else", begun.rows)
        return
    for revision in range(2, surface.revision + 1):
        wanted = surface.digests.get(revision)
        if wanted is None:
            return  # one of a flood, which has no entry
        known = [one for one in patches if one.outcome == "ok" and _revision(one) == revision]
        possible = [*known, *(one for one in patches if one.outcome == "info")]
        made = [merged(state, one.asked.body["patch"]) for one in possible]
        fits = [one for one in made if digest_of(one) == wanted]
        if fits:
            state = fits[0]
            continue
        if known:
            message = f"revision {revision} is not what this patch makes of the one before"
            yield Violation("surface-unfolded", f"surface {name}", message, known[0].rows)
        return


def _revision(one: Operation) -> int:
    body: Row = {} if one.answer is None else one.answer.body
    return int(body.get("data", body).get("revision") or 0)


def _open_surfaces(run: Run) -> Iterator[Violation]:
    if "surfaces" not in run.listings:
        return
    rows = {row["surface_id"]: row for row in run.listings["surfaces"]}
    for name, surface in run.model.shown.items():
        row = rows.pop(name, None)
        if row is None:
            yield Violation("surfaces-differ", f"surface {name}", "it is missing", (surface.opened.row,))
        elif surface.revision in surface.digests:
            yield from _is_shown(name, surface, row)
    for name, row in rows.items():
        yield Violation("surfaces-differ", f"surface {name}", "it is there, and should not be", (row,))


def _is_shown(name: str, surface: Surface, row: Row) -> Iterator[Violation]:
    in_flood = row["revision"] > surface.revision and surface.changes
    same = digest_of(row["state"]) == surface.digests[surface.revision]
    if not in_flood and (row["revision"] != surface.revision or not same):
        message = f"it is shown with revision {row['revision']}, and the log says {surface.revision}"
        yield Violation("surfaces-differ", f"surface {name}", message, (surface.opened.row, row))


# --- grants ---


def _grants(run: Run) -> Iterator[Violation]:
    if "grants" not in run.listings:
        return
    rows = {row["grant_id"]: row for row in run.listings["grants"]}
    for name, grant in run.model.grants.items():
        row = rows.pop(name, None)
        if grant.status not in {"asking", "granted"}:
            if row is not None and row["status"] in {"asking", "granted"}:
                yield Violation("grants-differ", f"grant {name}", "it is in force, and should not be", (row,))
        elif row is None or row["status"] not in {grant.status, "expired"}:  # its time may be over since
            shown = (grant.asked.row,) if row is None else (grant.asked.row, row)
            yield Violation("grants-differ", f"grant {name}", f"the log says {grant.status}", shown)
    for name, row in rows.items():
        yield Violation("grants-differ", f"grant {name}", "nobody was asked for it", (row,))
