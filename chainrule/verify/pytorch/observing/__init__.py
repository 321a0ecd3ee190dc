"""What a program does while it runs: its calls of functions, modules and ops, what they read."""
