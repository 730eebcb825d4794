"""What is on the dashboard, and what an update does to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from miniapp_worker.sdk import CallFailed

ENDED: Final = frozenset({"completed", "cancelled", "failed"})


@dataclass(frozen=True, slots=True)
class Task:
    """One task, as agents and the person see it."""

    task_id: str
    title: str
    status: str
    """`pending`, `running`, or one of `ENDED`."""
    progress: float
    """Percent."""
    description: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    def summary(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class Board:
    """Tasks by id, each with the call that opened it.

    Ended ones stay until the process ends: an update that was interrupted is served again, and must find what it did.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._opened_by: dict[str, str] = {}

    def open(self, call_id: str, asked: Mapping[str, Any], reported: Mapping[str, Any] | None) -> Task:
        """Put a task up. `reported` is the summary that this call reported last, if it was served before.

        Raises:
            CallFailed: a task of that id is open.

        """
        task_id = asked["task_id"]
        present = self._tasks.get(task_id)
        if present is not None and not present.has_ended:
            raise CallFailed("app.task_already_open", "a task of this id is open already")
        task = Task(task_id, asked["title"], asked.get("status", "pending"), 0, asked.get("description"))
        if reported:
            known = reported.get("description", task.description)
            task = replace(task, status=reported["status"], progress=reported["progress"], description=known)
        self._tasks[task_id] = task
        self._opened_by[task_id] = call_id
        return task

    def update(self, asked: Mapping[str, Any], *, repeated: bool) -> Task:
        """Change a task; a first progress sets a pending one running. `repeated`: it may have been done already.

        Raises:
            CallFailed: there is nothing to change, or no such task is open.

        """
        if "progress" not in asked and "status" not in asked:
            raise CallFailed("app.nothing_to_update", "give progress, status, or both")
        task = self._tasks.get(asked["task_id"])
        if task is None:
            raise CallFailed("app.task_not_found", "no task of this id is open")
        status = asked.get("status", "running" if task.status == "pending" else task.status)
        changed = replace(task, status=status, progress=asked.get("progress", task.progress))
        if task.has_ended:
            if repeated and changed == task:
                return task
            raise CallFailed("app.task_not_found", "no task of this id is open")
        self._tasks[task.task_id] = changed
        return changed

    def describe(self, task_id: str, description: str) -> Task:
        """Say what a task is about."""
        self._tasks[task_id] = replace(self._tasks[task_id], description=description)
        return self._tasks[task_id]

    def open_tasks(self) -> list[Task]:
        """Those that have not ended, oldest first."""
        return [task for task in self._tasks.values() if not task.has_ended]

    def call_of(self, task_id: str) -> str:
        """The call that opened the task."""
        return self._opened_by[task_id]

    def has_call(self, call_id: str) -> bool:
        """Whether the call opened a task that is still open."""
        return any(not self._tasks[task_id].has_ended for task_id in self._opened_with(call_id))

    def end_call(self, call_id: str) -> None:
        """The call of a task ended before the task: it is cancelled."""
        for task_id in self._opened_with(call_id):
            task = self._tasks[task_id]
            if not task.has_ended:
                self._tasks[task_id] = replace(task, status="cancelled")

    def _opened_with(self, call_id: str) -> list[str]:
        return [task_id for task_id, opened_by in self._opened_by.items() if opened_by == call_id]
