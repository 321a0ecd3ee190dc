"""Names and numbers that machine code and who runs it agree on."""

from __future__ import annotations

UNDO = "undo"
"""The symbol of the numbers of those objects that a run which is ended may leave half written."""
HEADER = object.__basicsize__
"""Bytes of bookkeeping at the start of a Python object."""
LETTERS = {4: "s", 8: "d"}
"""What routines for floats of so many bytes begin with."""
LAPACK = ("potrf", "gesv", "getrf", "trtrs", "geqrf", "orgqr", "syevd", "gesdd")
"""The routines of LAPACK that machine code may call."""


def lapack(name: str, itemsize: int) -> str:
    """The symbol of a routine of LAPACK for floats of so many bytes."""
    return f"chainrule_{LETTERS[itemsize]}{name}"
