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
    """A prepared program at certain sizes. It puts arguments into the table and returns results,
    of other `shapes` if these are given."""

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
        self._now = table, block
        self._flags = [np.zeros((), np.int64)] if program.checks else []
        address = ctypes.addressof(table)
        self._plan = way.plan(address, block, program.number, first, given, *self._flags)
        made = block.shapes[:-1] if program.checks else block.shapes
        if shapes is not None:
            made = [(shape, dtype) for shape, (_, dtype) in zip(shapes, made, strict=True)]
        self._results, self._made, self._count = program.lender.maker(made), made, len(made)
        self._undoes = bool(program.code.undo)
        self._kept = prepared, way, block, program, self._flags

    @property
    def parts(self) -> tuple[Any, list[tuple[tuple[int, ...], Any]], bool]:
        """The plan for `enter`, the results' shapes and dtypes, whether it is short."""
        return self._plan, self._made, self._now[1].is_short

    def caller(self) -> Callable[[tuple[Any, ...]], list[Any] | None]:
        """What runs it and returns the results, or None if the arguments are not those that it was
        made for. The shortest way is that of programs without ops in Python, which undo nothing."""
        program, enter, plan, make = self._program, self._enter, self._plan, self._results
        if program.hosts or self._undoes:
            return self._run_checked
        checks, pool, kept = program.checks, program.pool, self._kept
        acquire, release = program.lock.acquire, program.lock.release
        if self._count == 1:  # as most: rows of small arrays, a loss
            make_one = program.lender.maker_of_one(*self._made[0])

            def run_one(args: tuple[Any, ...], _: Any = kept) -> list[Any] | None:
                result = make_one()
                if pool is not None and not pool.running:
                    pool.run()
                acquire()
                try:
                    refused = enter(plan, args, result)
                finally:
                    release()
                if refused is None:
                    return [result]
                if refused:
                    _refuse(refused, checks)
                return None

            return run_one

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

    def _run_checked(self, args: tuple[Any, ...]) -> list[Any] | None:
        results = self._results()
        return results if self.run_into(args, results) else None

    def run_into(self, args: tuple[Any, ...], results: Sequence[Any]) -> bool:
        """Run it; the results go into these arrays, which are in C's order. Whether it ran."""
        program = self._program
        if program.pool is not None:
            program.pool.run()
        with program.lock:
            program.now = self._now
            if self._undoes:
                with program.undoing(self._now[0]):
                    refused = self._enter(self._plan, args, *results)
            else:
                refused = self._enter(self._plan, args, *results)
        if refused:
            _refuse(refused, program.checks)
        return refused is None


def _refuse(flags: int, words: list[str]) -> None:
    from chainrule.compile.graph.rules.index_checks import refuse

    refuse(flags, words)
