"""The compiler: a function, traced once, becomes native code.

`trace` records a call as a program, a `graph` of terms; `graph.rules` make it simpler; `lower`
groups it into kernels, written in the language of `loops`. `llvm` says these in LLVM's words, for
`cpu` and for `wasm`; `c` in C. `runtime` has the machine code, `runtime.call` what a call does;
`inspect` is for people. A `Target` says what code is made for; `jit` is the public face.
"""

from chainrule.names.module_calls import answer_calls as _answer_calls
from chainrule.optional import require as _require

_require("llvmlite", "compiled code")
_answer_calls(__name__)
