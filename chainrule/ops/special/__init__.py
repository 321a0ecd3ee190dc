"""Special functions: a second table of elementwise ops, and other names for its rows."""
