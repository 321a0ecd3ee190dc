"""Every op, each stated once: its value, what it reads and its derivative."""
