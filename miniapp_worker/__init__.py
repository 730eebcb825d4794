"""One MiniApp in its own process."""
