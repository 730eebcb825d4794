"""Typed access to rows, on the connection it is handed."""
