"""Sums with what is scattered, added where the other summand lies: a + scatter_add(v, places).

The gradient of a table that rows are taken from, and that is multiplied with too, is such a sum:
of a product and of those rows. Scattered by themselves, they want an array as large as the table,
which is filled with zeros, and read again. So the product is computed to where the sum is to be,
and the rows are added to it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chainrule.compile.graph.compiled_ops import Onto
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.compile.loops.views import View, source
from chainrule.compile.lower.materialize import is_product, placed_at_source, users
from chainrule.compile.lower.op_rules import is_map, is_scatter, reduction
from chainrule.ops import elementwise as ew
from chainrule.ops.selection import IndexAdd, TakeAdd, TakeAlongAdd

_ADDS = TakeAdd | TakeAlongAdd | IndexAdd


def with_scatters_in_place(program: Program) -> Program:
    """The program in which what is scattered for one sum is scattered onto the other summand."""
    order = in_order(program.roots)
    uses, roots = users(order), set(program.roots)
    new: dict[Term, Term] = {}
    for t in order:
        own = [
            i for i, s in enumerate(t.args)
            if t.op is ew.add and isinstance(s.op, _ADDS) and is_scatter(s)
            and uses[s] == [t] and s not in roots
        ]  # fmt: skip
        found = next((i for i in own if _alike(t, t.args[i], t.args[1 - i])), None)
        if found is None:
            new[t] = t.of([new[a] for a in t.args])
        else:
            s, x = t.args[found], t.args[1 - found]
            args = (new[x], *[new[a] for a in s.args])
            new[t] = Term(Onto(s.op), args, t.shape, t.dtype, None, None, s.code, s.at)
    return program.of(new)


def _alike(t: Term, s: Term, x: Term) -> bool:
    """Whether the sum `t` of `s` and `x` is of arrays of one shape and dtype."""
    return x is not s and x.shape == s.shape == t.shape and x.dtype == s.dtype == t.dtype


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
