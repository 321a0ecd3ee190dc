"""Packing: operands copied into the order in which lanes read them.

Lanes read neighbours at once and anything else number by number. An operand may be used several
times along other loops, as a matrix is by every position. It is first copied, so that its elements
along the lanes are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import final

from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.statements import Store
from chainrule.compile.scalars.reroll.loops import Loop, Writer, in_order, is_plain, nested, varies
from chainrule.compile.scalars.reroll.row_expressions import Written

USES = 4
"""An operand is copied from so many uses on."""


@final
class Packing:
    """What a kernel reads over `lanes`, of all its `loops`."""

    def __init__(self, w: Writer, name: str, loops: Sequence[Loop], lanes: Var | None) -> None:
        self._w = w
        self._name = name
        self._loops = loops
        self._lanes = lanes

    def read(self, x: Written) -> Written:
        """An operand as it is to be read; where that pays, a copy's element."""
        w, lanes = self._w, self._lanes
        if lanes is None or x.e.kind != "load":
            return x
        buffer, at, _ = x.e.of
        loops = [y for y in self._loops if varies(at, y.var) and y.var is not lanes]
        mine = [y for y in self._loops if y.var is lanes]
        sizes = [y.extent for y in [*loops, *mine]]
        uses = prod([y.extent for y in self._loops]) // prod(sizes)
        if at.coefficient(lanes) in (0, 1) or not is_plain(at, lanes) or uses < USES:
            return x
        if not in_order([*loops, *mine]):
            return x
        copy = w.buffer(f"p{len(w.buffers)}", prod(sizes), "scratch")
        to = Affine()
        for i, y in enumerate([*loops, *mine]):
            to += Affine.of(y.var) * prod(sizes[i + 1 :])
        body = nested([*loops, *mine], [Store(copy, to, x.e)])
        w.kernel(f"pack_{self._name}", body, f"{buffer} as {self._name} reads it")
        return Written(w.make, w.make.load(copy, to))
