"""Indices from data: a program that says whether one of them was outside.

Compiled code takes the nearest element instead, so that nothing is read or written elsewhere. But a
number that nobody asked for must not pass for an answer. So a program gets one more result, an
integer in which bit i is set if indices number i were outside, and the call raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.compile.graph.rules.rewriter import is_constant
from chainrule.compile.graph.terms import Program, Term, Terms, in_order
from chainrule.compile.loops.views import expand_key
from chainrule.engine.dtypes import int64
from chainrule.engine.provenance import location
from chainrule.errors import IndexingError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.index_arrays import Index, IndexAdd
from chainrule.ops.indexing.selection import Take, TakeAdd, TakeAlong, TakeAlongAdd, Where
from chainrule.ops.reductions.reduction import Found
from chainrule.ops.shapes.shaping import Astype

MOST = 60
"""How many indices one integer can tell of; further ones are not looked at."""


def add_index_checks(program: Program, terms: Terms) -> tuple[Program, list[str]]:
    """The program with that result, its last; and what to say of each of its bits. The program
    itself, if it has no such indices."""
    found: dict[tuple[Term, int], Term] = {}
    for t in in_order(program.roots):
        for where in _indices_of(t):
            found.setdefault(where, t)
    pairs = list(found.items())[:MOST]
    if not pairs:
        return program, []
    total: Term | None = None
    for bit, ((narrow, n), _) in enumerate(pairs):
        index = _as_int64(narrow, terms)
        outside = terms.op(ew.greater_equal, [index, terms.constant(n)])
        if index.dtype.kind == "i":
            low = terms.op(ew.less, [index, terms.constant(-n)])
            outside = terms.op(ew.logical_or, [low, outside])
        some = terms.op(Found("any", tuple(range(len(index.shape))), False), [outside])
        one = terms.op(Where(), [some, terms.constant(1 << bit), terms.constant(0)])
        total = one if total is None else terms.op(ew.add, [total, one])
    assert total is not None
    words = [_words(t, n) for (_, n), t in pairs]
    return Program(program.inputs, (*program.results, total), program.updates), words


def _as_int64(index: Term, terms: Terms) -> Term:
    """Indices in a dtype that holds every size: a size becomes what it is compared with, and 200
    is -56 as an int8."""
    if index.dtype.itemsize == 8:
        return index
    return terms.op(Astype(int64), [index])


def _indices_of(t: Term) -> list[tuple[Term, int]]:
    """The indices that `t` uses and that change from call to call, and of how many elements."""
    op: Any = t.op
    match op:
        case Take() | TakeAlong():
            pairs = [(t.args[1], t.args[0].shape[op.axis])]
        case TakeAdd() | TakeAlongAdd():
            pairs = [(t.args[1], op.shape[op.axis])]
        case Index():
            pairs = _along(op.template, t.args[0].shape, t.args[1:])
        case IndexAdd():
            pairs = _along(op.template, op.shape, t.args[1:])
        case _:
            return []
    return [(x, n) for x, n in pairs if x.dtype.kind in "iu" and not is_constant(x)]


def _along(
    template: Sequence[Any], shape: Sequence[int], indices: Sequence[Term]
) -> list[tuple[Term, int]]:
    """Each of the index arrays of a key, and the size of the axis at which it stands there."""
    sizes = iter(shape)
    named = [(k, next(sizes)) for k in expand_key(template, len(shape)) if k is not None]
    return list(zip(indices, [n for k, n in named if isinstance(k, str)], strict=True))


def _words(t: Term, n: int) -> str:
    where = "" if t.code is None else f" at {location(t.code, t.at)}"
    return f"an index of '{t.name}'{where} is outside 0..{n - 1}"


def refuse(flags: int, words: list[str]) -> None:
    """Raise what the flags, which are not 0, say."""
    said = "; ".join([w for bit, w in enumerate(words) if flags >> bit & 1])
    raise IndexingError(
        f"in a compiled call, {said}. It took the nearest element, and what the call updates has "
        "been updated: load the last good state, and check the indices before the call"
    )
