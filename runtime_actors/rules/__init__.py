"""What is decided. Pure."""
