"""The agent simulator: an agent without a model, for people, scripts and the demo."""

from runtime_actors.simulator.agent import KnownCall, SimulatedAgent
from runtime_actors.simulator.player import Player, StepResult
from runtime_actors.simulator.steps import ScenarioInvalid, Step, read_scenario

__all__ = ["KnownCall", "Player", "ScenarioInvalid", "SimulatedAgent", "Step", "StepResult", "read_scenario"]
