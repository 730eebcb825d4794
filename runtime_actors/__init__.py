"""The runtime that sits between AI agents and people."""
