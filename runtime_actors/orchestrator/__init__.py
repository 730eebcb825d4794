"""Owns instances and focus."""
