"""Programs of single numbers: what a function of `Value`s did, as a tape that machine code runs.

`machine` has the two loops, written from the op table by `formulas`; `tape` reads a graph into
arrays; `call` is the function that is called instead. `reroll` makes loops of a tape that repeats
itself, which `runs` decides.
"""
