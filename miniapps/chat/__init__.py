"""Interact: where the person and the agent talk. Its scope is still called `chat`."""
