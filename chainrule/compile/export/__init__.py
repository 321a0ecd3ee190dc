"""What a compiled function is given, by the names that its user gave: for files made of it."""
