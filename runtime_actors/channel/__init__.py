"""The channels to workers, agents and hosts, runtime end."""
