"""A compiled function as one WebAssembly file, which needs nothing but who runs it.

`target` is the machine; `emission` writes LLVM's language, in which all memory has a fixed address;
`object_file` reads what LLVM makes of it, `linking` makes a module of that; `layout` says where
everything lies; `writing` is the face.
"""
