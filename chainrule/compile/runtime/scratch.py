"""The memory that a program needs beside what it is given."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.graph.sizes import Extent, size_at
from chainrule.compile.loops import memory
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.runtime.result_memory import Lender
from chainrule.engine.op import Spec

if TYPE_CHECKING:
    from chainrule.compile.loops.statements import Host


SHORT = 20_000_000
"""Picoseconds: a run that takes less keeps the interpreter's lock."""


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """The memory of a program: the caller's arrays, which end with the results; the shapes and
    dtypes of these; and scratch memory, with the numbers of the kernels between which each buffer
    lives. It is known without the loops.
    """

    symbols: tuple[str, ...]
    objects: list[Buffer]
    results: list[Spec]
    scratch: list[Buffer]
    lives: dict[Buffer, tuple[int, int]]
    duration: Extent | None = None
    """About how many picoseconds a run takes, where that depends on sizes alone."""


Made = tuple[Layout, "list[Host]", bytes]
"""What is made of a program: its memory, its ops in eager form, its object file."""


@final
class Block:
    """Scratch memory of a program for certain sizes: its addresses, and the results' shapes.

    `results()` makes arrays for them. `is_short`: giving the interpreter's lock to others meanwhile
    would take longer than a run is worth. With `named` the memory has names also as `arrays`, which
    ops that run in Python want.
    """

    def __init__(
        self, layout: Layout, values: tuple[int, ...], lender: Lender, *, named: bool
    ) -> None:
        symbols = dict(zip(layout.symbols, values, strict=True))
        plan = memory.plan(layout.scratch, layout.lives, symbols)
        arena = np.empty(plan.size + memory.ALIGN, np.uint8)
        start = -arena.ctypes.data % memory.ALIGN
        base = arena.ctypes.data + start
        self.symbols = symbols
        self.arrays: dict[Buffer, Any] = {}
        if named:
            for b, offset in zip(layout.scratch, plan.offsets, strict=True):
                shape = [size_at(n, symbols) for n in b.shape]
                size = int(np.prod(shape, dtype=np.int64)) * b.dtype.itemsize
                part = arena[start + offset : start + offset + size]
                self.arrays[b] = part.view(b.dtype).reshape(shape)
        pointers = (ctypes.c_void_p * len(plan.offsets))(*[base + o for o in plan.offsets])
        numbers = (ctypes.c_int64 * len(values))(*values)
        self.bytes = plan.size
        self.scratch, self.sizes = ctypes.addressof(pointers), ctypes.addressof(numbers)
        self.shapes = [
            (tuple([size_at(n, symbols) for n in r.shape]), r.dtype) for r in layout.results
        ]
        self.results = lender.maker(self.shapes)
        self.is_short = layout.duration is not None and size_at(layout.duration, symbols) < SHORT
        self._kept = (arena, pointers, numbers)
