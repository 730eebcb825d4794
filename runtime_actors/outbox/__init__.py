"""Sends what was committed, until acknowledged."""
