"""Kernels in LLVM's words, for all targets that LLVM knows.

`functions` says what a function of the loop language is. `kernel` emits one kernel, `matmul_tiles`
its matrix products, `memory_access` what comes from memory. `kernels` emits the functions that they
are.
"""
