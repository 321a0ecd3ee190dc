"""Where scratch memory lies: what does not live at the same time shares it.

Buffers are placed largest first, each at the lowest offset at which it meets no buffer that lives
while it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.loops.expressions import Buffer

if TYPE_CHECKING:
    from chainrule.compile.loops.statements import Loops

ALIGN = 64


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """An offset in bytes for each scratch buffer, and how many bytes there are in all."""

    offsets: tuple[int, ...]
    size: int


def lifetimes(program: Loops, scratch: list[Buffer]) -> dict[Buffer, tuple[int, int]]:
    """The numbers of the first and the last kernel that use each buffer."""
    wanted = set(scratch)
    out: dict[Buffer, tuple[int, int]] = {}
    for i, k in enumerate(program.kernels):
        for b in [b for side in k.buffers() for b in side if b in wanted]:
            out[b] = (out.get(b, (i, i))[0], i)
    return out


def plan(
    scratch: list[Buffer], lives: Mapping[Buffer, tuple[int, int]], symbols: Mapping[str, int]
) -> Plan:
    """Offsets for sizes in which the symbols have these values."""
    sizes = {b: -(-size_at(b.size, symbols) * b.dtype.itemsize // ALIGN) * ALIGN for b in scratch}
    placed: list[tuple[int, int, Buffer]] = []
    where: dict[Buffer, int] = {}
    for b in sorted(scratch, key=lambda b: -sizes[b]):
        start, end = lives[b]
        at = 0
        for low, high, other in sorted(placed, key=lambda p: p[0]):
            first, last = lives[other]
            if first <= end and start <= last and low < at + sizes[b] and at < high:
                at = high
        where[b] = at
        placed.append((at, at + sizes[b], b))
    size = max([high for _, high, _ in placed], default=0)
    return Plan(tuple([where[b] for b in scratch]), size)
