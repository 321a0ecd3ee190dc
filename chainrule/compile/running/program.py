"""A compiled program: loops, machine code, memory; run on arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.compile.checking.spec import check
from chainrule.compile.llvm.machine import host
from chainrule.compile.llvm.module import HEADER, emit
from chainrule.compile.llvm.parallel import split
from chainrule.compile.loops import memory
from chainrule.compile.loops.language import Buffer, Host, Loops, Strided
from chainrule.compile.rewriting.bounds import refuse
from chainrule.compile.running import native
from chainrule.compile.running.cache import Entry
from chainrule.compile.running.gate import Gate
from chainrule.compile.running.native import compiled, loaded
from chainrule.compile.scheduling.schedule import Scheduler
from chainrule.compile.terms.sizes import bound
from chainrule.compile.terms.terms import Program

_empty = np.empty
CHECKING = False
"""Whether loops are checked as soon as they are made: in tests they are."""


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """The memory of a program: the caller's arrays, which end with the results, and scratch memory
    with the numbers of the kernels between which each buffer lives. It is known without the loops.
    """

    symbols: tuple[str, ...]
    objects: list[Buffer]
    results: list[Buffer]
    scratch: list[Buffer]
    lives: dict[Buffer, tuple[int, int]]


@final
class Block:
    """Scratch memory of a program for certain sizes: its addresses, and the results' shapes."""

    def __init__(self, program: Native, values: tuple[int, ...]) -> None:
        layout = program.layout
        symbols = dict(zip(layout.symbols, values, strict=True))
        plan = memory.plan(layout.scratch, layout.lives, symbols)
        arena = np.empty(plan.size + memory.ALIGN, np.uint8)
        start = -arena.ctypes.data % memory.ALIGN
        base = arena.ctypes.data + start
        self.symbols = symbols
        self.arrays: dict[Buffer, Any] = {}
        if program.hosts:
            for b, offset in zip(layout.scratch, plan.offsets, strict=True):
                shape = [bound(n, symbols) for n in b.shape]
                size = int(np.prod(shape, dtype=np.int64)) * b.dtype.itemsize
                part = arena[start + offset : start + offset + size]
                self.arrays[b] = part.view(b.dtype).reshape(shape)
        pointers = (ctypes.c_void_p * len(plan.offsets))(*[base + o for o in plan.offsets])
        numbers = (ctypes.c_int64 * len(values))(*values)
        self.scratch, self.sizes = ctypes.addressof(pointers), ctypes.addressof(numbers)
        self.shapes = [
            (tuple([bound(n, symbols) for n in b.shape]), b.dtype) for b in layout.results
        ]
        self._kept = (arena, pointers, numbers)


@final
class Prepared:
    """A program of which some inputs are always the same arrays; the first `count` are not.

    `call(given, sizes)`: those inputs, and the values of the symbols. Returns the results.
    """

    def __init__(self, program: Native, count: int, fixed: Sequence[Any]) -> None:
        # for eager ops only: whoever prepares keeps the arrays, and counts their references
        self._program, self._fixed = program, fixed if program.hosts else ()
        self._first = count + len(fixed)
        layout = program.layout
        self._table = (ctypes.c_void_p * len(layout.objects))(
            *[0] * count, *map(id, fixed), *[0] * len(layout.results)
        )
        self._address = ctypes.addressof(self._table)
        self._blocks: dict[tuple[int, ...], Block] = {}

    @property
    def parts(self) -> tuple[Native, Any, int]:
        """The program, its table of objects, and where in it the results begin."""
        return self._program, self._table, self._first

    def __call__(self, given: Sequence[Any], sizes: tuple[int, ...]) -> list[Any]:
        """Run it."""
        program, table = self._program, self._table
        if program.pool is not None:
            program.pool.run()
        block = self._blocks.get(sizes)
        if block is None:
            block = self._blocks[sizes] = program.block(sizes)
        results = [_empty(shape, dtype) for shape, dtype in block.shapes]
        with program.lock:
            for i, x in enumerate(given):
                table[i] = id(x)
            for i, x in enumerate(results, self._first):
                table[i] = id(x)
            if program.hosts:
                program.now = ([*given, *self._fixed, *results], block)
            program.run(self._address, block.scratch, block.sizes, program.number, None)
            if program.hosts:
                program.raise_failure()
        if program.checks and (flags := results.pop().item()):
            refuse(int(flags), program.checks)
        return results


@final
class Entered:
    """A prepared program at certain sizes, called through a gate (see `gate.py`): `run(args)` puts
    the arguments into the table and returns the results."""

    def __init__(self, prepared: Prepared, gate: Gate, sizes: tuple[int, ...]) -> None:
        """The program has no eager ops in its midst."""
        program, table, first = prepared.parts
        self._program, self._enter = program, gate.enter
        block = program.block(sizes)
        self._plan = gate.plan(ctypes.addressof(table), block, program.number, first)
        self._shapes = block.shapes[:-1] if program.checks else block.shapes
        self._flags = [np.zeros((), np.int64)] if program.checks else []
        self._kept = prepared, gate, block

    def run(self, args: tuple[Any, ...]) -> list[Any]:
        """Run it."""
        program, flags = self._program, self._flags
        if program.pool is not None:
            program.pool.run()
        results = [_empty(shape, dtype) for shape, dtype in self._shapes]
        with program.lock:
            self._enter(self._plan, args, *results, *flags)
            bad = flags[0].item() if flags else 0
        if bad:
            refuse(bad, program.checks)
        return results


@final
class Moving:
    """Many runs of a program as one call: a row for each, of what is not the same in all of them.

    `fixed` are the objects that stay, by place among the program's objects; `places` those of the
    others.
    """

    def __init__(self, program: Native, fixed: Mapping[int, Any]) -> None:
        self._program = program
        self._fixed = dict(fixed)
        self.places = [i for i in range(len(program.layout.objects)) if i not in fixed]

    def __call__(self, columns: Sequence[Any], blocks: Sequence[Block]) -> None:
        """Run it once for each of `blocks`; `columns` are, by place, addresses of objects."""
        program, turns = self._program, len(blocks)
        if program.pool is not None:
            program.pool.run()
        rows = np.empty((turns, len(columns) + 2), np.int64)
        for k, column in enumerate(columns):
            rows[:, k] = column
        rows[:, -2] = [b.scratch for b in blocks]
        rows[:, -1] = [b.sizes for b in blocks]
        places = np.array(self.places, np.int64)
        count = len(program.layout.objects)
        table = (ctypes.c_void_p * count)(
            *[id(self._fixed[i]) if i in self._fixed else 0 for i in range(count)]
        )
        with program.lock:
            program.repeat(
                ctypes.addressof(table), places.ctypes.data, rows.ctypes.data, len(columns),
                turns, program.number,
            )  # fmt: skip


class Parts:
    """The rows of an array, one after the other, as objects that a program can be given: of an
    array object it only looks at the word that says where the elements are."""

    def __init__(self, array: Any) -> None:
        """`array` is C-contiguous."""
        step = array.strides[0] if len(array) else 0
        self._cells = array.ctypes.data + step * np.arange(len(array), dtype=np.int64)
        self._array = array
        word = self._cells.itemsize
        self.addresses = (
            self._cells.ctypes.data - HEADER + word * np.arange(len(array), dtype=np.int64)
        )


@final
class Native:
    """Machine code for a program, from the cache where it has it.

    Kernels' scratch memory belongs to it, so that one thread runs it at a time.
    """

    def __init__(self, program: Program, checks: Sequence[str] = ()) -> None:
        """`checks` are what the bits of the last result say of indices; see `bounds`."""
        self.program = program
        self.checks = list(checks)
        entry = Entry(program)
        made = entry.get()
        if made is None:
            loops, layout = self._scheduled
            module = emit(loops, layout.objects, layout.scratch, host())
            made = layout, module.hosts, compiled(str(module.ir))
            entry.put(made)
        self.layout: Layout = made[0]
        self.hosts: list[Host] = made[1]
        self._code = loaded(made[2])
        self._memory: dict[tuple[int, ...], Block] = {}
        self.failure: BaseException | None = None
        self.now: tuple[Sequence[Any], Any] = ((), None)
        self.lock = threading.Lock()
        self.run, self.unchanged = self._code.call, self._code.unchanged
        self.repeat, self.pool, self.code = self._code.repeat, self._code.pool, self._code
        self.number = native.number_of(self) if self.hosts else None

    @cached_property
    def _scheduled(self) -> tuple[Loops, Layout]:
        scheduler = Scheduler(self.program)
        loops = split(scheduler.run())
        objects = [*[scheduler.views[t].buffer for t in self.program.inputs], *scheduler.results]
        scratch = [b for b in loops.buffers if b.role == "scratch"]
        lives = memory.lifetimes(loops, scratch)
        scratch = [b for b in scratch if b in lives]
        layout = Layout(loops.symbols, objects, scheduler.results, scratch, lives)
        if CHECKING:
            check(loops)
        return loops, layout

    @property
    def loops(self) -> Loops:
        """What the code was made of: where it came from the cache, made again when first asked."""
        return self._scheduled[0]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes that a call says, in the order in which it says them."""
        return self.layout.symbols

    @cached_property
    def _timed(self) -> native.Code:
        loops, layout = self._scheduled
        module = emit(loops, layout.objects, layout.scratch, host(), timed=True)
        return loaded(compiled(str(module.ir)))

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
            self.now = objects, block
            for _ in range(-3, repeats):
                ctypes.memset(times, 0, ctypes.sizeof(times))
                code.call(table, block.scratch, block.sizes, self.number, times)
                self.raise_failure()
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
            found = self._memory[values] = Block(self, values)
        return found

    def forget(self) -> None:
        """Give scratch memory back; a later call takes new one."""
        self._memory.clear()

    def raise_failure(self) -> None:
        """Raise what an eager op within the program raised."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def host(self, number: int) -> None:
        """Run statement `number` in Python; what that raises is raised when the code returned."""
        if self.failure is not None:
            return
        try:
            self._eager(self.hosts[number])
        except BaseException as failure:
            self.failure = failure

    def _eager(self, s: Host) -> None:
        objects, block = self.now
        arrays, symbols = block.arrays, block.symbols

        def array(x: Strided) -> Any:
            b = x.buffer
            if b.role == "constant":
                whole = b.value
            else:
                whole = arrays[b] if b.role == "scratch" else objects[self.layout.objects.index(b)]
            flat = whole.reshape(-1)[bound(x.offset, symbols) :]
            steps = [bound(n, symbols) * b.dtype.itemsize for n in x.strides]
            return as_strided(flat, [bound(n, symbols) for n in x.shape], steps)

        with np.errstate(all="ignore"):
            ys = s.op.eval(*[array(x) for x in s.inputs])
        for x, y in zip(s.outputs, ys if s.op.many else (ys,), strict=True):
            array(x)[...] = y
