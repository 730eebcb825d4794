"""`lineup doctor`: what confinement is worth on this machine, found out by attacking it."""
