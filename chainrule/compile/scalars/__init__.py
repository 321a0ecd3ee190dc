"""Programs of single numbers: what a function of `Value`s did, as a tape that machine code runs.

`machine` has the two loops, written from the op table by `formulas`; `record` runs a function once
to see what it does, on `ints` that are symbols, and `tape` reads its graph into arrays; `call` is
the function that is called instead. `reroll` makes loops of a tape that repeats itself, which
`runs` decides. `steps` are functions that call `backward` and change what they train.
"""
