"""Ends the questions whose time is over."""
