"""What complex ops are in real ones, by class of op; a driver applies it (`complex_as_pairs`).

What is linear over the reals is done to both halves, what is a product to all pairs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from chainrule.compile.graph.complex_parts import is_complex
from chainrule.compile.graph.loop_body import Keep
from chainrule.compile.graph.rules import complex_rows, fourier
from chainrule.compile.graph.rules.pair_arithmetic import Maker, Num, Pair
from chainrule.compile.graph.rules.rewriter import number
from chainrule.compile.graph.terms import Term
from chainrule.engine.op import Unchanged
from chainrule.ops.complex import Abs, Angle, Complex, Imag, Real, real_dtype
from chainrule.ops.families import Conj, Elementwise
from chainrule.ops.indexing.selection import Where
from chainrule.ops.reductions.reduction import Found
from chainrule.ops.shapes.shaping import Astype
from chainrule.ops.signal.fft import Dft, HalfDft, RealDft

Value = Any
"""What stands for a term: a `Num`, a `Pair` where it is complex, a list of them for an op with
several outputs."""
Rule = Callable[[Maker, Term, Sequence[Value]], Value]


def pair(x: Value, dtype: Any) -> Pair:
    """A number as a pair with parts of `dtype`."""
    return (x if isinstance(x, Pair) else Pair(x, None)).cast(dtype)


def _truth(x: Value) -> Num:
    """Whether it is not 0."""
    return complex_rows.truth(x) if isinstance(x, Pair) else x


def halves(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """What is linear over the reals, of both halves; conditions and indices are as they are."""
    op: Any = t.op
    data = () if isinstance(op, Unchanged) else op.data
    real = real_dtype(t.dtype)
    moved = [i for i in range(len(args)) if i + 1 not in data]
    pairs = {i: pair(args[i], real) for i in moved}
    if any(z.imag is not None for z in pairs.values()):
        pairs = {i: z.full() for i, z in pairs.items()}

    def half(part: str) -> Num:
        return m.op(op, *[
            getattr(pairs[i], part) if i in pairs else _truth(x) for i, x in enumerate(args)
        ])  # fmt: skip

    there = pairs[moved[0]].imag is not None
    return Pair(half("re"), half("im") if there else None)


def products(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """A product of sums: i to the power of how many imaginary parts are in a term of it."""
    real = real_dtype(t.dtype)
    pairs = [pair(x, real) for x in args]
    total: list[Num | None] = [None, None]
    for chosen in product((0, 1), repeat=len(pairs)):
        parts = [z.imag if c else z.re for z, c in zip(pairs, chosen, strict=True)]
        if None in parts:
            continue
        x, k = m.op(t.op, *[p for p in parts if p is not None]), sum(chosen)
        so_far = total[k % 2]
        if so_far is None:
            total[k % 2] = -x if k % 4 > 1 else x
        else:
            total[k % 2] = so_far - x if k % 4 > 1 else so_far + x
    re, im = total
    assert re is not None
    return Pair(re, im)


def _elementwise(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    row = complex_rows.ROWS.get(t.op.label)
    if row is None:
        return None
    real = real_dtype(common_dtype(t.args))
    return row(*[pair(x, real) for x in args])


def common_dtype(args: Sequence[Term]) -> Any:
    """The dtype to which arguments promote, Python numbers as such."""
    plain = [python_number(a) for a in args]
    return np.result_type(*[a.dtype if p is None else p for a, p in zip(args, plain, strict=True)])


def python_number(t: Term) -> Any:
    """The Python number that `t` is, None if it is none."""
    return t.value if isinstance(t.value, complex) else number(t)


def _astype(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    (x,) = args
    if is_complex(t.dtype):
        return pair(x, real_dtype(t.dtype))
    return x.re.cast(t.dtype)


def _conj(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    return args[0].conj()


def _real(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    return args[0].re


def _imag(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    return args[0].im


def _complex(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    real = real_dtype(t.dtype)
    return Pair(args[0].cast(real), args[1].cast(real))


def _search_value(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """Of places there is no order of complex numbers that loops know."""
    return None if t.op.what.startswith("arg") else m.op(t.op, _truth(args[0]))


def _keep(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """A tape, the place, and the row, whose two halves are kept apart."""
    tape, at, row = args
    real = real_dtype(t.dtype)
    x, y = pair(tape, real).full(), pair(row, real).full()
    return Pair(m.op(t.op, x.re, at, y.re), m.op(t.op, x.im, at, y.im))


def _as_row(label: str) -> Rule:
    return lambda m, t, args: complex_rows.ROWS[label](*args)


RULES: dict[type, Rule] = {
    Elementwise: _elementwise, Astype: _astype, Conj: _conj, Real: _real, Imag: _imag,
    Complex: _complex, Abs: _as_row("abs"), Angle: _as_row("angle"),
    Found: _search_value, Keep: _keep, Where: halves,
    Dft: fourier.transform, RealDft: fourier.to_half, HalfDft: fourier.from_half,
}  # fmt: skip
"""By class of op; None says that it runs in its eager form."""
