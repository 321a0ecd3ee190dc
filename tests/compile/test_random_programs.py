"""Random programs mean the same as they are, simplified, and in machine code.

Programs grow one op after the other, of every kind: maps, reductions, scans, products, index
arrays, slices put back, casts, choices, updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.compile.rewriting.rewriter import Rewriter
from chainrule.compile.rewriting.simplify import RULES
from chainrule.compile.running.program import Native
from chainrule.compile.terms.terms import Program, Term, Terms, Values
from chainrule.ops.contraction import Einsum, MatMul
from chainrule.ops.families import BroadcastTo, rows
from chainrule.ops.linalg.base import Diagonal, Diagonally
from chainrule.ops.reduction import Extremum, Found, LogSumExp, Norm, Sum
from chainrule.ops.scan import CumSum
from chainrule.ops.selection import Take, TakeAdd, Where
from chainrule.ops.shaping import Astype, Concat, Permute, Reshape, Slice, Unslice

F64, I64 = np.dtype("d"), np.dtype("int64")
UNARY = [rows[n] for n in ("neg", "abs", "square", "tanh", "exp", "relu", "sign", "positive")]
BINARY = [rows[n] for n in ("add", "sub", "mul", "maximum", "strong_mul", "less")]
NUMBERS = [0.0, -0.0, 1, -1, 0.5, 2.0]


class Grown:
    """Grows a program, one op after the other, as hypothesis draws them."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.terms = Terms()
        shapes: list[tuple[int, ...]] = draw(
            st.lists(
                st.sampled_from([(2, 3), (3,), (2, 1), (3, 2), (), (1, 3)]), min_size=2, max_size=3
            )
        )
        self.inputs = [self.terms.input(i, s, F64) for i, s in enumerate(shapes)]
        self.known = list(self.inputs)

    def pick(self, fits: Callable[[Term], bool] = lambda t: True) -> Term | None:
        found = [t for t in self.known if fits(t)]
        return self.draw(st.sampled_from(found)) if found else None

    def step(self) -> None:
        makers = [self.unary, self.binary, self.number, self.sum, self.shape, self.slice, self.join]
        makers += [self.choose, self.product, self.cast, self.take, self.other]
        y = self.draw(st.sampled_from(makers))()
        if y is not None:
            self.known.append(y)

    def op(self, op: Any, *args: Term) -> Term:
        return self.terms.op(op, args)

    def floats(self) -> Term | None:
        return self.pick(lambda t: t.dtype == F64)

    def unary(self) -> Term | None:
        x = self.floats()
        return x and self.op(self.draw(st.sampled_from(UNARY)), x)

    def binary(self) -> Term | None:
        x = self.floats()
        y = x and self.pick(lambda t: t.dtype == F64 and _broadcasts(t.shape, x.shape))
        return self.op(self.draw(st.sampled_from(BINARY)), x, y) if x and y else None

    def number(self) -> Term | None:
        x = self.floats()
        n = self.terms.constant(self.draw(st.sampled_from(NUMBERS)))
        pair = [x, n] if self.draw(st.booleans()) else [n, x]
        return self.op(self.draw(st.sampled_from(BINARY[:4])), *pair) if x else None

    def sum(self) -> Term | None:
        x = self.pick(lambda t: t.dtype == F64 and len(t.shape) > 0 and 0 not in t.shape)
        if not x:
            return None
        axis, keep = self.draw(st.integers(0, len(x.shape) - 1)), self.draw(st.booleans())
        kinds = [Sum((axis,), keep), Extremum(True, (axis,), keep), LogSumExp((axis,), keep)]
        kinds += [
            Found("argmin", (axis,), keep),
            Norm((axis,), keep),
            CumSum(axis - len(x.shape), keep),
        ]
        return self.op(self.draw(st.sampled_from(kinds)), x)

    def shape(self) -> Term | None:
        x = self.pick()
        assert x is not None
        size, n = int(np.prod(x.shape)), len(x.shape)
        kinds: list[Any] = [Reshape((size,)), Reshape((1, *x.shape)), Reshape((*x.shape, 1))]
        kinds += [Permute(tuple(reversed(range(n)))), BroadcastTo((2, *x.shape))]
        return self.op(self.draw(st.sampled_from(kinds)), x) if size <= 64 else None

    def slice(self) -> Term | None:
        x = self.pick(lambda t: len(t.shape) > 0 and t.shape[0] > 1)
        if not x:
            return None
        n = x.shape[0]
        keys = [((1, None, None),), ((None, None, -1),), ((0, n - 1, None),), (n - 1,), (None, 0)]
        key = self.draw(st.sampled_from(keys))
        cut = self.op(Slice(key), x)
        return self.op(Unslice(key, x.shape), cut) if self.draw(st.booleans()) else cut

    def join(self) -> Term | None:
        x = self.pick(lambda t: len(t.shape) > 0)
        y = x and self.pick(lambda t: t.shape[1:] == x.shape[1:] and len(t.shape) == len(x.shape))
        return self.op(Concat(0), x, y) if x and y and x.shape[0] + y.shape[0] < 12 else None

    def choose(self) -> Term | None:
        c = self.pick(lambda t: t.dtype == bool)
        x = c and self.pick(lambda t: _broadcasts(t.shape, c.shape))
        y = x and self.pick(lambda t: t.shape == x.shape and t.dtype == x.dtype)
        return self.op(Where(), c, x, y) if c and x and y else None

    def product(self) -> Term | None:
        x = self.pick(lambda t: t.dtype == F64 and len(t.shape) == 2)
        y = x and self.pick(
            lambda t: t.dtype == F64 and len(t.shape) == 2 and x.shape[1] in t.shape
        )
        if not x or not y:
            return None
        turned = y.shape[0] != x.shape[1]
        spec = "ij,kj" if turned else "ij,jk"
        einsum = Einsum(tuple(spec.split(",")), "ki")
        return self.op(einsum if self.draw(st.booleans()) else MatMul(False, turned), x, y)

    def cast(self) -> Term | None:
        x = self.pick(lambda t: t.dtype.kind in "bi")
        return x and self.op(Astype(self.draw(st.sampled_from([F64, I64]))), x)

    def take(self) -> Term | None:
        x = self.pick(lambda t: t.dtype == F64 and len(t.shape) > 0)
        i = x and self.pick(lambda t: t.dtype == I64 and len(t.shape) < 2)
        if not x or not i or len(x.shape) + len(i.shape) > 4:
            return None
        inside = self.terms.op(rows["remainder"], [i, self.terms.constant(x.shape[0])])
        taken = self.op(Take(0), x, inside)
        return self.op(TakeAdd(0, x.shape), taken, inside) if self.draw(st.booleans()) else taken

    def other(self) -> Term | None:
        x = self.pick(lambda t: t.dtype == F64 and len(t.shape) == 2)
        if not x:
            return None
        diagonal = self.op(Diagonal(0), x)
        return self.op(Diagonally(0, x.shape), diagonal) if self.draw(st.booleans()) else diagonal


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


@st.composite
def programs(draw: Callable[[Any], Any]) -> tuple[Program, list[Any]]:
    grown = Grown(draw)
    for _ in range(draw(st.integers(3, 14))):
        grown.step()
    results = [t for t in grown.known if t.op is not None][-3:] or grown.known[-1:]
    updates: tuple[tuple[int, Term], ...] = ()
    first = grown.inputs[0]
    fits = [t for t in grown.known if t.shape == first.shape and t.dtype == first.dtype]
    if draw(st.booleans()):
        updates = ((0, draw(st.sampled_from(fits))),)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    values = [np.round(rng.normal(size=t.shape), 1) for t in grown.inputs]
    return Program(tuple(grown.inputs), tuple(results), updates), values


def close(got: Any, want: Any) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * (1 + np.abs(_finite(want))))


def _finite(x: Any) -> float:
    x = np.asarray(x, F64)
    return float(np.abs(x[np.isfinite(x)]).max(initial=0))


@settings(max_examples=120, deadline=None)
@given(programs())
def test_random_programs_mean_the_same_simplified_and_in_machine_code(made: tuple[Program, Any]):
    p, values = made
    results, news = Values(p).run(values)
    simple = Rewriter(Terms(), RULES).program(p)
    fewer, fewer_news = Values(simple).run(values)
    for got, want in zip(fewer, results, strict=True):
        close(got, want)
    known = {i: new for (i, _), new in zip(simple.updates, fewer_news, strict=True)}
    for (i, _), want in zip(p.updates, news, strict=True):
        close(known.get(i, values[i]), want)
    given = [np.array(v) for v in values]
    for got, want in zip(Native(simple)(given), results, strict=True):
        close(got, want)
    for (i, _), want in zip(p.updates, news, strict=True):
        close(given[i], want)
