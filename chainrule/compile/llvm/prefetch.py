"""Memory that a product needs soon, asked for while it adds up.

Rows of a large matrix are on different pages, so that no processor guesses which one is next. What
a tile's body reads and writes is asked for while the tile's sums are made. What `Product.prefetch`
names is asked for during the whole product, some of it at each step of a tile. All at once would
hold up what the sums themselves read.

Notation: a line is what a cache holds together; rows and vectors of a tile as in `matmul_tiles`.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from chainrule.compile.graph.sizes import typical
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.kernel import Emitter
from chainrule.compile.llvm.lanes import Lanes
from chainrule.compile.llvm.numbers import I64, Value
from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.accesses import accesses
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Var
from chainrule.compile.loops.statements import Product

LONG = 64
"""Terms of a sum from which on memory comes while they are added up."""
_FIRST, _SECOND = 3, 2
"""Which cache a line is to come to, in LLVM's words."""
Place = tuple[Buffer, Affine]


def steps(s: Product, rows: int, vectors: int) -> int:
    """Into how many steps a tile's sums are divided: one for each vector; 0 if nothing is asked."""
    (k, *more) = [v.extent for v in s.k]
    if more or not isinstance(k, int) or k < LONG:
        return 0
    return rows * vectors if s.prefetch is not None or _places(s) else 0


def ask(
    e: Emitter, s: Product, panel: Sequence[Lanes], rows: Sequence[Value], terms: tuple[Value, int]
) -> None:
    """Ask for what belongs to a step of a tile: `terms` are its first term and how many they are.

    These are the body's places for one vector, the left side's in the next tile, and a share of
    what comes after the product.
    """
    b, vectors, (start, each) = e.b, ir.Constant(I64, len(panel)), terms
    step = b.udiv(start, ir.Constant(I64, each))
    column = b.mul(b.urem(step, vectors), ir.Constant(I64, panel[0].width))
    with e.fresh():
        e.vars[s.i] = b.add(rows[0], b.udiv(step, vectors))
        e.vars[s.j] = b.add(panel[0].base, column)
        for (buffer, at), written in _places(s).items():
            _prefetch(e, e.element_address(buffer, at), written=written, cache=_FIRST)
        _left(e, s, rows, start, each)
    if s.prefetch is not None:
        before = b.mul(rows[0], vectors)
        steps = typical(s.i.extent) * len(panel)
        _share(e, s.prefetch, steps, b.add(before, step))


def _left(e: Emitter, s: Product, rows: Sequence[Value], start: Value, each: int) -> None:
    """Ask for terms of the next tile's rows, where a row's terms lie together."""
    x = _place_loaded(s.left)
    if x is None or x[1].coefficient(s.k[0]) != 1:
        return
    b, (buffer, at) = e.b, x
    e.vars[s.i] = b.add(rows[0], ir.Constant(I64, len(rows)))
    e.vars[s.k[0]] = start
    kind, row = nums.in_memory(buffer.dtype), e.extent(at.coefficient(s.i))
    first = b.gep(e.pointers[buffer], [e.affine(at)], source_etype=kind)  # perhaps beyond the end
    for n in range(len(rows)):
        before = b.mul(row, ir.Constant(I64, n))
        for term in range(0, each, e.target.line // buffer.dtype.itemsize):
            offset = b.add(before, ir.Constant(I64, term))
            place = b.gep(first, [offset], source_etype=kind)
            _prefetch(e, place, written=False, cache=_FIRST)


def _place_loaded(x: Expr) -> Place | None:
    """Where a number is read from, if it is no more than that."""
    plain = x.kind == "load" and x.of[2] is None
    return x.of[:2] if plain and all(isinstance(v, Var) for v, _ in x.of[1].terms) else None


def _share(e: Emitter, x: loops.Prefetch, steps: int, number: Value) -> None:
    """Ask for the lines that step `number` of so many has to ask for."""
    b, size = e.b, x.buffer.dtype.itemsize
    per_row = -(-typical(x.length) * size // e.target.line)
    lines = typical(x.rows) * per_row
    each = -(-lines // steps)
    first = b.mul(number, ir.Constant(I64, each))
    start, apart = e.affine(x.at), e.extent(x.row)
    last = ir.Constant(I64, lines - 1)
    for n in range(each):
        line = b.add(first, ir.Constant(I64, n))
        line = b.select(b.icmp_signed("<", line, last), line, last)
        row, column = b.udiv(line, per := ir.Constant(I64, per_row)), b.urem(line, per)
        offset = b.add(b.mul(row, apart), b.mul(column, ir.Constant(I64, e.target.line // size)))
        kind = nums.in_memory(x.buffer.dtype)
        at = b.gep(e.pointers[x.buffer], [b.add(start, offset)], source_etype=kind)
        _prefetch(e, at, written=False, cache=_SECOND)


def _places(s: Product) -> dict[Place, bool]:
    """Where the body finds or puts elements of a row side by side; whether it writes them."""
    found: dict[Place, bool] = {}
    for x in accesses(s.body):
        if not x.guarded:
            place = (x.buffer, x.at)
            found[place] = x.writes or found.get(place, False)
    return {place: written for place, written in found.items() if _is_near(s, place[1])}


def _is_near(s: Product, at: Affine) -> bool:
    """Whether an offset moves by one from column to column, and from row to row."""
    counted = all(isinstance(v, Var) for v, _ in at.terms)
    return counted and at.coefficient(s.j) == 1 and at.coefficient(s.i) != 0


def _prefetch(e: Emitter, at: Value, *, written: bool, cache: int) -> None:
    """A hint, with which nothing can go wrong: any address will do."""
    kind = ir.IntType(32)
    args = [at, *[ir.Constant(kind, x) for x in (int(written), cache, 1)]]
    f = nums.declare(e.b, "llvm.prefetch.p0", ir.VoidType(), [x.type for x in args])
    e.b.call(f, args)
