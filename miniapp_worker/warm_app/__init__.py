"""What the zygote loads and runs before its first fork, in place of an app: it does what apps do."""
