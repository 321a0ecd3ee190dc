"""Lanes whose places are neither neighbours nor anything: they go through memory in a pattern.

Two counters as one (see `loops/collapse.py`) leave offsets with the upper and the lower bits of a
counter, i >> k and i & (2^k - 1). In a vector that begins at a multiple of W these are numbers that
are known, beside one that is not.

| lanes go | from memory | to memory |
|---|---|---|
| through a window of W numbers | the window, its numbers exchanged | if each gets one, the same |
| in runs of 2^k | run by run | run by run |
| to every second of 2 W, as the real parts of complex numbers | under a mask | under a mask |

What lies between lanes is not written, and not read where it need not be there.

Notation: W lanes of a vector; `b` the builder; `at` the address of the first lane's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from llvmlite import ir

from chainrule.compile.graph.sizes import Extent, divide
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.lanes import Lanes
from chainrule.compile.llvm.numbers import I1, I64, Value
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, counter_bits
from chainrule.compile.loops.statements import Store
from chainrule.compile.target import Target

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter

WIDE = 64
"""Bytes of a register from which on there are such masks: AVX-512."""
_I32 = ir.IntType(32)


# --- upper and lower bits of a counter -----------------------------------------------------------


def known_bits(e: Emitter, x: Expr, lanes: Lanes) -> tuple[Value, list[int]] | None:
    """Bits of the counter of the lanes as a number that all have in common, and another one for
    each; None if `x` is something else."""
    found = counter_bits(x)
    if found is None or lanes.var not in x.free:
        return None
    index, upper, k = found
    fits = [c for v, c in index.terms if v is not lanes.var]
    unit = 1 << k
    if index.coefficient(lanes.var) != 1 or lanes.width % unit:
        return None
    if any(divide(c, unit) is None for c in (index.const, *fits)):
        return None
    each = [n >> k if upper else n & (unit - 1) for n in range(lanes.width)]
    if not upper:
        return ir.Constant(I64, 0), each
    start = e.affine(index)
    if isinstance(start, ir.Constant):
        return ir.Constant(I64, start.constant >> k), each
    shift = ir.Constant(I64, k)
    return e.known.get_or_make(("upper", start, k), lambda: e.b.ashr(start, shift)), each


@final
@dataclass(frozen=True, slots=True)
class Pattern:
    """Offsets of lanes: `start`, and for each of `steps` an extent times a number for each lane.
    `stays`: it starts at the same place for all vectors of a loop."""

    start: Value
    steps: Sequence[tuple[Extent, Sequence[int]]]
    stays: bool = False

    def numbers(self) -> list[int] | None:
        """By lane how far it is from the start; None where that is not known."""
        total = [0] * len(self.steps[0][1])
        for c, each in self.steps:
            if not isinstance(c, int):
                return None
            total = [t + c * n for t, n in zip(total, each, strict=True)]
        return total

    def runs(self) -> tuple[int, Sequence[Extent]] | None:
        """How many lanes follow each other, and where these runs begin, from the start on."""
        width = len(self.steps[0][1])
        apart = [(c, n) for c, n in self.steps if c != 1]
        close = [sum(n) for n in zip(*[n for c, n in self.steps if c == 1], strict=True)]
        length = width
        while length > 1 and close != [n % length for n in range(width)]:
            length //= 2
        if length == 1 or not apart:
            return None
        starts: list[Extent] = []
        for first in range(0, width, length):
            at: Extent = 0
            for c, n in apart:
                if any(x != n[first] for x in n[first : first + length]):
                    return None
                at = c * n[first] + at
            starts.append(at)
        return length, starts


def find(e: Emitter, at: Affine, lanes: Lanes) -> Pattern | None:
    """The pattern of an offset; None if it has none."""
    steps: list[tuple[Extent, Sequence[int]]] = []
    alike: list[tuple[Any, Extent]] = []
    uppers: list[tuple[Value, Extent]] = []
    stays = True
    for v, c in at.terms:
        if isinstance(v, Expr) and lanes.var in v.free:
            bits, of = known_bits(e, v, lanes), counter_bits(v)
            if bits is None or of is None:
                return None
            uppers.append((bits[0], c))
            steps.append((c, bits[1]))
            stays = stays and not of[1]
        elif isinstance(v, Expr) and nums.lanes_of(e.value(v)):
            return None
        else:
            alike.append((v, c))
            if v is lanes.var:
                steps.append((c, range(lanes.width)))
                stays = False
    if not uppers:
        return None
    b, start = e.b, e.affine(Affine(at.const, tuple(alike)))
    for upper, c in uppers:
        if not isinstance(upper, ir.Constant) or upper.constant:
            start = b.add(start, b.mul(upper, e.extent(c)))
    return Pattern(start, steps, stays)


def load_pattern(e: Emitter, buffer: Buffer, at: Affine, lanes: Lanes) -> Value | None:
    """The elements there, as they are in memory; None where the pattern is not one of those. Of
    lanes that do not count it may be anything."""
    found = find(e, at, lanes)
    if found is None:
        return None
    b, kind, size = e.b, nums.in_memory(buffer.dtype), buffer.dtype.itemsize
    whole = lanes.mask is None
    numbers = found.numbers()
    if numbers is not None and min(numbers) >= 0 and max(numbers) < lanes.width:
        wide = _window(max(numbers))
        full = {*numbers} == {*range(wide)}
        again = found.stays and _is_periodic(lanes, numbers)
        if min(numbers) == 0 and full and (whole or again):
            place = b.gep(e.pointers[buffer], [found.start], source_etype=kind)
            got = b.load(place, typ=nums.in_memory(buffer.dtype, wide), align=size)
            return b.shuffle_vector(got, nums.anything(got.type), _order(numbers))
    runs = found.runs()
    if runs is None or not whole:
        return None
    length, starts = runs
    parts = [
        b.load(
            b.gep(e.pointers[buffer], [_from(e, found.start, n)], source_etype=kind),
            typ=nums.in_memory(buffer.dtype, length),
            align=size,
        )
        for n in starts
    ]
    while len(parts) > 1:
        both = _order(range(2 * nums.lanes_of(parts[0])))
        parts = [b.shuffle_vector(x, y, both) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def store_pattern(e: Emitter, s: Store, value: Value, lanes: Lanes) -> bool:
    """Store a vector, if its lanes go in one of the patterns: whether that was done."""
    found = find(e, s.at, lanes) if lanes.mask is None and not s.add else None
    if found is None:
        return False
    b, kind, size = e.b, nums.in_memory(s.buffer.dtype), s.buffer.dtype.itemsize
    numbers, nothing = found.numbers(), nums.anything(value.type)
    if numbers is not None and sorted(numbers) == [*range(lanes.width)]:
        back = [numbers.index(n) for n in range(lanes.width)]
        place = b.gep(e.pointers[s.buffer], [found.start], source_etype=kind)
        b.store(b.shuffle_vector(value, nothing, _order(back)), place, align=size)
        return True
    runs = found.runs()
    if runs is None:
        return False
    length, starts = runs
    for i, n in enumerate(starts):
        part = b.shuffle_vector(value, nothing, _order(range(i * length, (i + 1) * length)))
        place = b.gep(e.pointers[s.buffer], [_from(e, found.start, n)], source_etype=kind)
        b.store(part, place, align=size)
    return True


def _from(e: Emitter, start: Value, n: Extent) -> Value:
    """An offset `n` further on."""
    return start if n == 0 else e.b.add(start, e.extent(n))


def _window(last: int) -> int:
    """The power of two that is above `last`."""
    return 1 << last.bit_length()


def _is_periodic(lanes: Lanes, numbers: Sequence[int]) -> bool:
    """Whether those lanes that count go to all places of the others, too, if there are any."""
    period = next(
        p for p in range(1, len(numbers) + 1) if [*numbers] == _again(numbers[:p], numbers)
    )
    return divide(lanes.var.extent, period) is not None


def _again(part: Sequence[int], numbers: Sequence[int]) -> list[int]:
    return [part[i % len(part)] for i in range(len(numbers))]


# --- every second number -------------------------------------------------------------------------


def pay(target: Target, dtype: Any) -> bool:
    """Whether that is faster than number by number: with masks that are registers of their own."""
    return target.vector >= WIDE and dtype.kind == "f"


def load_pairs(b: Any, at: Value, dtype: Any, width: int, mask: Value | None = None) -> Value:
    """The parts of W pairs; 0 where there is a mask and it says no."""
    kind = nums.in_memory(dtype, 2 * width)
    nothing, wanted = nums.anything(kind), _every_second(width)
    rest = nothing if mask is None else ir.Constant(kind, None)
    if mask is not None:
        off = ir.Constant(mask.type, None)
        pairs = [n // 2 if n % 2 == 0 else width for n in range(2 * width)]
        wanted = b.shuffle_vector(mask, off, _order(pairs))
    both = nums.masked_load(b, at, kind, wanted, rest, dtype.itemsize)
    return b.shuffle_vector(both, nothing, _order(range(0, 2 * width, 2)))


def store_pairs(b: Any, at: Value, value: Value, dtype: Any) -> None:
    """The inverse."""
    width = nums.lanes_of(value)
    twice = [n // 2 for n in range(2 * width)]
    wide = b.shuffle_vector(value, nums.anything(value.type), _order(twice))
    nums.masked_store(b, wide, at, _every_second(width), dtype.itemsize)


def _every_second(width: int) -> Value:
    lanes = [ir.Constant(I1, n % 2 == 0) for n in range(2 * width)]
    return ir.Constant(ir.VectorType(I1, 2 * width), lanes)


def _order(lanes: Iterable[int]) -> Value:
    found = list(lanes)
    return ir.Constant(ir.VectorType(_I32, len(found)), found)
