"""A compiled program: loops, machine code, memory; run on arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.compile import memory, native
from chainrule.compile.llvm.machine import host
from chainrule.compile.llvm.module import emit
from chainrule.compile.loops import Buffer, Host, Loops, Strided
from chainrule.compile.native import compiled
from chainrule.compile.schedule import Scheduler
from chainrule.compile.sizes import bound
from chainrule.compile.terms import Program

@final
class Native:
    """Machine code for a program.

    Kernels' scratch memory belongs to it, so that one thread runs it at a time.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        scheduler = Scheduler(program)
        self.loops: Loops = scheduler.run()
        ins = [scheduler.views[t].buffer for t in program.inputs]
        self.objects = [*ins, *scheduler.results]
        self.results = scheduler.results
        self.scratch = [b for b in self.loops.buffers if b.role == "scratch"]
        self._lives = memory.lifetimes(self.loops, self.scratch)
        self.scratch = [b for b in self.scratch if b in self._lives]
        module = emit(self.loops, self.objects, self.scratch, host())
        self._code = compiled(str(module.ir))
        self._hosts = module.hosts
        self._memory: dict[tuple[int, ...], Any] = {}
        self._failure: BaseException | None = None
        self._now: tuple[Sequence[Any], dict[Buffer, Any], dict[str, int]] = ((), {}, {})
        self._table = (ctypes.c_void_p * len(self.objects))()
        self._lock = threading.Lock()
        self._run = self._code.call
        self._pointer = native.number_of(self) if self._hosts else None

    def measured(
        self, objects: Sequence[Any], symbols: Mapping[str, int] | None = None, repeats: int = 100
    ) -> list[float]:
        """Cycles that each kernel takes, on average; runs the program `repeats` times."""
        module = emit(self.loops, self.objects, self.scratch, host(), timed=True)
        code = compiled(str(module.ir))
        values = tuple([(symbols or {})[s] for s in self.loops.symbols])
        block = self._memory.get(values) or self._reserve(values)
        table = (ctypes.c_void_p * len(objects))(*map(id, objects))
        times = (ctypes.c_int64 * len(self.loops.kernels))()
        for n in range(-3, repeats):
            if n == 0:
                ctypes.memset(times, 0, ctypes.sizeof(times))
            code.call(table, block[1], block[2], self._pointer, times)
        return [t / repeats for t in times]

    def __call__(
        self, inputs: Sequence[Any], symbols: Mapping[str, int] | None = None
    ) -> list[Any]:
        """Run it on arrays in the order of the program's inputs: C-contiguous, of their shapes and
        dtypes. Those that it updates are written to. Returns new arrays of the results."""
        values = tuple([symbols[s] for s in self.loops.symbols]) if symbols else ()
        block = self._memory.get(values) or self._reserve(values)
        arrays, scratch, sizes, shapes, _ = block
        results = [np.empty(shape, dtype) for shape, dtype in shapes]
        objects = [*inputs, *results]
        with self._lock:
            self._table[:] = [id(x) for x in objects]
            if self._hosts:
                self._now = (objects, arrays, dict(zip(self.loops.symbols, values, strict=True)))
            self._run(self._table, scratch, sizes, self._pointer, None)
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
        return results

    def _reserve(self, values: tuple[int, ...]) -> Any:
        """Scratch memory for these values of the symbols."""
        symbols = dict(zip(self.loops.symbols, values, strict=True))
        plan = memory.plan(self.scratch, self._lives, symbols)
        arena = np.empty(plan.size + memory.ALIGN, np.uint8)
        base = -(-arena.ctypes.data // memory.ALIGN) * memory.ALIGN
        start = base - arena.ctypes.data
        arrays: dict[Buffer, Any] = {}
        if self._hosts:
            for b, offset in zip(self.scratch, plan.offsets, strict=True):
                shape = [bound(n, symbols) for n in b.shape]
                size = int(np.prod(shape, dtype=np.int64)) * b.dtype.itemsize
                part = arena[start + offset : start + offset + size]
                arrays[b] = part.view(b.dtype).reshape(shape)
        pointers = (ctypes.c_void_p * len(plan.offsets))(*[base + o for o in plan.offsets])
        sizes = (ctypes.c_int64 * len(values))(*values)
        shapes = [(tuple([bound(n, symbols) for n in b.shape]), b.dtype) for b in self.results]
        block = self._memory[values] = (arrays, pointers, sizes, shapes, arena)
        return block

    def host(self, number: int) -> None:
        """Run statement `number` in Python; what that raises is raised when the code returned."""
        if self._failure is not None:
            return
        try:
            self._eager(self._hosts[number])
        except BaseException as failure:
            self._failure = failure

    def _eager(self, s: Host) -> None:
        objects, arrays, symbols = self._now

        def array(x: Strided) -> Any:
            b = x.buffer
            if b.role == "constant":
                whole = b.value
            else:
                whole = arrays[b] if b.role == "scratch" else objects[self.objects.index(b)]
            flat = whole.reshape(-1)[bound(x.offset, symbols) :]
            steps = [bound(n, symbols) * b.dtype.itemsize for n in x.strides]
            return as_strided(flat, [bound(n, symbols) for n in x.shape], steps)

        with np.errstate(all="ignore"):
            ys = s.op.eval(*[array(x) for x in s.inputs])
        for x, y in zip(s.outputs, ys if s.op.many else (ys,), strict=True):
            array(x)[...] = y
