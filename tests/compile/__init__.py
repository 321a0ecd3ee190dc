"""What is compiled, against the same functions as they are."""
