"""What the checker can find, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from runtime_actors.checker.evidence import Row

RULES: Final[Mapping[str, str]] = {
    # the chain
    "chain-broken": "entries of the audit log are numbered without a gap, and each matches its hash",
    "mark-off-chain": "every place on the chain that anybody was told lies on it: nothing was cut off or rewritten",
    # the log as the total order, replayed
    "illegal-step": "each entry is a legal step from the state that the entries before it lead to",
    "second-end": "a call ends once",
    "second-record": "a call or a text is recorded once",
    # what clients did, against the log
    "ok-missing": "what was answered with ok is in the log",
    "fail-present": "what was refused is not in the log, but for the entry that says so",
    "from-nowhere": "nothing is in the log as a client's that it never asked for",
    "time-order": "what began after something else was answered comes behind it in the log",
    "answer-disagrees": "an answer says what the log says at its place",
    "refusal-unnoted": "a refused call or text has an entry that says so",
    # queues
    "result-lost": "each ended call of an agent that listens has its result delivered",
    "result-twice": "a call has one result",
    "copies-differ": "all copies of a delivery are the same bytes",
    "delivery-unexpected": "nothing is delivered that the log does not post to that agent, under that number",
    "delivery-order": "first copies of an agent's deliveries come in the order of their numbers, in each conversation",
    "settle-unexpected": "no delivery is settled that its agent did not acknowledge",
    "message-unexpected": "a MiniApp is given nothing that the log does not put into the inbox of its instance",
    "message-order": "a process is given the texts, and the calls of each tool, in the order of their numbers",
    "message-after-ack": "a message whose acknowledgement was answered is never given again",
    "ran-twice": "a tool that must not run twice is given to one process",
    "result-unmade": "a completed call has a result that its app made",
    # what is read about calls
    "stale-read": "a read shows nothing older than what was known when it began",
    "final-changed": "once a call was read as final, no later read shows anything else",
    "end-disagrees": "the end that a client reads is the one that was recorded, to the byte",
    # apps and people
    "second-answer": "a question has one answer at most, and ends once",
    "result-astray": "the end of a question is told to its owner, to the byte, and to nobody else",
    "orphaned": "no question and no surface is open longer than its call, or its owner",
    "overdue": "no question is open long after its time is over",
    "clock-ran": "no call runs out of time while it waits for a person",
    "asleep-at-work": "no instance is suspended over a call that waits for nobody",
    "floor-lost": "once there is a chat instance, it lies at the bottom of its conversation's stack",
    "surface-unfolded": "the state of a surface is the fold of its patches in the order of their revisions",
    "grant-from-nowhere": "nothing is permitted without a rule or a person, and nothing of the closed list ever",
    # the records
    "calls-differ": "the table of calls is what the log adds up to",
    "inbox-differs": "the inboxes are what the log adds up to",
    "outbox-differs": "the outboxes are what the log adds up to",
    "instances-differ": "the instances and their processes are what the log adds up to",
    "focus-differs": "the focus stacks are what the log adds up to",
    "questions-differ": "the questions that are open are what the log adds up to",
    "surfaces-differ": "the surfaces that are open are what the log adds up to, to the byte",
    "grants-differ": "the grants in force are what the log adds up to",
    "counts-differ": "the counters are what the records add up to",
    # liveness
    "never-ended": "every accepted call ends",
    "not-drained": "when faults stop, everything drains in the time allowed",
}
"""By name: what must hold."""

LIVENESS: Final = frozenset({"never-ended", "not-drained"})
"""Rules that say that something happens at last; all others say that something never happens."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, for whom, and the fewest lines that show it."""

    rule: str
    """A name of `RULES`."""
    subject: str
    message: str
    shortest: tuple[Row, ...] = ()
    """Lines of histories, entries and listings."""

    @property
    def is_liveness(self) -> bool:
        """Whether something did not happen, rather than something wrong did."""
        return self.rule in LIVENESS

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.message}"
