"""Intruder: makes every attempt that a hostile MiniApp might make, and says how each ended."""
