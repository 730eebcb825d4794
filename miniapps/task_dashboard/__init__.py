"""Task Dashboard: long tasks of agents, as tool calls that stay open until the task ends."""
