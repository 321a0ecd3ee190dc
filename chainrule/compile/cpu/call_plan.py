"""The words of a plan, which `call_gate.py` reads: where each stands."""

from __future__ import annotations

PLAN = (
    "arguments", "rows", "table", "scratch", "sizes", "host", "first", "none", "ndarray", "guards",
    "checked", "settings", "holding", "flags",
)  # fmt: skip
"""How many arguments and rows there are. What the program is given: table, scratch, sizes, host.
The place in the table of the first result. The addresses of None, of NumPy's class, and of the
words for `guarded`. Whether `enter` compares the arguments with their records. The address of the
words for `settle`, or 0. Whether a run keeps the interpreter's lock. The address of the last result
if it says what is wrong with indices, otherwise 0."""
AXES = 6
"""Axes that an argument may have."""
ARGUMENT = ("kind", "value", "node", "dtype", "axes", "place", *[f"n{a}" for a in range(AXES)])
"""An argument's class, and where in it are its value (0 if it is an array itself) and its node.
Then the array's dtype, number of axes, index in the table (-1 if the program does not read it) and
sizes. A size -1 - s is that of symbol s."""
SYMBOLS = 3
BITS = 20
"""Sizes are told as one number, this many bits for each symbol."""
CALLS = (
    "gate", "kept", "memory", "rows", "filled", "width", "arrays", "settings",
    "tuple", "float", "float64", "int", "bool", "recording", "answer", "known", "sizes", "none",
    "key", "ended",
)  # fmt: skip
"""What functions of `call_rows.py` read: the plan of `again`; the list that keeps arrays; memory
for rows, how many there are and how many are filled, and the words of one; how many arrays and
settings are in one; the addresses of Python's classes. For `collect_all` a context variable and
what has to be in it, the known numbers of sizes, each with the word for the row, and how many there
are, None. It says what the number of the last call was, and whether there is no further one."""
CALL_PLAN = (
    "gate", "recording", "answer", "misfit", "entries", "filled", "none", "acquire", "release",
    "enter", "empty", "results", "refuse", "tensor", "value", "node", "finish", "around",
    "watch", "watches", "nobody", "locked",
)  # fmt: skip
"""What `whole_call.py` reads. The plan of `again`; a context variable, and the object that has to
be in it. What to return if the call is not like the one before; entries for sizes, and how many
there are. None; functions that lock the program and release it; the address of `enter`. The
function that makes an array, and how many results there are; the function that refuses indices. The
class of the one tensor that is returned, and where in it are its value and its node; or 0, and the
function that makes what is returned of a list of results. A context variable in which None has to
be; a dictionary, a key, and what has to be there. The address of the byte that is 0 while nobody
has locked the program, or 0."""
RESULTS = 8
"""Results that such a call may have."""
_KIND = [f"{what}{i}" for i in range(RESULTS) for what in ("shape", "dtype")]
ENTRY = ("key", "plan", "short", "maker", *_KIND)
"""The number that `again` gives for these sizes, the plan for `enter`, whether a run keeps the
interpreter's lock. A function that makes a list of the results, where their memory is lent, or 0;
otherwise of each result its shape and its dtype, as objects."""
ENTRIES = 64
"""Sizes that have an entry."""
DICTIONARY = ("address", "version", "whole", "first", "count")
"""What `dict_guards.py` reads of a dictionary: its address and version. Whether its keys must be
the same. The word where its entries begin, and how many it has."""
REPEAT = (
    "width", "arrays", "places", "settings", "values", "results", "cells", "blocks", "looks"
)  # fmt: skip
"""What `repeat.py` reads: the words of a row; how many arrays, settings and results there are;
where each array's index in the table is; memory for settings. Where each result's elements are, and
how many bytes further they are in the next call. The addresses of scratch memory and of the
symbols' values, for each number of sizes. The bits of a call's number that are 0 where it is time
to look for signals."""
SETTINGS = ("count", "asked", "float", "float64")
"""What `settle` of `call_settings.py` reads: how many settings there are; whether they are asked in
Python; the addresses of Python's class of floats and of NumPy's, which is one of them."""
SETTING = (
    "holder", "key", "item", "tuple", "truth", "last", "low", "high", "number", "table", "form",
    "at",
)  # fmt: skip
"""A setting's dictionary and key. Of a tuple there the item, otherwise -1. The address of Python's
class of tuples. Whether the number is to be 0 (0) or not (1), or either (-1). The address of the
word that says which object it was. The range, two float64, in which any number is taken. The
address of the number that the program reads. The key's place (see `place_of_key`)."""
