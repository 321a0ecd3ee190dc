"""From loops to machine code, through LLVM.

`machine` says what the processor can do; `functions` what a function of the loop language is in
LLVM's words; `kernel` emits one kernel, `tiles` matrix products; `module` a whole program.
"""
