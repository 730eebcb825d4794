"""Whiteboard: a person and an agent draw on one board, which the runtime keeps."""
