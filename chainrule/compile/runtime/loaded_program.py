"""A program in memory: its code, its scratch memory, and the lock of who runs it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, final
from weakref import ref

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.runtime.machine_code import load
from chainrule.compile.runtime.prepared_calls import Prepared
from chainrule.compile.runtime.result_memory import Lender
from chainrule.compile.runtime.scratch import Block, Made

if TYPE_CHECKING:
    from chainrule.compile.loops.statements import Strided


@final
class Loaded:
    """What runs. Kernels' scratch memory belongs to it, so that one thread runs it at a time."""

    def __init__(self, made: Made, checks: Sequence[str]) -> None:
        """`checks` are what the bits of the last result say of indices; see `index_checks`."""
        self.layout, self.hosts, object_file = made
        self.checks = list(checks)
        self.code = load(object_file)
        self._memory: dict[tuple[int, ...], Block] = {}
        self.lender = Lender()
        # where the objects of the running call are, and its scratch memory
        self.now: tuple[Any, Any] = (), None
        self.lock = threading.Lock()
        self.run, self.repeat, self.pool = self.code.call, self.code.repeat, self.code.pool
        self._hosted = partial(_run_host, ref(self))
        self.number = id(self._hosted) if self.hosts else 0

    def prepared(self, count: int, fixed: Sequence[Any]) -> Prepared:
        """What runs it on `count` arrays, its first inputs; all other inputs are `fixed`."""
        return Prepared(self, count, fixed)

    def block(self, values: tuple[int, ...]) -> Block:
        """Scratch memory for these values of the symbols."""
        found = self._memory.get(values)
        if found is None:
            found = self._memory[values] = Block(
                self.layout, values, self.lender, named=bool(self.hosts)
            )
        return found

    def forget(self, values: tuple[int, ...] | None = None) -> None:
        """Give scratch memory back, or that for these values of the symbols; a later call takes new
        one."""
        if values is None:
            self._memory.clear()
        else:
            self._memory.pop(values, None)
        self.now = (), None

    @contextmanager
    def undoing(self, table: Any) -> Generator[None]:
        """Within it the program runs on the objects in `table`. Where state may be half written
        when something is raised, it is put back."""
        arrays = [_object_at(table, i) for i in self.code.undo]
        saved = [a.copy() for a in arrays]
        try:
            yield
        except BaseException:
            for a, old in zip(arrays, saved, strict=True):
                a[...] = old
            raise

    def host(self, number: int) -> None:
        """Run statement `number` in Python."""
        s = self.hosts[number]
        table, block = self.now
        arrays, symbols = block.arrays, block.symbols

        def array(x: Strided) -> Any:
            b = x.buffer
            if b.role == "constant":
                whole = b.value
            else:
                whole = (
                    arrays[b]
                    if b.role == "scratch"
                    else _object_at(table, self.layout.objects.index(b))
                )
            # a caller's complex array is memory of pairs
            flat = whole.reshape(-1).view(b.dtype)[size_at(x.offset, symbols) :]
            steps = [size_at(n, symbols) * b.dtype.itemsize for n in x.strides]
            return as_strided(flat, [size_at(n, symbols) for n in x.shape], steps)

        with np.errstate(all="ignore"):
            ys = s.op.eval(*[array(x) for x in s.inputs])
        for x, y in zip(s.outputs, ys if s.op.many else (ys,), strict=True):
            array(x)[...] = y


def _run_host(program: Any, number: int) -> None:
    """Run statement `number` of a program to which there is a weak reference."""
    program().host(number)


def _object_at(table: Any, i: int) -> Any:
    """The object whose address is there."""
    return ctypes.cast(table[i], ctypes.py_object).value
