"""A tape that was rolled up, as machine code: results, and their derivatives with respect to all
leaves."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, final

import llvmlite.binding
import numpy as np

from chainrule.compile.cpu.program_module import emit
from chainrule.compile.llvm.function_calls import LIBRARY
from chainrule.compile.llvm.host_target import host
from chainrule.compile.loops import memory
from chainrule.compile.loops.expressions import Affine
from chainrule.compile.loops.statements import Loops, Store
from chainrule.compile.runtime import build
from chainrule.compile.runtime.machine_code import compile_object, load
from chainrule.compile.runtime.result_memory import Lender
from chainrule.compile.runtime.scratch import Block, Layout
from chainrule.compile.scalars.formulas import LIBM
from chainrule.compile.scalars.gathers import NONE, Chosen
from chainrule.compile.scalars.machine import address_of
from chainrule.compile.scalars.reroll.backward import Backward
from chainrule.compile.scalars.reroll.family import CONSTANTS, LEAVES, PARAMETERS, Families
from chainrule.compile.scalars.reroll.forward import write_forward, write_together
from chainrule.compile.scalars.reroll.fusion import Groups
from chainrule.compile.scalars.reroll.loops import Writer
from chainrule.compile.scalars.reroll.row_expressions import INT
from chainrule.compile.scalars.reroll.units import Recorded
from chainrule.engine.op import Array

llvm: Any = llvmlite.binding


@final
class Code:
    """Machine code for families, whatever their tables and constants hold."""

    def __init__(self, written: tuple[Loops, list[Any]], *, any_order: bool = False) -> None:
        self.loops, objects = written
        if build.CHECKING:
            from chainrule.compile.loops.check.checker import check

            check(self.loops)
        scratch = [b for b in self.loops.buffers if b.role == "scratch"]
        lives = memory.lifetimes(self.loops, scratch)
        scratch = [b for b in scratch if b in lives]
        exact = replace(host(), threads=False, libraries=False)
        target = replace(exact, library_functions=not any_order, contract=any_order)
        module = emit(self.loops, objects, scratch, target)
        _link_library()
        self._program = load(compile_object(str(module.ir)))
        self.entry = ctypes.cast(self._program.call, ctypes.c_void_p).value or 0
        """The address of the machine code."""
        layout = Layout((), objects, [], scratch, lives)
        self._block = Block(layout, (), Lender(), named=False)
        self.memory = self._block.scratch, self._block.sizes
        self.objects = objects
        """The memory that a caller has."""
        self.lock = threading.Lock()
        """For the memory that all who run this share."""

    def arrays(self) -> list[Array]:
        """New memory for what a caller has."""
        return [np.zeros(b.shape, b.dtype) for b in self.objects]

    def run(self, addresses: Any) -> None:
        """Run it for the arrays that lie there."""
        self._program.call(addresses, self._block.scratch, self._block.sizes, 0, None)


@final
class Rolled:
    """The families of a tape as a program: `code`, and the tables and constants that go into it.

    That no table leads out of bounds needs no check: each entry is where an operand lies.
    """

    def __init__(self, tape: Recorded, made: Families, code: Code) -> None:
        self.families = made
        self.code = code
        self.spots = made.spots
        self.first = tape.given if made.sizes is None else made.sizes.first
        """Where the numbers of the state begin."""
        self.arrays = code.arrays()
        constants, parameters, sizes, *tables = self.arrays[_CONSTANTS:]
        constants[: len(tape.constant_data)] = tape.constant_data
        if made.sizes is not None:
            parameters[: len(made.sizes.parameters)] = made.sizes.parameters
            sizes[: len(made.sizes.numbers)] = made.sizes.numbers
        for array, table in zip(tables, made.tables(), strict=True):
            array[:] = table.values
        self.numbers, self.seeds, self.out, self.slopes = self.arrays[:_CONSTANTS]
        self.choices = [
            (array, *made.chosen[id(table)])
            for array, table in zip(tables, made.tables(), strict=True)
            if id(table) in made.chosen
        ]
        self.addresses = (ctypes.c_void_p * len(self.arrays))(*map(id, self.arrays))

    def share(self, numbers: Array, slopes: Array) -> None:
        """Let this be the memory of the numbers and of their derivatives."""
        with self.code.lock:
            self.numbers, self.slopes = numbers, slopes
            self.addresses[_NUMBERS], self.addresses[_SLOPES] = id(numbers), id(slopes)

    def run(self, numbers: Array, chosen: Chosen = NONE) -> tuple[Array, Array]:
        """What `Tape.run` gives."""
        x, seeds, out, slopes = self.numbers, self.seeds, self.out, self.slopes
        n, count = len(numbers), len(self.families.results)
        derivatives = np.empty((count, n))
        with self.code.lock:
            x[self.spots] = numbers
            for table, at, choice in self.choices:
                table[at] = choice.addresses(chosen)
            for i in range(count):
                seeds[:] = 0.0
                seeds[i] = 1.0
                self.code.run(self.addresses)
                derivatives[i] = slopes[self.spots]
            return out[:count].copy(), derivatives

    def once(self, floats: Sequence[float], state: Array, chosen: Chosen) -> tuple[float, Array]:
        """The result, the only one, and its derivatives with respect to all there is room for but
        `floats`, the first; `state` are the numbers of the others, room by room."""
        x, seeds, out, slopes = self.numbers, self.seeds, self.out, self.slopes
        first = self.first
        with self.code.lock:
            x[: len(floats)] = floats
            x[first:] = state
            for table, at, choice in self.choices:
                table[at] = choice.addresses(chosen)
            seeds[0] = 1.0
            self.code.run(self.addresses)
            return float(out[0]), slopes[first:].copy()


@final
class Straight:
    """The families of a tape without derivatives as a program: all results of a run. Those of some
    families are where leaves were, at these `homes`."""

    def __init__(
        self, tape: Recorded, made: Families, code: Code, homes: Mapping[int, int]
    ) -> None:
        self.families = made
        self.code = code
        self.arrays = code.arrays()
        self.leaves, constants, *rest = self.arrays
        constants[: len(tape.constant_data)] = tape.constant_data
        tables = made.tables()
        for array, table in zip(rest, tables, strict=False):
            array[:] = table.values
        sources = [i for i in _sources(made) if i not in homes]
        outputs = dict(zip(sources, rest[len(tables) :], strict=True))
        for i, at in homes.items():
            outputs[i] = self.leaves[at : at + made.families[i].size]
        outputs |= {LEAVES: self.arrays[0], CONSTANTS: constants}
        self.homes = homes
        self._results = made.results
        self._sources = outputs
        self._rows: dict[tuple[int, int], Callable[[], Array]] = {}
        self.addresses = (ctypes.c_void_p * len(self.arrays))(*map(id, self.arrays))

    def run(self, fill: Callable[[Array], None]) -> None:
        """Compute the results for the numbers of all leaves, which `fill` writes to an array."""
        with self.code.lock:
            fill(self.leaves)
            self.code.run(self.addresses)

    def results(self, start: int, stop: int) -> Array:
        """Results of the latest run; the next one may write over them."""
        if (start, stop) not in self._rows:
            self._rows[start, stop] = self._row(start, stop)
        return self._rows[start, stop]()

    def _row(self, start: int, stop: int) -> Callable[[], Array]:
        """Gives results: their memory, if they lie in a row; else it collects them."""
        wanted = self._results[start:stop]
        sources = {source for source, _ in wanted}
        if len(sources) == 1:
            array, places = self._sources[sources.pop()], _in_a_row([at for _, at in wanted])
            return lambda: array[places]
        parts = [(self._sources[s], *_places(wanted, s)) for s in sources]

        def collected() -> Array:
            out = np.empty(stop - start)
            for array, to, places in parts:
                out[to] = array[places]
            return out

        return collected


def _sources(made: Families) -> list[int]:
    """The families that have results."""
    return sorted({source for source, _ in made.results if source >= 0})


def _places(results: Sequence[tuple[int, int]], source: int) -> tuple[Any, Any]:
    """Which results a source has, and where these lie in it: slices, if they lie in a row."""
    to = [i for i, (s, _) in enumerate(results) if s == source]
    return _in_a_row(to), _in_a_row([results[i][1] for i in to])


def _in_a_row(places: list[int]) -> Any:
    first = places[0]
    if places == list(range(first, first + len(places))):
        return slice(first, first + len(places))
    return np.array(places, np.int64)


def written_straight(
    tape: Recorded, made: Families, homes: Mapping[int, int], *, any_order: bool = False
) -> tuple[Loops, list[Any]]:
    """The kernels of a tape without derivatives, and the buffers that a caller has: numbers of the
    leaves, constants, tables; the numbers of families with results, but for those with `homes`."""
    w = Writer({}, {}, tape.constant_data, homes=homes, any_order=any_order)
    w.values[LEAVES] = w.buffer("x", tape.room, "state" if homes else "input")
    w.values[CONSTANTS] = w.buffer("c", len(tape.constant_data), "input")
    for i, table in enumerate(made.tables()):
        w.tables[id(table.values)] = w.buffer(
            f"t{i}", len(table.values), "input", table.values.dtype
        )
    for i in [i for i in _sources(made) if i not in homes]:
        w.values[i] = w.buffer(f"v{i}", made.families[i].size, "result")
    objects = list(w.buffers)
    groups = Groups(made)
    for i, family in enumerate(made.families):
        if i in groups.stored and i not in w.values and i not in homes:
            w.values[i] = w.buffer(f"v{i}", family.size, "scratch")
    for group in groups.all:
        if len(group) == 1:
            write_forward(w, group[0], made.families[group[0]])
        else:
            write_together(w, group, made.families, groups.stored)
    return Loops(w.buffers, w.kernels), objects


_NUMBERS, _SLOPES, _CONSTANTS = 0, 3, 4
"""Places among the arrays; from the last on they stay as they are: constants, parameters, sizes,
then tables."""


def written(tape: Recorded, made: Families, *, any_order: bool = False) -> tuple[Loops, list[Any]]:
    """The kernels, and the buffers that a caller has: numbers of the leaves, what gradients of the
    results start with; results, gradients of the leaves; constants, parameters, sizes, tables.
    Sums are added up in `any_order`, or in that of the program."""
    w = Writer({}, {}, tape.constant_data, any_order=any_order)
    w.values[LEAVES] = w.buffer("x", made.room, "input")
    seeds = w.buffer("seeds", len(made.results), "input")
    out = w.buffer("y", len(made.results), "result")
    w.adjoints[LEAVES] = w.buffer("dx", made.room, "result")
    _take_constants(w, len(tape.constant_data), made)
    for i, table in enumerate(made.tables()):
        w.tables[id(table.values)] = w.buffer(
            f"t{i}", len(table.values), "input", table.values.dtype
        )
    objects = list(w.buffers)
    for i, family in enumerate(made.families):
        w.values[i] = w.buffer(f"v{i}", family.size, "scratch")
        w.adjoints[i] = w.buffer(f"g{i}", family.size, "scratch")
    for i, family in enumerate(made.families):
        write_forward(w, i, family)
    for i, (source, _) in enumerate(made.results):
        value = w.make.load(w.values[source], w.result(made, i))
        w.kernel(f"y{i}", [Store(out, Affine(i), value)], "a result")
    Backward(w, made).write(seeds)
    return Loops(w.buffers, w.kernels), objects


def _take_constants(w: Writer, constants: int, made: Families) -> None:
    """Memory of constants, and of what runs of other sizes have others of."""
    sizes = made.sizes
    w.values[CONSTANTS] = w.buffer("c", sizes.constants if sizes else constants, "input")
    w.values[PARAMETERS] = w.buffer("p", len(sizes.parameters) if sizes else 0, "input")
    w.most = sizes.most if sizes else ()
    w.sizes = w.buffer("n", len(w.most), "input", INT)


@cache
def _link_library() -> None:
    """Let machine code find the C library's functions by the names that it has for them."""
    for name in LIBM:
        llvm.add_symbol(LIBRARY + name, address_of(name))
