"""A compiled function as one WebAssembly file, which needs nothing but who runs it.

`writing` is the door. `target` is the machine, `layout` says where everything lies in its memory.
`emission` writes LLVM's language, in which all memory has a fixed address; `object_file` reads what
LLVM makes of it; `linking` makes a module of that.
"""
