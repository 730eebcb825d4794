"""All rules over one run."""

from __future__ import annotations

from collections.abc import Iterator

from runtime_actors.checker.chain import check_chain, check_marks
from runtime_actors.checker.deliveries import check_deliveries
from runtime_actors.checker.evidence import Evidence, Unreadable
from runtime_actors.checker.inboxes import check_messages, check_work
from runtime_actors.checker.operations import Deeds, check_operations, check_refusals
from runtime_actors.checker.people import check_people
from runtime_actors.checker.reads import check_reads
from runtime_actors.checker.run import Run
from runtime_actors.checker.tables import check_ends, check_tables
from runtime_actors.checker.violation import Violation
from runtime_actors.checker.witness import check_steps


def violations(seen: Evidence) -> list[Violation]:
    """Every rule of `RULES` that does not hold, for whom and why; empty when all hold.

    Raises:
        Unreadable: the evidence is not as docs/history.md says.

    """
    try:
        return list(_found(seen))
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a body that is not as the protocol says
        raise Unreadable(f"a body or a row is not as it should be: {type(error).__name__} {error}") from error


def _found(seen: Evidence) -> Iterator[Violation]:
    run = Run(seen)
    deeds = Deeds(run)
    yield from check_chain(run)
    yield from check_marks(run)
    yield from check_steps(run)
    yield from check_operations(run, deeds)
    yield from check_refusals(run)
    yield from check_deliveries(run)
    yield from check_messages(run)
    yield from check_work(run)
    yield from check_reads(run, deeds)
    yield from check_people(run)
    yield from check_tables(run)
    yield from check_ends(run)
