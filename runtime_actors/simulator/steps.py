"""The step language of scenarios (docs/simulator.md): one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from runtime_actors.contract.base import AgentName, CallId, ConversationId, JsonObject, MessageId, WireModel
from runtime_actors.contract.envelope import describe
from runtime_actors.contract.tools import CallStatus

Limit = Annotated[float, Field(ge=0, le=3600)]
Status = Annotated[CallStatus, Field(strict=False)]


class ScenarioInvalid(ValueError):
    """A line of a scenario that is no step."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}; the steps are described in docs/simulator.md")
        self.line = line


class _StepBase(WireModel):
    note: str | None = None
    """Shown with the step."""
    timeout_s: Limit = 10.0


class _AgentStep(_StepBase):
    as_: Annotated[AgentName, Field(alias="as")] = "local"
    conversation: ConversationId = "main"


class CallStep(_AgentStep):
    """Invoke a tool and look at the answer, not at the result."""

    do: Literal["call"]
    tool: str
    input: JsonObject = Field(default_factory=dict)
    call_id: CallId | None = None
    revision: str | None = None
    answer: str = "accepted"
    """What is expected: `accepted`, `repeated`, or the code of a refusal."""


class RepeatStep(_AgentStep):
    """Send the invocation of an earlier `call` step again, unchanged."""

    do: Literal["repeat"]
    call_id: CallId
    answer: str = "repeated"


class CancelStep(_AgentStep):
    do: Literal["cancel"]
    call_id: CallId
    reason: str | None = None
    answer: str = "accepted"


class SayStep(_AgentStep):
    do: Literal["say"]
    text: str
    to: str
    message_id: MessageId | None = None
    data: JsonObject | None = None
    answer: str = "accepted"


class WaitStep(_AgentStep):
    """Wait until a call has one of the statuses and its progress holds the members named."""

    do: Literal["wait"]
    call_id: CallId
    status: Status | Annotated[tuple[Status, ...], Field(strict=False, min_length=1)] | None = None
    """Without one (and without `progress`): any final status."""
    progress: JsonObject | None = None


class ExpectStep(_AgentStep):
    """Read a call's state and compare what is named."""

    do: Literal["expect"]
    call_id: CallId
    status: Status | None = None
    result: JsonObject | None = None
    error_code: str | None = None
    cancel_requested: bool | None = None


class FinishStep(_StepBase):
    """Wait until every call of the scenario is final, and check that each result was delivered exactly once."""

    do: Literal["finish"]


class KillStep(_StepBase):
    """Signal a process: that of an instance, of the scope's instance in a conversation, or the daemon.

    After SIGKILL the step ends when the process has ended, and for the daemon when the next one serves.
    """

    do: Literal["kill"]
    instance: str | None = None
    scope: str | None = None
    conversation: ConversationId = "main"
    daemon: bool = False
    signal: str = "SIGKILL"


class LeaveStep(_StepBase):
    """Close an agent's connection. Its next step attaches again."""

    do: Literal["leave"]
    as_: Annotated[AgentName, Field(alias="as")] = "local"


class SwitchStep(_StepBase):
    do: Literal["switch"]
    kind: Literal["app", "tool"]
    name: str
    enabled: bool


class _PersonStep(_StepBase):
    """What a person does at a screen. The host attaches with the first such step, and stays to the end."""

    conversation: ConversationId = "main"
    answer: str = "accepted"
    """What is expected: `accepted`, or the code of a refusal."""


class AttendStep(_PersonStep):
    """The person sits down. Apps that need a surface can be opened from here on."""

    do: Literal["attend"]


class _QuestionStep(_PersonStep):
    """About the oldest open question of the conversation that is as named; it is waited for."""

    scope: str | None = None
    """Of the app that asked."""
    kind: Literal["notice", "choice", "confirm", "input"] | None = None
    title: str | None = None


class AnswerStep(_QuestionStep):
    """Answer it: `give` is `{acknowledged}`, `{action_ids}`, `{approved}` or `{values}`."""

    do: Literal["answer"]
    give: JsonObject


class DismissStep(_QuestionStep):
    do: Literal["dismiss"]


class _InstanceStep(_PersonStep):
    """About an instance, or the scope's one in the conversation; it is waited for."""

    instance: str | None = None
    scope: str | None = None


class FrontStep(_InstanceStep):
    """Bring it to the front."""

    do: Literal["front"]


class CloseStep(_InstanceStep):
    """Wish for its end, or with `force` end it."""

    do: Literal["close"]
    force: bool = False


class SeeStep(_InstanceStep):
    """Wait until it is in a state."""

    do: Literal["see"]
    state: Literal["starting", "foreground", "background", "suspended"]


class WriteStep(_PersonStep):
    """Write a text into the conversation."""

    do: Literal["write"]
    text: str


class DrawStep(_PersonStep):
    """Do something on the surface of an app, as its own page would."""

    do: Literal["draw"]
    scope: str
    op: Literal["update", "submit", "ask"] = "update"
    patch: JsonObject | None = None
    data: JsonObject | None = None


PersonStep = AttendStep | AnswerStep | DismissStep | FrontStep | CloseStep | SeeStep | WriteStep | DrawStep


class AuditStep(_StepBase):
    """Let the daemon verify its audit chain."""

    do: Literal["audit"]


Step = Annotated[
    CallStep
    | RepeatStep
    | CancelStep
    | SayStep
    | WaitStep
    | ExpectStep
    | FinishStep
    | KillStep
    | LeaveStep
    | SwitchStep
    | AttendStep
    | AnswerStep
    | DismissStep
    | FrontStep
    | CloseStep
    | SeeStep
    | WriteStep
    | DrawStep
    | AuditStep,
    Field(discriminator="do"),
]
_STEP: TypeAdapter[Step] = TypeAdapter(Step)


def read_scenario(lines: Iterable[str]) -> list[Step]:
    """Read a scenario. Empty lines and lines that begin with # are skipped.

    Raises:
        ScenarioInvalid: A line is no step; none was played.

    """
    steps: list[Step] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            steps.append(_STEP.validate_python(json.loads(line)))
        except json.JSONDecodeError as error:
            raise ScenarioInvalid(number, f"no JSON ({error.msg})") from None
        except RecursionError:
            raise ScenarioInvalid(number, "nested too deep") from None
        except ValidationError as error:
            raise ScenarioInvalid(number, describe(error)) from None
        except ValueError as error:  # a number of thousands of digits
            raise ScenarioInvalid(number, f"no JSON ({error})") from None
    return steps
