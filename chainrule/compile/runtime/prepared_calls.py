"""Calls of a program in which most of what it is given stays: only the rest is put in place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.runtime.scratch import Block

if TYPE_CHECKING:
    from chainrule.compile.runtime.entry_point import Kinds, WayIn
    from chainrule.compile.runtime.loaded_program import Loaded


@final
class Prepared:
    """A program of which some inputs are always the same arrays; the first `count` are not.

    `call(given, sizes)`: those inputs, and the values of the symbols. Returns the results. Who
    calls keeps what is `fixed`.
    """

    def __init__(self, program: Loaded, count: int, fixed: Sequence[Any]) -> None:
        self._program, self._first = program, count + len(fixed)
        self._count = count
        self._table = (ctypes.c_void_p * len(program.layout.objects))()
        self.put_fixed(fixed)
        self._address = ctypes.addressof(self._table)
        self._blocks: dict[tuple[int, ...], Block] = {}

    def put_fixed(self, fixed: Sequence[Any]) -> None:
        """Use these arrays from now on; there are as many as before."""
        self._table[self._count : self._first] = [*map(id, fixed)]

    @property
    def parts(self) -> tuple[Loaded, Any, int]:
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
        results = block.results()
        with program.lock:
            for i, x in enumerate(given):
                table[i] = id(x)
            for i, x in enumerate(results, self._first):
                table[i] = id(x)
            program.now = table, block
            if program.code.undo:
                with program.undoing(table):
                    program.run(self._address, block.scratch, block.sizes, program.number, None)
            else:
                program.run(self._address, block.scratch, block.sizes, program.number, None)
        if program.checks and (flags := results.pop().item()):
            _refuse(int(flags), program.checks)
        return results


@final
class Entered:
    """A prepared program at certain sizes, without ops in Python and nothing to undo. It puts
    arguments into the table and returns results, of other `shapes` if these are given.

    `plan` is that of `enter`; `made` are the results' shapes and dtypes; `results` makes a list.
    """

    def __init__(
        self,
        prepared: Prepared,
        way: WayIn,
        sizes: tuple[int, ...],
        shapes: Any = None,
        given: Kinds = (),
    ) -> None:
        program, table, first = prepared.parts
        self._program, self._enter = program, way.enter
        block = program.block(sizes)
        flags = [np.zeros((), np.int64)] if program.checks else []
        self.is_short = block.is_short
        self.plan = way.plan(ctypes.addressof(table), block, program.number, first, given, *flags)
        made = block.shapes[:-1] if program.checks else block.shapes
        if shapes is not None:
            made = [(shape, dtype) for shape, (_, dtype) in zip(shapes, made, strict=True)]
        self.results, self.made = program.lender.maker(made), made
        self._kept = prepared, way, block, program, flags

    def caller(self) -> Callable[[tuple[Any, ...]], list[Any] | None]:
        """What runs it and returns the results, or None if the arguments are not those that it was
        made for."""
        program, enter, plan, make = self._program, self._enter, self.plan, self.results
        checks, pool, kept = program.checks, program.pool, self._kept
        acquire, release = program.lock.acquire, program.lock.release
        if len(self.made) == 1:  # as most: rows of small arrays
            make_one = program.lender.maker_of_one(*self.made[0])
            make = lambda: [make_one()]

        def run(args: tuple[Any, ...], _: Any = kept) -> list[Any] | None:
            results = make()
            if pool is not None and not pool.running:
                pool.run()
            acquire()
            try:
                refused = enter(plan, args, *results)
            finally:
                release()
            if refused:
                _refuse(refused, checks)
            return results if refused is None else None

        return run

    def run_into(self, args: tuple[Any, ...], results: Sequence[Any]) -> bool:
        """Run it; the results go into these arrays, which are in C's order. Whether it ran."""
        program = self._program
        if program.pool is not None:
            program.pool.run()
        with program.lock:
            refused = self._enter(self.plan, args, *results)
        if refused:
            _refuse(refused, program.checks)
        return refused is None


def _refuse(flags: int, words: list[str]) -> None:
    from chainrule.compile.graph.rules.index_checks import refuse

    refuse(flags, words)
