"""Complex numbers as pairs of real ones: a program in which only inputs and results are complex.

That is how they lie in memory, so that a caller's arrays are read and written as they are. What is
linear over the reals is done to both halves, what is a product to all pairs of them; elementwise
ops have rows of their own (`complex_rows`), transforms are in `fourier`. An op without a rule runs
in its eager form, its complex arguments put together before and its outputs taken apart after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from chainrule.compile.rewriting import complex_rows, fourier
from chainrule.compile.rewriting.pairs import Maker, Num, Pair, concat
from chainrule.compile.rewriting.rewriter import number
from chainrule.compile.terms.parts import InParts, Parts, Together, is_complex
from chainrule.compile.terms.terms import Program, Term, Terms, in_order
from chainrule.op import Pick, Unchanged
from chainrule.ops.complex import Abs, Angle, Complex, Imag, Real, real_dtype
from chainrule.ops.families import Conj, Elementwise, Linear, Multilinear
from chainrule.ops.fft import Dft, HalfDft, RealDft
from chainrule.ops.reduction import Found
from chainrule.ops.selection import Where
from chainrule.ops.shaping import Astype

Value = Any
"""What stands for a term: a `Num`, a `Pair` where it is complex, a list of them for an op with
several outputs."""
Rule = Callable[[Maker, Term, Sequence[Value]], Value]


def paired(program: Program, terms: Terms) -> Program:
    """The program in real terms: its results and new values are pairs where they were complex, in
    a last axis."""
    order = in_order(program.roots)
    if not any(is_complex(t.dtype) for t in order):
        return program
    m, new = Maker(terms), dict[Term, Value]()
    for t in order:
        m.like = t
        new[t] = _given(m, t) if t.op is None else _made(m, t, [new[a] for a in t.args])
    kept = [(i, t) for i, t in program.updates if t is not program.inputs[i]]
    return Program(
        program.inputs,
        tuple([_root(new[t]) for t in program.results]),
        tuple([(i, _root(new[t])) for i, t in kept]),
    )


def together(made: Program, program: Program, terms: Terms) -> Program:
    """`made`, which computes pairs, with the dtypes that `program` has at its inputs and results."""

    def root(t: Term, whole: bool) -> Term:
        return terms.op(Together(), [t]) if whole else t

    pairs = zip(made.results, program.results, strict=True)
    return Program(
        made.inputs,
        tuple([root(t, is_complex(old.dtype)) for t, old in pairs]),
        tuple([(i, root(t, is_complex(made.inputs[i].dtype))) for i, t in made.updates]),
    )


def _given(m: Maker, t: Term) -> Value:
    """An input or a constant."""
    if not is_complex(t.dtype):
        return m.num(t)
    if t.index is not None:
        both = m.op(Parts(), t)
        return Pair(both.at(len(t.shape), 0), both.at(len(t.shape), 1))
    value: Any = t.value
    if isinstance(value, complex):  # a Python number, which takes part in promotion as one
        return Pair(m.num(value.real), m.num(value.imag))
    return Pair(m.num(value.real), m.num(value.imag))


def _root(x: Value) -> Term:
    """A result: of a pair, its parts side by side in a last axis."""
    if isinstance(x, Num):
        return x.term
    axis = len(x.shape)
    halves = [Pair(h.reshape((*x.shape, 1)), None) for h in (x.re, x.full().im)]
    return concat(halves, axis).re.term


def _made(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """What stands for the op `t`."""
    op: Any = t.op
    if isinstance(op, Pick):
        found = args[0]
        return found[op.index] if isinstance(found, list) else m.op(op, found)
    if not is_complex(t.dtype) and not any(isinstance(x, Pair) for x in args):
        return m.op(op, *args)
    found = None if t.many else _by_rule(m, t, args)
    if found is None:
        return _in_parts(m, t, args)
    return found.fitted(t.shape) if isinstance(found, Pair) else found.spread(t.shape)


def _by_rule(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    rule: Rule | None = RULES.get(type(t.op))
    if rule is None:
        match t.op:
            case Unchanged() | Linear():
                rule = _halves
            case Multilinear():
                rule = _products
            case _:
                return None
    return rule(m, t, args)


def pair(x: Value, dtype: Any) -> Pair:
    """A number as a pair with parts of `dtype`."""
    return (x if isinstance(x, Pair) else Pair(x, None)).cast(dtype)


def _in_parts(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """The op in its eager form, on parts of its complex arguments."""
    real = real_dtype(_common(t.args))
    flat: list[Num] = []
    for x, a in zip(args, t.args, strict=True):
        if isinstance(x, Pair):
            full = x.cast(real if _python(a) is not None else real_dtype(a.dtype)).full()
            flat += [full.re, full.im]
        else:
            flat.append(x)
    whole = m.op(InParts(t.op, tuple([isinstance(x, Pair) for x in args])), *flat)
    places, out = iter(range(len(whole.term.shape))), list[Value]()
    for dtype in t.dtype if t.many else (t.dtype,):
        re = m.op(Pick(next(places)), whole)
        out.append(Pair(re, m.op(Pick(next(places)), whole)) if is_complex(dtype) else re)
    return out if t.many else out[0]


# --- rules ---------------------------------------------------------------------------------------


def _truth(x: Value) -> Num:
    """Whether it is not 0."""
    return complex_rows.truth(x) if isinstance(x, Pair) else x


def _halves(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """What is linear over the reals, done to both halves; conditions and indices are as they are."""
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


def _products(m: Maker, t: Term, args: Sequence[Value]) -> Value:
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
    real = real_dtype(_common(t.args))
    return row(*[pair(x, real) for x in args])


def _common(args: Sequence[Term]) -> Any:
    """The dtype to which arguments promote, Python numbers as such."""
    plain = [_python(a) for a in args]
    return np.result_type(
        *[a.dtype if p is None else p for a, p in zip(args, plain, strict=True)]
    )


def _python(t: Term) -> Any:
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


def _found(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """Of places there is no order of complex numbers that loops know."""
    return None if t.op.what.startswith("arg") else m.op(t.op, _truth(args[0]))


def _as_row(label: str) -> Rule:
    return lambda m, t, args: complex_rows.ROWS[label](*args)


RULES: dict[type, Rule] = {
    Elementwise: _elementwise, Astype: _astype, Conj: _conj, Real: _real, Imag: _imag,
    Complex: _complex, Abs: _as_row("abs"), Angle: _as_row("angle"), Found: _found,
    Where: _halves, Dft: fourier.transform, RealDft: fourier.to_half, HalfDft: fourier.from_half,
}  # fmt: skip
"""By class of op; None says that it runs in its eager form."""
