"""A tape as kernels, one statement for each operation: also what has no loops can be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from chainrule.compile.export.scalars.copies import chosen_kernel, copied, filled, whole
from chainrule.compile.export.scalars.pieces import Piece
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs
from chainrule.compile.loops.statements import Kernel, Stmt, Store
from chainrule.compile.scalars.formulas import arity, computed, partial
from chainrule.compile.scalars.gathers import Choice
from chainrule.compile.scalars.machine import all_codes
from chainrule.compile.scalars.reroll.row_expressions import F64, Written
from chainrule.compile.scalars.reroll.units import Recorded
from chainrule.errors import TraceError
from chainrule.ops.families import rows

MOST: Final = 20_000
"""Operations of a tape that is written out."""
AT_ONCE: Final = 128
"""Statements of a kernel."""


def straight_line(tape: Recorded, chosen: Buffer, *, backward: bool, what: str, why: str) -> Piece:
    """A tape as a piece of a program, with what it needs to go `backward`, or without. `why` says
    why it has no loops; `chosen` are the indices of its gathers. Raises `TraceError` for `what`
    where it is too long, or has a function that the loop language has not."""
    if len(tape.code) > MOST:
        raise TraceError(
            f"{what}: it is a tape of {len(tape.code):,} operations, one after the other, and at "
            f"most {MOST:,} are written down; it is not loops because {why}"
        )
    return _Tape(tape, chosen, what).piece(backward=backward)


@final
class _Tape:
    """A tape as it is being written."""

    def __init__(self, tape: Recorded, chosen: Buffer, what: str) -> None:
        self._tape, self._chosen, self._what = tape, chosen, what
        self._labels = {code: label for label, code in all_codes().items()}
        self._make = Exprs()
        self.x = Buffer("values", F64, (tape.size,), "scratch")
        self.g = Buffer("gradients", F64, (tape.size,), "scratch")
        gathers = tape.gathers
        self._table = Buffer("chosen_places", np.dtype(np.int64), (len(gathers.lines),), "scratch")
        self._gather_of = {int(line): i for i, line in enumerate(gathers.lines)}

    def piece(self, *, backward: bool) -> Piece:
        """All of it."""
        tape, n = self._tape, len(self._tape.code)
        before: list[Kernel] = []
        ranges: dict[Buffer, tuple[int, int]] = {}
        constants = tape.base - tape.leaves
        if self._gather_of:
            choice: Choice = tape.gathers.choice
            before.append(
                chosen_kernel(self._table, whole(len(self._gather_of)), choice, self._chosen)
            )
            ranges[self._table] = int(choice.flat.min()), int(choice.flat.max())
            if constants:
                held = Buffer("constants", F64, (constants,), "constant", tape.constant_data)
                places = tape.leaves + whole(constants)
                before.append(copied(self.x, places, held, whole(constants)))
        forward = [*before, *self._kernels("forward", range(n), self._ahead)]
        results = [(self.x, int(r)) for r in tape.results]
        if not backward:
            return Piece(self.x, forward, results, ranges=ranges)
        one = self._make.lit(1.0, F64)
        start: list[Kernel] = [
            _cleared(self.g),
            Kernel(
                "start", (Store(self.g, Affine(int(tape.results[0])), one),), ("start float64[]",)
            ),
        ]
        back = [*start, *self._kernels("backward", range(n - 1, -1, -1), self._back)]
        return Piece(self.x, forward, results, back, self.g, ranges)

    def _kernels(self, name: str, order: Sequence[int], write: Any) -> Iterator[Kernel]:
        for n in range(0, len(order), AT_ONCE):
            lines = order[n : n + AT_ONCE]
            body: list[Stmt] = [s for i in lines for s in write(i)]
            if body:
                yield Kernel(f"{name}{n}", tuple(body), self._about(lines))

    def _about(self, lines: Sequence[int]) -> tuple[str, ...]:
        places: dict[str, None] = {}
        for i in lines:
            number, line = [int(x) for x in self._tape.lines[i]]
            if number:
                places[f"  {self._tape.files[number]}:{line}"] = None
        first = next(iter(places), "")
        return (f"operations float64[{len(lines)}]{first}",)

    def _operands(self, i: int) -> tuple[list[Affine], list[Written], str]:
        tape, make = self._tape, self._make
        label = self._labels[int(tape.code[i])]
        sides = [int(tape.left[i]), int(tape.right[i])][: arity(label)]
        places = [Affine(p) for p in sides]
        if i in self._gather_of:
            places[0] = Affine.of(make.load(self._table, Affine(self._gather_of[i])))
        return places, [self._value(at) for at in places], label

    def _value(self, at: Affine) -> Written:
        tape, n = self._tape, at.const
        e: Expr
        if not at.terms and isinstance(n, int) and tape.leaves <= n < tape.base:
            e = self._make.lit(float(tape.constant_data[n - tape.leaves]), F64)
        else:
            e = self._make.load(self.x, at)
        return Written(self._make, e)

    def _ahead(self, i: int) -> list[Stmt]:
        _, xs, label = self._operands(i)
        try:
            y = computed(label, xs)
        except TypeError as unknown:
            raise TraceError(f"{self._what}: {label} cannot be written down: {unknown}") from None
        return [Store(self.x, Affine(self._tape.base + i), y.e)]

    def _back(self, i: int) -> list[Stmt]:
        """g[operand] += g * d, for operands that have a gradient; nothing of a zero."""
        places, xs, label = self._operands(i)
        need = int(self._tape.need[i])
        if not need or label not in rows:
            return []
        at = Affine(self._tape.base + i)
        y, g = self._value(at), Written(self._make, self._make.load(self.g, at))
        out: list[Stmt] = []
        for n, place in enumerate(places):
            if need >> n & 1:
                try:
                    d = partial(rows[label], n, y, xs)
                except TypeError as unknown:
                    raise TraceError(
                        f"{self._what}: the derivative of {label} cannot be written down: {unknown}"
                    ) from None
                one = d.e.kind == "lit" and d.e.of == 1.0
                more = g.e if one else self._make.fn("strong_mul", g.e, d.e)
                out.append(Store(self.g, place, more, add=True))
        return out


def _cleared(b: Buffer) -> Kernel:
    n = b.size
    assert isinstance(n, int), "tapes have no symbols"
    return Kernel("zeros", filled(b, whole(n), 0.0).body, (f"zeros float64[{n}]",))
