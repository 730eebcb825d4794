"""The other side of `warm`: a process of collected tests, and what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from tests.mutants.tree import Tree
from tests.mutants.trial import NOT_RUN, End, Outcome, environment, finish
from tests.mutants.warm import ANSWERS, COLD, ORDERS, Answer, Order


class NotCollected(Exception):
    """The tests cannot be collected."""


class Nursery:
    """Tests of one tree, collected and waiting."""

    def __init__(self, orders: TextIO, answers: TextIO) -> None:
        self._orders, self._answers = orders, answers

    def ask(self, texts: Mapping[str, str], tests: Sequence[str], *, limit_s: float = 120.0) -> Outcome | None:
        """What the tests say about a tree in which files hold `texts`; None if it has to be tried cold.

        Raises:
            NotCollected: There is no process any more, or never was.

        """
        begun = time.monotonic()
        try:
            self._orders.write(json.dumps(asdict(Order(dict(texts), list(tests), limit_s))) + "\n")
            self._orders.flush()
        except BrokenPipeError:
            raise NotCollected from None
        line = self._answers.readline()
        if not line:
            raise NotCollected
        answer = Answer(**json.loads(line))
        if answer.end == COLD:
            return None
        end = End.BROKEN if answer.error in NOT_RUN else End(answer.end)
        return Outcome(end, time.monotonic() - begun, answer.test, answer.error, answer.says)


@contextmanager
def collected(tree: Tree, tests: Sequence[str]) -> Iterator[Nursery]:
    """Collect files, or node ids, of a tree; the process ends with this."""
    (order_out, order_in), (answer_out, answer_in) = os.pipe(), os.pipe()
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-n0", "-p", "no:cacheprovider", "--timeout=40"]
    command += ["-p", "tests.mutants.finding", "-p", "tests.mutants.warm", *tests]
    given = environment(tree, Path(os.devnull)) | {ORDERS: str(order_out), ANSWERS: str(answer_in)}
    with open(os.devnull, "w", encoding="utf-8") as nothing:  # noqa: PTH123 - no path of ours
        process = subprocess.Popen(
            command,
            cwd=tree.root,
            env=given,
            pass_fds=(order_out, answer_in),
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
    os.close(order_out)
    os.close(answer_in)
    try:
        with os.fdopen(order_in, "w") as orders, os.fdopen(answer_out) as answers:
            yield Nursery(orders, answers)
    finally:
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        finish(process)
