"""Names and numbers that machine code and who runs it agree on."""

from __future__ import annotations

HOST = "chainrule_host"
"""The symbol of a function of Python's: (number of the program, number of the statement)."""
INLINE = "alwaysinline"
"""The attribute of functions that become parts of who calls them."""
HEADER = object.__basicsize__
"""Bytes of bookkeeping at the start of a Python object."""
