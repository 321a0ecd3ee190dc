"""From a function and its arguments to a program: what it reads, changes and returns."""
