"""`lineup shell`: a host for a terminal."""
