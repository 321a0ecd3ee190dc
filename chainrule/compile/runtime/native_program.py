"""A compiled program: loops, machine code, memory; run on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.graph.terms import Program
from chainrule.compile.graph.unification import symbols_of
from chainrule.compile.runtime.cache.programs import Entry
from chainrule.compile.runtime.cache.surroundings import here
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.machine_code import Code, compile_object, load
from chainrule.compile.runtime.prepared_calls import Prepared
from chainrule.compile.target import Target

if TYPE_CHECKING:
    from chainrule.compile.loops.statements import Loops
    from chainrule.compile.runtime.scratch import Layout, Made

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
    """Machine code for a program, from the cache where it has it."""

    def __init__(
        self, program: Program, checks: Sequence[str] = (), target: Target | None = None
    ) -> None:
        """`checks` are what the bits of the last result say of indices; see `index_checks`.
        `target` is this machine, or less of it than there is."""
        self.program = program
        self.target = target or here()
        self.checks = list(checks)
        self._loaded = None if _exporting.get() else self._load()

    @property
    def loaded(self) -> Loaded:
        """What runs; there is none of a program that is written for another machine."""
        assert self._loaded is not None, "a program for another machine"
        return self._loaded

    def _load(self) -> Loaded:
        entry = Entry(self.program, self.target)
        made = entry.get()
        if made is None:
            made = self._made()
            entry.put(made)
        self.name = entry.name
        return Loaded(made, self.checks)

    def _made(self, *, timed: bool = False) -> Made:
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
        if self._loaded is None:
            return tuple(sorted(symbols_of(self.program)))
        return self._loaded.layout.symbols

    @cached_property
    def _timed(self) -> Code:
        return load(self._made(timed=True)[2])

    def measured(
        self, objects: Sequence[Any], symbols: Mapping[str, int] | None = None, repeats: int = 100
    ) -> list[float]:
        """Cycles that each kernel takes: the mean over the quicker half of its `repeats` runs."""
        code = self._timed
        if code.pool is not None:
            code.pool.run()
        loaded = self.loaded
        block = loaded.block(tuple([(symbols or {})[s] for s in self.symbols]))
        table = (ctypes.c_void_p * len(objects))(*map(id, objects))
        times = (ctypes.c_int64 * len(self.loops.kernels))()
        runs: list[list[int]] = []
        with loaded.lock:
            loaded.now = table, block
            for _ in range(-3, repeats):
                ctypes.memset(times, 0, ctypes.sizeof(times))
                code.call(table, block.scratch, block.sizes, loaded.number, times)
                runs.append(list(times))
            loaded.now = (), None
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
        return self.loaded.prepared(count, fixed)

    def forget(self) -> None:
        """Give scratch memory back; a later call takes new one."""
        self.loaded.forget()
