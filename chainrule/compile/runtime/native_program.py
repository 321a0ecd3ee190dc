"""A compiled program: loops, machine code, memory; run on arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, final
from weakref import ref

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.graph.terms import Program
from chainrule.compile.graph.unification import symbols_of
from chainrule.compile.llvm.host_target import host
from chainrule.compile.loops.statements import Host, Loops, Strided
from chainrule.compile.runtime import machine_code
from chainrule.compile.runtime.cache import Entry
from chainrule.compile.runtime.machine_code import compile_object, load
from chainrule.compile.runtime.prepared import Prepared
from chainrule.compile.runtime.result_memory import Lender
from chainrule.compile.runtime.scratch import Block, Layout
from chainrule.compile.target import Target

_exporting: ContextVar[bool] = ContextVar("_exporting", default=False)


@contextmanager
def without_machine_code() -> Generator[None]:
    """Programs made within it are written for another machine and never run here. No code is made
    of them, which saves a third of what an export takes."""
    before = _exporting.set(True)
    try:
        yield
    finally:
        _exporting.reset(before)


@final
class Native:
    """Machine code for a program, from the cache where it has it.

    Kernels' scratch memory belongs to it, so that one thread runs it at a time.
    """

    def __init__(
        self, program: Program, checks: Sequence[str] = (), target: Target | None = None
    ) -> None:
        """`checks` are what the bits of the last result say of indices; see `index_checks`.
        `target` is this machine, or less of it than there is."""
        self.program = program
        self.target = target or host()
        self.checks = list(checks)
        if not _exporting.get():
            self._load(program)

    def _load(self, program: Program) -> None:
        entry = Entry(program, self.target)
        made = entry.get()
        if made is None:
            made = self._made()
            entry.put(made)
        self.layout: Layout = made[0]
        self.hosts: list[Host] = made[1]
        self._code = load(made[2])
        self._memory: dict[tuple[int, ...], Block] = {}
        self.lender = Lender()
        # where the objects of the running call are, and its scratch memory
        self.now: tuple[Any, Any] = (), None
        self.lock = threading.Lock()
        self.run, self.unchanged = self._code.call, self._code.unchanged
        self.repeat, self.pool, self.code = self._code.repeat, self._code.pool, self._code
        self._hosted = partial(_run_host, ref(self))
        self.number = id(self._hosted) if self.hosts else 0

    def _made(self, *, timed: bool = False) -> tuple[Layout, list[Host], bytes]:
        from chainrule.compile.runtime.build import emit_module

        loops, layout = self._scheduled
        module = emit_module(loops, layout, self.target, timed=timed)
        return layout, module.hosts, compile_object(str(module.ir))

    @cached_property
    def _scheduled(self) -> tuple[Loops, Layout]:
        from chainrule.compile.runtime.build import schedule

        return schedule(self.program, self.target)

    @property
    def loops(self) -> Loops:
        """What the code was made of: where it came from the cache, made again when first asked."""
        return self._scheduled[0]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes that a call says, in the order in which it says them."""
        if "layout" not in self.__dict__:
            return tuple(sorted(symbols_of(self.program)))
        return self.layout.symbols

    @cached_property
    def _timed(self) -> machine_code.Code:
        return load(self._made(timed=True)[2])

    def measured(
        self, objects: Sequence[Any], symbols: Mapping[str, int] | None = None, repeats: int = 100
    ) -> list[float]:
        """Cycles that each kernel takes: the mean over the quicker half of its `repeats` runs."""
        code = self._timed
        if code.pool is not None:
            code.pool.run()
        block = self.block(tuple([(symbols or {})[s] for s in self.symbols]))
        table = (ctypes.c_void_p * len(objects))(*map(id, objects))
        times = (ctypes.c_int64 * len(self.loops.kernels))()
        runs: list[list[int]] = []
        with self.lock:
            self.now = table, block
            for _ in range(-3, repeats):
                ctypes.memset(times, 0, ctypes.sizeof(times))
                code.call(table, block.scratch, block.sizes, self.number, times)
                runs.append(list(times))
            self.now = (), None
        quicker = np.sort(np.array(runs[3:]), axis=0)[: (repeats + 1) // 2]
        return np.mean(quicker, axis=0).tolist()

    def __call__(
        self, inputs: Sequence[Any], symbols: Mapping[str, int] | None = None
    ) -> list[Any]:
        """Run it on arrays in the order of the program's inputs: C-contiguous, of their shapes and
        dtypes. Those that it updates are written to. Returns new arrays of the results."""
        values = tuple([symbols[s] for s in self.symbols]) if symbols else ()
        return self.prepared(0, inputs)((), values)

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

    def forget(self) -> None:
        """Give scratch memory back; a later call takes new one."""
        self._memory.clear()
        self.now = (), None

    @contextmanager
    def undoing(self, table: Any) -> Generator[None]:
        """Within it the program runs on the objects in `table`. Where state may be half written
        when something is raised, it is put back."""
        arrays = [_object_at(table, i) for i in self._code.undo]
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
