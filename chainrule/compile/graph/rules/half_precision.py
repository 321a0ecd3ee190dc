"""float16 and bfloat16, with which the processor does not compute: in float32, and then rounded.

That is how eager code computes each op of theirs, too. What only moves numbers (a reshape, a slice,
a lookup) moves these as they are. So does what has no loops: it runs in its eager form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.rewriter import number
from chainrule.compile.graph.terms import Program, Term, Terms, in_order
from chainrule.engine.dtypes import NARROW, float32
from chainrule.ops.contraction import Einsum, MatMul
from chainrule.ops.families import Elementwise, SumTo
from chainrule.ops.indexing.index_arrays import IndexAdd
from chainrule.ops.indexing.scatter_reductions import ScatterExtremum
from chainrule.ops.indexing.selection import TakeAdd, TakeAlongAdd, Where
from chainrule.ops.indexing.sorting import Order, SearchSorted
from chainrule.ops.reductions.norms import LogSumExp, Norm, Shift
from chainrule.ops.reductions.reduction import Extremum, Found, Sum
from chainrule.ops.reductions.scan import CumProd, CumSum, LogCumSumExp, Recurrence, RunningArg
from chainrule.ops.shapes.shaping import Astype
from chainrule.ops.windows.convolution_forms import Convolution, Unfold
from chainrule.ops.windows.pooling import WindowArg, WindowSum

_COMPUTING = (
    Elementwise | Where | Sum | SumTo | Extremum | Found | Shift | LogSumExp | Norm | MatMul
    | Einsum | Convolution | Unfold | WindowArg | WindowSum | CumSum | CumProd | LogCumSumExp
    | Recurrence | RunningArg | ScatterExtremum | TakeAdd | TakeAlongAdd | IndexAdd | Order
    | SearchSorted
)  # fmt: skip
_OWN = {"nextafter"}
"""Rows of the op table whose value depends on how numbers of a dtype are spaced."""


def is_narrow(dtype: Any) -> bool:
    """Whether it is float16 or bfloat16; for an op with several outputs it is a tuple."""
    return isinstance(dtype, np.dtype) and dtype.char in NARROW


def widen_half_precision(program: Program, terms: Terms) -> Program:
    """The program in which no op but casts and moves has float16 or bfloat16."""
    order = in_order(program.roots)
    if not any(is_narrow(t.dtype) for t in order):
        return program
    new: dict[Term, Term] = {}
    for t in order:
        args = [new[a] for a in t.args]
        new[t] = t.of(args) if t.op is None else _wide(terms, t, args)
    return program.of(new)


def _wide(terms: Terms, t: Term, args: list[Term]) -> Term:
    some = is_narrow(t.dtype) or any(is_narrow(a.dtype) for a in args)
    if not some or not isinstance(t.op, _COMPUTING) or t.op.name in _OWN:
        return terms.op(t.op, args, like=t)
    met = _met(args)
    y = terms.op(t.op, [_single(terms, a, met, t) for a in args], like=t)
    return terms.op(Astype(t.dtype), [y], like=t) if is_narrow(t.dtype) else y


def _met(args: Iterable[Term]) -> np.dtype[Any] | None:
    """The dtype that Python numbers among `args` take first."""
    met = {a.dtype for a in args if number(a) is None and a.dtype.kind != "b"}
    return met.pop() if len(met) == 1 else None


def _single(terms: Terms, x: Term, met: np.dtype[Any] | None, like: Term) -> Term:
    """`x` in float32 where it is narrower; a Python number as what it is beside narrow ones."""
    if (n := number(x)) is not None:
        if met is None or not is_narrow(met):
            return x
        # beside bfloat16 a float keeps its digits until the op's value is rounded
        first = float32 if met.kind == "V" and isinstance(n, float) else met
        return terms.constant(np.asarray(n, first).astype(float32))
    if not is_narrow(x.dtype):
        return x
    if x.op is None and x.index is None:
        return terms.constant(np.asarray(x.value).astype(float32))
    return terms.op(Astype(float32), [x], like=like)
