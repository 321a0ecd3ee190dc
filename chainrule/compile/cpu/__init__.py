"""What processors have: cores, BLAS and LAPACK, Python's objects, signals, calls of a program."""
