"""What is changed of a program before its memory is planned, so that less is moved.

* Concatenations that go on with others: [a, b] and [a, b, c] as x = [a, b] and [x, c]. Then x is
  computed into its place in the longer one, and whoever reads it reads it there.
* Products that are wanted transposed only: (A B)^T is B^T A^T, computed where it is wanted. The
gradient of W in x @ W.T is such a product. As it is stated, each of its columns would be stored
across the rows of W's gradient.
* Sums with what is scattered, a + scatter_add(v, places), added where `a` lies. The gradient of a
  table that rows are taken from, and that is multiplied with too, is such a sum. Scattered by
  themselves, rows want an array as large as the table, which is filled with zeros, and read again.
* What is computed again where it is needed later, so that it need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chainrule.compile.graph.array_patterns import Triangle, find_pattern
from chainrule.compile.graph.compiled_ops import Onto
from chainrule.compile.graph.sizes import product, typical
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.compile.graph.walks import reachable
from chainrule.compile.loops.views import is_view, source
from chainrule.compile.lower.materialize import is_product, users
from chainrule.compile.lower.matmul_choice import sizes
from chainrule.compile.lower.op_rules import is_map, is_scatter
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import MatMul
from chainrule.ops.indexing.index_arrays import IndexAdd
from chainrule.ops.indexing.selection import TakeAdd, TakeAlongAdd, Where
from chainrule.ops.shapes.joining import Concat
from chainrule.ops.shapes.shaping import Permute

# --- concatenations ------------------------------------------------------------------------------


def with_common_prefixes(program: Program) -> Program:
    """The program in which concatenations are parts of longer ones that begin or go on like them.
    Each is a part of one at most: it lies in one place only."""
    order = in_order(program.roots)
    whole = sorted([t for t in order if isinstance(t.op, Concat)], key=lambda t: len(t.args))
    parts: dict[Term, Term] = {}
    for n, x in enumerate(whole):
        longer = next((t for t in whole[n + 1 :] if _start(t, x) is not None), None)
        if longer is not None:
            parts[x] = longer
    if not parts:
        return program
    new: dict[Term, Term] = {}
    for t in in_order(order, lambda t: _args(t, parts)):
        new[t] = t.of([new[a] for a in _args(t, parts)])
    return program.of(new)


def _start(t: Term, x: Term) -> int | None:
    """From which argument of the concatenation `t` on stand those of `x`, which is shorter."""
    many = len(x.args)
    if len(t.args) <= many or t.op.axis != x.op.axis or t.dtype != x.dtype:
        return None
    starts = range(len(t.args) - many + 1)
    return next((i for i in starts if t.args[i : i + many] == x.args), None)


def _args(t: Term, parts: dict[Term, Term]) -> tuple[Term, ...]:
    """The arguments of `t`, those of its parts put together."""
    args = t.args
    for x in sorted([x for x, longer in parts.items() if longer is t], key=lambda x: -len(x.args)):
        start = _start(replace(t, args=args), x)
        if start is not None:  # not taken by another part
            args = (*args[:start], x, *args[start + len(x.args) :])
    return args


# --- transposed products -------------------------------------------------------------------------


def without_transposed_products(program: Program) -> Program:
    """The program in which no product is read by transposes alone."""
    order = in_order(program.roots)
    kept = set(program.roots)
    across: set[Term] = set()
    for t in order:
        for a in t.args:
            if isinstance(a.op, MatMul):
                (across if _transposes(t) else kept).add(a)
    if not across - kept:
        return program
    new: dict[Term, Term] = {}
    for t in order:
        if _transposes(t) and t.args[0] in across - kept:
            new[t] = _transpose_product(t, *[new[a] for a in t.args[0].args])
        else:
            new[t] = t.of([new[a] for a in t.args])
    return program.of(new)


def _transposes(t: Term) -> bool:
    """Whether `t` exchanges the last two axes of a product, whose matrices come in equal stacks."""
    n = len(t.shape) if not t.many else 0
    return (
        isinstance(t.op, Permute)
        and n > 1
        and tuple(t.op.axes) == (*range(n - 2), n - 1, n - 2)
        and isinstance(t.args[0].op, MatMul)
        and t.args[0].args[0].shape[:-2] == t.args[0].args[1].shape[:-2]
    )


def _transpose_product(t: Term, a: Term, b: Term) -> Term:
    """The product whose transpose `t` is, the other way round."""
    product = t.args[0]
    op = MatMul(not product.op.transpose_b, not product.op.transpose_a)
    return Term(op, (b, a), t.shape, t.dtype, None, None, product.code, product.at)


# --- sums with what is scattered -----------------------------------------------------------------


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


# --- what is computed again where it is needed later ----------------------------------------------
# Scores and weights of attention are (T, T) for each head. The forward pass uses them once; the
# backward pass, much later, again. Computed twice, they need never be in memory as a whole (see
# `attention_blocks`). That is worth it where they are large, and where they are causal, since
# half of every product is left out then.
#
# What follows a product *closely* is as large as it, and computed from it element by element, with
# arguments that are small beside it.

SIDE = 128
"""Rows and columns of a product that may be computed again, at least."""
CAUSAL, FULL = 1 << 20, 1 << 25
"""Bytes of such a product, at least: with a causal mask, and without."""
SMALL = 8
"""How many times smaller than the product the other arguments are, at least."""


def rematerialize(program: Program) -> Program:
    """The program in which late users of such terms have copies of their own."""
    order = in_order(program.roots)
    readers = _readers(order)
    late: dict[Term, list[_Close]] = {}
    for s in order:
        if is_product(s) and _is_wide(s):
            close = _close(s, readers)
            for u in _late(s, close, readers):
                late.setdefault(u, []).append(close)
    if not late:
        return program
    new: dict[Term, Term] = {}
    copies: dict[Term, Term] = {}
    for t in order:
        args = [new[a] for a in t.args]
        for close in late.get(t, ()):
            args = [
                _copy(a, close, copies, new) if a in close else x
                for a, x in zip(t.args, args, strict=True)
            ]
        new[t] = t.of(args)
    return program.of(new)


_Close = dict[Term, None]
"""A product and what follows it closely, in order."""


def _copy(t: Term, close: _Close, copies: dict[Term, Term], new: Mapping[Term, Term]) -> Term:
    """A copy of `t`, and of all of `close` that it needs."""
    if t not in copies:
        args = [_copy(a, close, copies, new) if a in close else new[a] for a in t.args]
        copies[t] = replace(t, args=tuple(args))
    return copies[t]


def _readers(order: Sequence[Term]) -> dict[Term, list[Term]]:
    out: dict[Term, list[Term]] = {}
    for t in order:
        for a in dict.fromkeys(t.args):
            out.setdefault(a, []).append(t)
    return out


def _is_wide(s: Term) -> bool:
    """Whether it is the product of many pairs of matrices, as the scores of attention are. They
    have at least so many rows and columns, and few numbers in each of their sums. A layer's product
    is not computed again: that would save memory, and take time."""
    m, n, k = map(typical, sizes(s))
    return typical(product(s.shape[:-2])) > 1 and min(m, n) >= max(SIDE, 2 * k)


def _late(s: Term, close: _Close, readers: Mapping[Term, list[Term]]) -> set[Term]:
    """The users that come after another user, which is a product; none if copies are not worth
    it."""
    least = CAUSAL if any(_is_causal(t) for t in close) else FULL
    if typical(product(s.shape)) * s.dtype.itemsize < least:
        return set()
    users = {u for t in close for u in readers.get(t, []) if u not in close}
    return reachable(filter(is_product, users), lambda t: readers.get(t, ())) & users


def _close(s: Term, readers: Mapping[Term, list[Term]]) -> _Close:
    """What `s` is computed from element by element, nearly: maps, views and arrays that are much
    smaller."""
    count = product(s.shape)
    most = typical(count) // SMALL
    close: _Close = {s: None}

    def fits(t: Term) -> bool:
        same = not t.many and product(t.shape) == count
        return same and (is_map(t) or is_view(t)) and all(
            a in close or (x := source(a)).value is not None or typical(product(x.shape)) <= most
            for a in t.args
        )  # fmt: skip

    waiting = list(readers.get(s, []))
    while waiting:
        t = waiting.pop(0)
        if t not in close and fits(t):
            close[t] = None
            waiting += readers.get(t, [])
    return close


def _is_causal(t: Term) -> bool:
    if not isinstance(t.op, Where):
        return False
    test = source(t.args[0])
    if test.op is not None or test.index is not None:
        return False
    return isinstance(test.value, Triangle) or isinstance(find_pattern(test.value), Triangle)
