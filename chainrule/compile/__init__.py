"""The compiler: a function, traced once, becomes native code.

`trace` records a call as a `Program` of terms; `simplify` rewrites it; `schedule` groups it into
kernels, written in the loop language of `loops`; `llvm` and `c` say those loops in the words of
their machine; `jit` is the door.
"""
