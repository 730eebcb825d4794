"""What people type: the JSON of a call, scenarios, the options of a daemon. It is understood, or said to be wrong."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any, Final

import click

from runtime_actors.cli.agents import json_object
from runtime_actors.cli.runs import config_of, run
from runtime_actors.contract import codec
from runtime_actors.simulator import ScenarioInvalid, read_scenario
from tests.fuzz.source import Source
from tests.fuzz.target import ACCEPTED, Input, Stateless, expect

WRONG: Final = "usage"
_STEPS: Final = (
    {"do": "call", "tool": "desk.write", "input": {"text": "x"}, "call_id": "c1"},
    {"do": "repeat", "call_id": "c1", "as": "other"},
    {"do": "say", "text": "hello", "to": "desk", "data": {"a": 1}},
    {"do": "wait", "call_id": "c1", "status": ["completed", "failed"], "timeout_s": 1},
    {"do": "expect", "call_id": "c1", "status": "completed", "result": {}},
    {"do": "kill", "scope": "desk", "signal": "SIGKILL", "daemon": False},
    {"do": "switch", "kind": "app", "name": "desk", "enabled": True},
    {"do": "finish"},
    {"do": "audit", "note": "n"},
)
_OPTIONS: Final = tuple(
    name for one in run.params if isinstance(one, click.Option) and not one.is_flag for name in one.opts
)
_VALUES: Final = ("0", "1", "-1", "nan", "inf", "-inf", "1e999", "1e-9", "9" * 30, "", "x", "64", "0.5", "\u0661",
                  "/nowhere", "tcp://127.0.0.1:0", "tcp://127.0.0.1:65535", "tcp://127.0.0.1:65536", "tcp://0.0.0.0:1",
                  "tcp://127.0.0.1:1\n", "admit:before:drop", "admit:before:drop@0", "admit:before:drop@999999999",
                  "sealed", "power", "json", "\u202e", "--state")  # fmt: skip


class OperatorTarget(Stateless):
    """`to` is `json`, `scenario` or `options`."""

    name = "operator"

    def make(self, source: Source) -> Input:
        to = source.pick(("json", "scenario", "scenario", "options"))
        if to == "options":
            typed = [f"{source.pick(_OPTIONS)}={source.pick(_VALUES)}" for _ in range(1 + source.below(3))]
            return Input("\0".join(typed).encode("utf-8", "surrogateescape"), to)
        if to == "json":
            text = json.dumps(source.json() if source.chance(0.4) else {source.key(): source.json()})
        else:
            text = "\n".join(json.dumps(_a_step(source)) for _ in range(1 + source.below(4)))
        if source.chance(0.04):
            text = source.pick(("[" * 100_000, '{"a":' * 30_000, "9" * 5000, "NaN", '{"a": Infinity}', '{"a":1,"a":2}'))
        data = text.encode("utf-8", "surrogatepass")
        return Input(source.broken(data) if source.chance(0.2) else data, to)

    def feed(self, one: Input) -> str:
        text = one.data.decode(errors="replace")
        try:
            match one.to:
                case "json":
                    codec.encode(self.cost.of(json_object, text))
                case "scenario":
                    steps = self.cost.of(read_scenario, text.split("\n"))
                    expect(all(0 <= step.timeout_s <= 3600 for step in steps), "a step waits for ever")
                case _:
                    self.cost.of(_config, text)
        except click.UsageError as error:
            expect(error.message, "nothing is said of what is wrong")
            return WRONG
        except ScenarioInvalid as error:
            expect(1 <= error.line <= text.count("\n") + 1, "no such line")
            return WRONG
        return ACCEPTED


def _config(text: str) -> None:
    typed = ["--state=/s", *(one for one in text.split("\0") if one)]
    with run.make_context("run", typed) as context:
        values = dict(context.params)
        config = config_of(values.pop("state"), values)  # type: ignore[arg-type] # click knows no TypedDict
    _all_finite(config)


def _all_finite(value: Any) -> None:  # noqa: ANN401 - whatever a configuration holds
    if is_dataclass(value):
        for one in fields(value):
            _all_finite(getattr(value, one.name))
    expect(not isinstance(value, float) or math.isfinite(value), "an option that is no finite number was taken")


def _a_step(source: Source) -> Any:  # noqa: ANN401 - JSON
    step: dict[str, Any] = dict(source.pick(_STEPS))
    for _ in range(source.below(3)):
        key = source.pick((*step, "do", "timeout_s", "conversation", "x"))
        step[key] = source.json() if source.chance(0.8) else source.pick(({}, [], None, 3601, -1, 1e999, math.nan))
    return step if source.chance(0.95) else source.json()
