"""The history checker: did a run keep what the runtime promises?

An independent witness. It reads what clients wrote down about a run, the audit log and the final listings, as
docs/history.md describes them, and imports nothing of the runtime: chain, lives of calls, inboxes and outboxes are
computed again here.

    seen = files.read(folder)
    for violation in violations(seen): ...
    vacuous(figures(seen), {"redelivered": 1})
"""

from runtime_actors.checker.evidence import Evidence, Row, Unreadable
from runtime_actors.checker.figures import figures, vacuous
from runtime_actors.checker.verdict import violations
from runtime_actors.checker.violation import LIVENESS, RULES, Violation

__all__ = ["LIVENESS", "RULES", "Evidence", "Row", "Unreadable", "Violation", "figures", "vacuous", "violations"]
