"""Where a program reads and writes: within its buffers, after they were written, apart in memory.

An interval is (lowest, highest), of whole numbers or infinities.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NoReturn, final

from chainrule.compile.graph.sizes import Extent, size_at
from chainrule.compile.loops.accesses import accesses_of
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Var
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Kernel,
    Loops,
    Product,
    Stmt,
    While,
    statements,
)

Interval = tuple[float, float]
ANY: Interval = (-math.inf, math.inf)
_TRIED: tuple[int, ...] = (7, 3, 12, 1, 64)


@final
class SpecError(AssertionError):
    """A program that is none: a mistake of the compiler, never of its user."""


def refuse(kernel: Kernel, s: Stmt, why: str) -> NoReturn:
    """Raise `SpecError`, with the statement as it is printed."""
    text = str(Kernel(kernel.name, (s,))).partition("\n")[2]
    raise SpecError(f"{kernel.name}: {why}:\n{text}")


# --- before it is read, it is written ------------------------------------------------------------


def check_order(program: Loops) -> None:
    """Refuse what reads scratch memory or a result before it is written, and a result that never
    is."""
    written: set[Buffer] = set()
    for k in program.kernels:
        for s in statements(k.body):
            for x in accesses_of(s):
                if x.writes:
                    written.add(x.buffer)
                elif x.buffer.role in ("scratch", "result") and x.buffer not in written:
                    refuse(k, s, f"{x.buffer} is read before it is written")
    for b in program.buffers:
        if b.role == "result" and b not in written and b.size != 0:
            raise SpecError(f"the result {b} is never written")


# --- within its buffer ---------------------------------------------------------------------------


def inside(program: Loops) -> dict[str, int]:
    """Refuse what reads or writes outside of a buffer for all values of the symbols that are tried;
    the first values for which nothing does.

    What a condition guards, and what data decides, is not looked at.
    """
    first: SpecError | None = None
    for values in product(_TRIED, repeat=len(program.symbols)):
        symbols: dict[str, int] = dict(zip(program.symbols, values, strict=True))
        try:
            for k in program.kernels:
                _OffsetChecker(k, symbols).body(k.body)
        except SpecError as error:
            first = first or error
        else:
            return symbols
    assert first is not None
    raise first


@final
class _OffsetChecker:
    """Checks the offsets of a kernel where the symbols have these values."""

    def __init__(self, kernel: Kernel, symbols: Mapping[str, int]) -> None:
        self._kernel = kernel
        self._symbols = symbols
        self._seen: set[tuple[Buffer, Affine]] = set()
        self._spans: dict[Expr, Interval] = {}
        self._ended: list[tuple[Var, Affine]] = []
        """Counters whose loops end where others decide, the innermost last."""

    def body(self, body: Sequence[Stmt]) -> None:
        """Statements, but those of loops without an iteration."""
        for s in body:
            self._statement(s)

    def _statement(self, s: Stmt) -> None:
        """Check the offsets of a statement for all values of the counters around it."""
        match s:
            case For():
                if s.upto is not None:
                    self._ends(s, s.upto, s.var.extent)
                    self._ended.append((s.var, s.upto))
                if self._size(s.var.extent) > 0:
                    self.body(s.body)
                if s.upto is not None:
                    self._ended.pop()
                return
            case Product():
                if min([self._size(v.extent) for v in (s.i, s.j, *s.k)]) > 0:
                    self._accesses(s)
                    self.body(s.body)
                return
            case Gemm() if s.upto is not None:
                self._ends(s, s.upto[1], getattr(s, s.upto[0]))
            case While():
                for k in s.kernels:
                    _OffsetChecker(k, self._symbols).body(k.body)
            case _:
                pass
        self._accesses(s)

    def _accesses(self, s: Stmt) -> None:
        for x in accesses_of(s):
            key = (x.buffer, x.at)
            if x.guarded or (key in self._seen and not x.block):
                continue
            self._seen.add(key)
            axes = [(self._size(n), self._size(c)) for n, c in x.block]
            if all(n > 0 for n, _ in axes):
                low, high = self.span(x.at)
                low += sum([min(0, (n - 1) * c) for n, c in axes])
                high += sum([max(0, (n - 1) * c) for n, c in axes])
                self._check(s, x.buffer, x.at, (low, high))

    def _ends(self, s: Stmt, upto: Affine, extent: Extent) -> None:
        """Refuse a loop that goes on beyond its counter's extent."""
        _, high = self.span(upto)
        if high > self._size(extent):
            refuse(self._kernel, s, f"{upto} goes to {high}, beyond {extent}")

    def _check(self, s: Stmt, b: Buffer, at: Affine | Extent, span: Interval) -> None:
        size = self._size(b.size)
        low, high = span
        known_low, known_high = low > -math.inf, high < math.inf
        if (known_low and low < 0) or (known_high and high >= size):
            where = f" with {dict(self._symbols)}" if self._symbols else ""
            why = f"{b}[{at}] goes from {low} to {high}, {b} has {size} elements{where}"
            refuse(self._kernel, s, why)

    # --- intervals

    def _size(self, n: Extent) -> int:
        return size_at(n, self._symbols)

    def span(self, at: Affine) -> Interval:
        """From where to where an offset goes."""
        if not any(at.coefficient(v) for v, _ in self._ended):
            return self._box(at)
        return self._box(self._extreme(at, -1))[0], self._box(self._extreme(at, 1))[1]

    def _extreme(self, at: Affine, sign: int) -> Affine:
        """An offset with the counters of such loops at the one end that makes it least or most."""
        for v, upto in reversed(self._ended):
            c = at.coefficient(v)
            if c:
                at += Affine(0, ((v, -c),))
                if (self._size(c) > 0) == (sign > 0):
                    at += (upto - 1) * c
        return at

    def _box(self, at: Affine) -> Interval:
        """The same where each counter goes to its extent."""
        low: float = self._size(at.const)
        high = low
        for v, factor in at.terms:
            c = self._size(factor)
            ends = self._var(v) if isinstance(v, Var) else self._span(v)
            if c:
                low += min(c * ends[0], c * ends[1])
                high += max(c * ends[0], c * ends[1])
        return low, high

    def _var(self, v: Var) -> Interval:
        return 0, self._size(v.extent) - 1

    def _span(self, e: Expr) -> Interval:
        if e not in self._spans:
            self._spans[e] = self._interval_of(e)
        return self._spans[e]

    def _interval_of(self, e: Expr) -> Interval:
        match e.kind:
            case "lit":
                return e.of, e.of
            case "index":
                return self.span(e.of)
            case "fn":
                return self._call(*e.of)
            case _:
                return ANY

    def _call(self, name: str, *xs: Expr) -> Interval:
        """Of what keeps an index from data within an array."""
        match name:
            case "minimum" | "maximum":
                pick = min if name == "minimum" else max
                (a, b), (c, d) = map(self._span, xs)
                return pick(a, c), pick(b, d)
            case "cast" if xs[0].dtype.kind in "iu":
                return self._span(xs[0])
            case "bitwise_and" if xs[1].kind == "lit" and xs[1].of >= 0:
                return 0, xs[1].of
            case "bitwise_right_shift" if xs[1].kind == "lit" and xs[1].of >= 0:
                low, high = self._span(xs[0])
                return low // (1 << xs[1].of), high // (1 << xs[1].of)
            case _:
                return ANY


# --- apart in memory -----------------------------------------------------------------------------


def check_disjoint(
    program: Loops, offsets: Mapping[Buffer, int], symbols: Mapping[str, int]
) -> None:
    """Refuse `offsets`, in bytes, at which two buffers that live at the same time overlap."""
    for first, second in _together(program, offsets):
        (a, b), (c, d) = (_bytes(x, offsets[x], symbols) for x in (first, second))
        if max(a, c) < min(b, d):
            raise SpecError(
                f"{first}, bytes {a} to {b}, and {second}, bytes {c} to {d}, live together, "
                f"overlapping{f' with {dict(symbols)}' if symbols else ''}"
            )


def _bytes(b: Buffer, start: int, symbols: Mapping[str, int]) -> tuple[int, int]:
    return start, start + size_at(b.size, symbols) * b.dtype.itemsize


def _together(program: Loops, offsets: Mapping[Buffer, int]) -> Iterator[tuple[Buffer, Buffer]]:
    """Pairs of buffers between whose first and last use there is a common kernel."""
    uses: dict[Buffer, list[int]] = {}
    for i, k in enumerate(program.kernels):
        for b in {b for side in k.buffers() for b in side if b in offsets}:
            uses.setdefault(b, []).append(i)
    alive = [(b, at[0], at[-1]) for b, at in uses.items()]
    for n, (b, start, end) in enumerate(alive):
        for other, first, last in alive[:n]:
            if first <= end and start <= last:
                yield other, b
