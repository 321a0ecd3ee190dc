"""Which terms get memory of their own, and where their elements lie.

A map that is used once, or is cheap, is computed where it is used; views are never computed. The
users of a realized term wish for its layout. An operand of a concatenation is computed into its
slice. A term that is transposed and then reshaped is laid out so that the reshape is a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from chainrule.compile.graph.complex_parts import pair_of
from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.compile.loops import views
from chainrule.compile.loops.expressions import Buffer, strides_of
from chainrule.compile.loops.views import View, is_view, placed_before, source
from chainrule.compile.lower.index_arrays import READS
from chainrule.compile.lower.op_rules import in_loops, is_map, is_scatter, reduction
from chainrule.engine.op import Pick
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import Elementwise
from chainrule.ops.shapes.joining import Concat
from chainrule.ops.shapes.shaping import Astype, Reshape
from chainrule.ops.windows.row_copies import WindowRows

_CHEAP = {
    "add", "sub", "mul", "neg", "positive", "relu", "square", "abs", "maximum", "minimum", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "at_least", "at_most", "strong_mul", "sign", "isnan", "isfinite", "isinf",
}  # fmt: skip
_SLOW = 8
LARGE = 64
"""How much work an expression may be: beyond it, what it is computed from has a name of its own."""
FEW = 4
"""So much work on an index may be done again for each element of a row that it leads to: it is
moved out of the row's loop. Memory for it would be another kernel, before that of the rows."""


def is_product(t: Term) -> bool:
    """Whether `t` is a matrix product of real numbers."""
    return isinstance(t.op, MatMul) and t.dtype.kind == "f" and in_loops(t)


def is_computed(t: Term) -> bool:
    """Whether `t` is neither given nor a view."""
    return t.op is not None and not is_view(t)


def space(t: Term) -> tuple[Extent, ...]:
    """The sizes over which `t` is computed."""
    return t.args[0].shape if reduction(t) is not None else t.shape


@final
@dataclass(frozen=True, slots=True)
class Root:
    """A term that is written to memory of the caller: an array of `shape`, of which it is a view
    with `strides`. It is a result, or else the new value of `updated_input`."""

    term: Term
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    updated_input: Term | None


def roots_of(program: Program, assembled: Set[Term]) -> list[Root]:
    """The roots, each computed once: one that is not computed, or that occurs twice, is copied. So
    is one that becomes one of the inputs `assembled`, whose operands cannot be computed in
    place."""
    taken: set[Term] = set()
    roots: list[Root] = []
    inputs: list[Term | None] = [None] * len(program.results)
    inputs += [program.inputs[place] for place, _ in program.updates]
    for root, given in zip(program.roots, inputs, strict=True):
        t = pair_of(root)
        x, strides = t, placed_at_source(t, strides_of(t.shape))
        if strides is not None:
            x = source(t)
        part = isinstance(x.op, Pick) and (x is not t or given is not None)
        fresh = is_computed(x) and x not in taken and not part
        if strides is None or not fresh or given in assembled:
            x = t.then(Astype(t.dtype))
            strides = strides_of(t.shape)
        taken.add(x)
        roots.append(Root(x, t.shape, strides, given))
    return roots


def placed_at_source(t: Term, strides: tuple[Extent, ...]) -> tuple[Extent, ...] | None:
    """The strides that the source of the view `t` must have for `t` to have `strides`."""
    found: tuple[Extent, ...] | None = strides
    while is_view(t) and found is not None:
        found, t = placed_before(t, found), t.args[0]
    return found if found is None or can_have(t, found) else None


def can_have(t: Term, strides: Sequence[Extent]) -> bool:
    """Whether `t` can be computed to where it has such strides: BLAS wants one of 1."""
    return not is_product(t) or 1 in strides[-2:]


def with_copies(program: Program, readers: Set[Term]) -> Program:
    """The program in which the arguments of the terms `readers` are copied first."""
    new: dict[Term, Term] = {}
    for t in in_order(program.roots):
        args = [new[a] for a in t.args]
        if t in readers:
            (a,) = args
            args = [replace(a.then(Astype(a.dtype)), code=t.code, at=t.at)]
        new[t] = t.of(args)
    return program.of(new)


def users(order: Iterable[Term]) -> dict[Term, list[Term]]:
    """By term that is no view: the terms that read it, directly or through views."""
    out: dict[Term, list[Term]] = {}
    for t in order:
        if is_computed(t):
            for a in t.args:
                found = out.setdefault(source(a), [])
                if t not in found:
                    found.append(t)
    return out


def work(t: Term, realized: set[Term], known: dict[Term, int]) -> int:
    """Roughly how many instructions an element of the map `t` takes where it is inlined. Those of
    arguments that are inlined into it are included: their work is `known`."""
    own = 1
    if isinstance(t.op, Elementwise) and t.op.label not in _CHEAP:
        own = _SLOW
    return own + sum([known.get(source(a), 0) for a in t.args if source(a) not in realized])


def to_realize(order: list[Term], roots: Iterable[Term], uses: dict[Term, list[Term]]) -> set[Term]:
    """The terms that get memory."""
    realized: set[Term] = set(roots)
    needed: set[Term] = set()
    for t in order:
        if is_product(t) or (is_computed(t) and not is_map(t) and reduction(t) is None):
            needed |= {source(a) for a in t.args}
        if isinstance(t.op, READS):
            needed.add(source(t.args[0]))
        if isinstance(t.op, Concat) and is_map(t):
            needed |= {t, *[source(a) for a in t.args]}
        if isinstance(t.op, Reshape) and is_hard(t):
            needed.add(source(t))
    known: dict[Term, int] = {}
    for t in order:
        if not is_computed(t):
            continue
        if t in realized or not is_map(t) or t in needed:
            realized.add(t)
            continue
        readers = uses.get(t, [])
        cost = known[t] = work(t, realized, known)
        repeated = any(typical(product(space(u))) > typical(product(t.shape)) for u in readers)
        few = FEW if t.dtype.kind in "iu" else 0
        if (repeated and cost > few) or (len(readers) > 1 and cost > 2) or cost > LARGE:
            realized.add(t)
    return realized


def is_hard(t: Term) -> bool:
    """Whether an index of the reshape's argument takes a division."""
    groups = views.group_axes(t.shape, t.args[0].shape)
    return groups is None or any(len(old) > 1 for _, old in groups)


def layouts(order: list[Term], realized: set[Term]) -> dict[Term, tuple[Extent, ...]]:
    """Strides that terms should have so that reshapes of them are views."""
    wish: dict[Term, tuple[Extent, ...]] = {}
    for t in reversed(order):
        if not (isinstance(t.op, Reshape) and is_hard(t)):
            continue
        x, strides = t.args[0], strides_of(t.args[0].shape)
        if isinstance(x.op, Astype) and x in realized:
            continue
        while is_view(x):
            before = views.placed_before(x, strides)
            if before is None:
                break
            x, strides = x.args[0], before
        if x in realized and x not in wish and is_computed(x) and can_have(x, strides):
            wish[x] = strides
    return wish


def is_dense(strides: tuple[Extent, ...], shape: tuple[Extent, ...]) -> bool:
    """Whether the strides are those of a contiguous array with its axes in some order."""
    step: Extent = 1
    for axis in sorted(range(len(shape)), key=lambda a: typical(strides[a])):
        if shape[axis] == 1:
            continue
        if strides[axis] != step:
            return False
        step = shape[axis] * step
    return True


def constant_buffer(t: Term, number: int) -> Buffer:
    """Memory for an array that is known."""
    return Buffer(f"c{number}", t.dtype, t.shape, "constant", np.asarray(t.value))


def operand_views(t: Term, view: View, realized: set[Term]) -> dict[Term, View]:
    """Where the parts of the concatenation `t`, which lies at `view`, are to be computed.

    An operand that is not computed here (an input, say) is not among them: it will be copied. Nor
    is one whose view cannot be inverted.
    """
    out: dict[Term, View] = {}
    axis: int = t.op.axis
    start: Extent = 0
    for a in t.args:
        offset, x = start * view.strides[axis] + view.offset, source(a)
        start = a.shape[axis] + start
        strides = placed_at_source(a, view.strides)
        if strides is None or x not in realized or x in out or x.dtype != t.dtype:
            continue
        if not (is_map(x) or is_product(x) or reduction(x) is not None or is_row_copy(x)):
            continue
        out[x] = View(view.buffer, offset, strides)
    return out


def is_row_copy(t: Term) -> bool:
    """Whether it is an algorithm that puts its elements where they are to be."""
    return isinstance(t.op, WindowRows)


def base_view(
    t: Term, view: View, free: set[Term], uses: Mapping[Term, Sequence[Term]]
) -> dict[Term, View]:
    """Where that is to be computed onto which `t`, which lies at `view`, scatters: there, if nobody
    else wants it."""
    x, strides = source(t.args[0]), placed_at_source(t.args[0], view.strides)
    others = [source(a) for a in t.args[1:]]
    if strides is None or x not in free or x in others or list(uses[x]) != [t]:
        return {}
    if not (is_map(x) or is_product(x) or is_scatter(x) or reduction(x) is not None):
        return {}
    return {x: View(view.buffer, view.offset, strides)}
