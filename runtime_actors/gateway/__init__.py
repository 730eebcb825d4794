"""Where agents, hosts and operators connect."""
