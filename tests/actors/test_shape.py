"""What all actors and their messages have in common."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from pathlib import Path

import pytest

import runtime_actors
from runtime_actors.actor import RuntimeActor
from runtime_actors.channel.actor import ChannelActor
from runtime_actors.gateway.actor import GatewayActor
from runtime_actors.interaction.actor import InteractionActor
from runtime_actors.orchestrator.actor import OrchestratorActor
from runtime_actors.outbox.actor import OutboxActor
from runtime_actors.router.actor import RouterActor
from runtime_actors.shell.actor import ShellActor
from runtime_actors.store.actor import StoreActor
from runtime_actors.supervisor.actor import SupervisorActor

ROOT = Path(runtime_actors.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
ACTORS = (
    StoreActor,
    ChannelActor,
    SupervisorActor,
    OutboxActor,
    ShellActor,
    InteractionActor,
    OrchestratorActor,
    RouterActor,
    GatewayActor,
)
MESSAGES = [*ROOT.glob("*/messages.py"), ROOT / "commands" / "follow_ups.py", ROOT / "channel" / "events.py"]


def module_of(path: Path) -> str:
    return ".".join(("runtime_actors", *path.relative_to(ROOT).with_suffix("").parts))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def calls_of(tree: ast.AST) -> set[str]:
    """Names of the methods that are called."""
    return {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


def test_nobody_asks_an_actor_and_waits() -> None:
    asking = [name_of(path) for path in MODULES if calls_of(ast.parse(path.read_text())) & {"ask", "proxy"}]

    assert asking == []


@pytest.mark.parametrize("actor", ACTORS)
def test_no_actor_waits(actor: type[RuntimeActor]) -> None:
    called = calls_of(ast.parse(inspect.getsource(actor)))

    assert not called & {"sleep", "wait", "acquire"}


@pytest.mark.parametrize("path", MESSAGES, ids=name_of)
def test_messages_are_frozen_dataclasses(path: Path) -> None:
    module = importlib.import_module(module_of(path))
    made_here = [one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == module.__name__]
    messages = [one for one in made_here if not issubclass(one, str)]

    assert messages
    for message in messages:
        assert dataclasses.is_dataclass(message), message
        assert message.__dataclass_params__.frozen, message  # type: ignore[attr-defined]


@pytest.mark.parametrize("actor", ACTORS)
def test_every_actor_is_a_runtime_actor_that_does_not_touch_its_outermost_loop(actor: type[RuntimeActor]) -> None:
    assert issubclass(actor, RuntimeActor)
    assert "on_receive" not in vars(actor)
    assert {"receive", "rebuild"} <= set(vars(actor))
    assert actor.use_daemon_thread
