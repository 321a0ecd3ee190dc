"""A program as one C file: its phases, and the arrays of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from chainrule.compile.c import comments
from chainrule.compile.c.arrays import SPOKEN, Array, describe_memory
from chainrule.compile.c.functions_file import FunctionsFile
from chainrule.compile.c.main import Reading
from chainrule.compile.c.names import Namer, check_symbols
from chainrule.compile.c.phases import Phase, split, with_distinct_results
from chainrule.compile.export.call_data import InputInfo
from chainrule.compile.graph.complex_parts import as_lying, lying
from chainrule.compile.graph.sizes import Size
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Loops
from chainrule.compile.lower.kernels import write
from chainrule.compile.lower.matmul_choice import is_large
from chainrule.compile.lower.plan import Plan
from chainrule.compile.lower.planning import plan
from chainrule.compile.target import Target

_C99 = Target()
"""Nothing is known of the processor, so that the text is the same everywhere."""


@final
class Source:
    """`text()` is the file.

    `state` and `each_step` are the inputs that `main` reads, by number, in order: once, and at
    every step; constants are read after the state. With `checks`, the last result of `program`
    tells of indices that were outside; they say what each of its bits stands for. `results` are the
    names of the others.
    """

    def __init__(
        self,
        program: Program,
        given: Sequence[InputInfo],
        results: Sequence[str],
        *,
        largest: Mapping[str, int],
        checks: Sequence[str] = (),
    ) -> None:
        program = with_distinct_results(as_lying(program))
        self.checks = list(checks)
        self.program, self.given, self.largest = program, given, largest
        gradients = frozenset([i for i, g in enumerate(given) if g.gradient])
        self.phases = split(program, gradients)
        sizes = [n for t in program.inputs for n in t.shape if isinstance(n, Size)]
        symbols = sorted({s for n in sizes for s in n.symbols})
        check_symbols(symbols)
        self.namer = Namer(symbols)
        self.file = FunctionsFile(self.namer, largest)
        self.slots: dict[Term, Array] = {}
        self.temporary: dict[str, list[Array]] = {p.name: [] for p in self.phases}
        self.constants: list[Array] = []
        self.state = [i for i, g in enumerate(given) if g.read and not g.each_step]
        self.each_step = [i for i, g in enumerate(given) if g.each_step]
        for t, g in zip(program.inputs, given, strict=True):
            shape, dtype = lying(t.shape, t.dtype)
            self.slots[t] = Array(self.namer(g.path), g.path, dtype, shape, f"; {g.about}")
        found = self._results([*results, *(["outside"] if checks else [])])
        self.outside = found[-1] if checks else None
        self.results = found[: len(results)]
        for p in self.phases:
            self._keep(p)
        for p in self.phases:
            self._write(p)

    # --- memory

    def _results(self, names: Sequence[str]) -> list[Array]:
        out: list[Array] = []
        for t, name in zip(self.program.results, names, strict=True):
            if t not in self.slots:
                made = f"; {t.name}, {comments.where(t)}".rstrip(", ")
                self.slots[t] = Array(self.namer(name), name, t.dtype, t.shape, made)
            out.append(self.slots[t])
        return out

    def _keep(self, p: Phase) -> None:
        """Arrays for what `p` leaves to others."""
        names = comments.names_of_results(in_order(self.program.roots))
        for t in p.results:
            if t not in self.slots:
                path = names.get(t, SPOKEN.get(t.name, t.name))
                made = f"; {t.name}, {comments.where(t)}".rstrip(", ")
                self.slots[t] = Array(self.namer(path), path, t.dtype, t.shape, made)

    def _arrays(self, p: Phase, made: Plan, program: Loops) -> dict[Buffer, Array]:
        """By buffer of a phase, its array."""
        ins = [self.slots[s] for s in p.inputs]
        known = dict(zip(made.inputs, ins, strict=True))
        known |= {b: self.slots[t] for b, t in zip(made.memory.results, p.results, strict=True)}
        for b in [b for b in program.buffers if b not in known]:
            path = (
                describe_memory(b.label or b.name, b.shape, ins)
                if b.role != "constant"
                else "constant"
            )
            array = Array(self.namer(path), path, b.dtype, b.shape, "", b.value)
            known[b] = array
            (self.temporary[p.name] if b.value is None else self.constants).append(array)
        return known

    # --- kernels

    def _write(self, p: Phase) -> None:
        made = plan(p.program, _C99, is_large)
        program = write(made)
        arrays = self._arrays(p, made, program)
        self.file.add_phase(p.name, program.kernels, arrays, program.symbols)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes that the program is told."""
        return self.file.symbols

    # --- the file

    def text(self, title: Sequence[str], data: str, steps: int) -> str:
        """The file; `title` are lines of its first comment, `data` is the name of the data's,
        `steps` how many `main` takes unless it is told."""
        return self.file.text(title, self._sections(), self._reading(), data, steps)

    def _reading(self) -> Reading:
        inputs = [self.slots[t] for t in self.program.inputs]
        state = [inputs[i] for i in self.state]
        once = [*state, *self.read_constants]
        each_step = [inputs[i] for i in self.each_step]
        return Reading(once, state, each_step, self.results, self.outside, self.checks)

    @property
    def read_constants(self) -> list[Array]:
        """The constants that are too large for the text."""
        return [a for a in self.constants if not a.is_inline]

    def _sections(self) -> list[tuple[str, list[Array]]]:
        """The arrays, by what they are."""
        inputs = [self.slots[t] for t in self.program.inputs]
        kept = [a for a in self.slots.values() if a not in inputs and a not in self.results]
        results = [a for a in self.results if a not in inputs]
        unread = [x for x, g in zip(inputs, self.given, strict=True) if not g.read]
        return [
            ("given anew at every step", [inputs[i] for i in self.each_step]),
            ("the state, which lives on from step to step", [inputs[i] for i in self.state]),
            ("written anew at every step", unread),
            ("constants", self.constants),
            ("results", results),
            ("kept for later parts of the step", kept),
            *[(f"used within {name}() only", found) for name, found in self.temporary.items()],
        ]
