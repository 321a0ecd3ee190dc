"""The compiler: a function, traced once, becomes native code.

`tracing` records a call as a program of `terms`; `rewriting` makes it simpler; `scheduling` groups
it into kernels, written in the language of `loops`; `llvm` and `c` say those loops in the words of
their machine; `running` has the machine code, `calling` what a call does; `jit` is the door.
"""

from chainrule.optional import require

require("llvmlite", "compiled code")
