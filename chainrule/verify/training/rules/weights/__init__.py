"""What the values of parameters tell: how they begin, and how a program moves them by hand."""
