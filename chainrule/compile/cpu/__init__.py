"""What processors have: cores, BLAS and LAPACK, Python's objects, signals, calls of a program.

`program_module` is a whole program as one module; `core_split` splits loops over cores.
"""
