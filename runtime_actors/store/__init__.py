"""What is remembered: one thread, one connection, one writer."""
