"""`lineup bench`: how fast this runtime is on this machine, each figure beside its floor or a peer in the same run."""
