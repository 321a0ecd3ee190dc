"""The way into a program in machine code: `enter` of `cpu/call_gate.py` as a built-in function."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.call_plan import ARGUMENT, PLAN
from chainrule.compile.runtime.machine_code import Code

Kinds = Sequence[tuple[tuple[int, ...], Any]]
"""Shape and dtype of each of some arrays."""
ONE, MANY = 0x8, 0x80
"""How a built-in function is called: with one argument, with an array of them."""


class _Method(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("how", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new = ctypes.pythonapi.PyCFunction_NewEx
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


def builtin(name: str, address: int, how: int, first: Any) -> tuple[Any, Any]:
    """A built-in function at an address, and what must live as long as it does."""
    method = _Method(name.encode(), address, how, None)
    return _new(ctypes.addressof(method), first, None), method


@final
class WayIn:
    """`enter(plan, args, *results)` runs a program of which `words` say the arguments."""

    def __init__(self, code: Code, words: Sequence[int]) -> None:
        self._words, self._code = words, code
        self.enter, self._enter = builtin("enter", code.enter, MANY, None)

    @staticmethod
    def of_arrays(code: Code, args: Sequence[int], count: int) -> WayIn:
        """Of `count` arrays; `args` are those that the program reads, in its order."""
        head = {"arguments": count, "none": id(None), "ndarray": id(np.ndarray)}
        words = [head.get(name, 0) for name in PLAN]
        for i in range(count):
            place = args.index(i) if i in args else -1
            words += [place if name == "place" else 0 for name in ARGUMENT]
        return WayIn(code, words)

    def plan(
        self, table: int, block: Any, host: int, first: int, given: Kinds = (), flags: Any = None
    ) -> Any:
        """What `enter(plan, args, *results)` is given for certain sizes; it takes arrays of the
        kinds that are `given` only, if these are. `flags` is the last result, if it says what is
        wrong with indices."""
        named = {"table": table, "scratch": block.scratch, "sizes": block.sizes}
        named |= {"host": host, "first": first, "holding": int(block.is_short)}
        named["flags"] = 0 if flags is None else id(flags)
        words = np.array(self._words, np.int64)
        for name, value in named.items():
            words[PLAN.index(name)] = value
        for i, (shape, dtype) in enumerate(given):
            at = len(PLAN) + i * len(ARGUMENT)
            place = words[at + ARGUMENT.index("place")]
            record = [id(np.ndarray), 0, 0, id(dtype), len(shape), place, *shape]
            words[at : at + len(record)] = record
        words[PLAN.index("checked")] = bool(given)
        return words
