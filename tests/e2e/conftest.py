from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.e2e.agent import Agent
from tests.e2e.daemon import short_folder
from tests.faults.world import World


class MakeWorld(Protocol):
    """Starts a daemon in a folder of its own."""

    def __call__(self, *options: str, apps: tuple[Path, ...] = ...) -> World: ...


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    made: list[World] = []
    with short_folder() as folder:

        def make(*options: str, apps: tuple[Path, ...] = ()) -> World:
            world = World(folder / f"s{len(made)}")
            world.daemon.options += options
            world.daemon.apps += apps
            made.append(world)
            world.start()
            return world

        yield make
        for world in made:
            world.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """A daemon with the probe app."""
    return make_world()


@pytest.fixture
def agent(world: World) -> Agent:
    """Attached to `world`."""
    agent = world.agent()
    agent.attached()
    return agent
