"""Complex numbers as pairs of real ones: a program in which only inputs and results are complex.

That is how they lie in memory, so that a caller's arrays are read and written as they are. What is
linear over the reals is done to both halves, what is a product to all pairs of them. Elementwise
ops have rows of their own (`complex_rows`); transforms are in `fourier`. An op without a rule runs
in its eager form, its complex arguments put together before and its outputs taken apart after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from chainrule.compile.graph.complex_parts import InParts, Parts, Together, is_complex
from chainrule.compile.graph.loop_body import Keep, WhileLoop, while_loop_of
from chainrule.compile.graph.rules import complex_rows, fourier
from chainrule.compile.graph.rules.pair_arithmetic import Maker, Num, Pair
from chainrule.compile.graph.rules.rewriter import number
from chainrule.compile.graph.terms import Program, Term, Terms, in_order
from chainrule.engine.op import Pick, Unchanged, new_op
from chainrule.ops.complex import Abs, Angle, Complex, Imag, Real, real_dtype
from chainrule.ops.families import Conj, Elementwise, Linear, Multilinear
from chainrule.ops.indexing.selection import Where
from chainrule.ops.reductions.reduction import Found
from chainrule.ops.shapes.shaping import Astype, Concat
from chainrule.ops.signal.fft import Dft, HalfDft, RealDft

Value = Any
"""What stands for a term: a `Num`, a `Pair` where it is complex, a list of them for an op with
several outputs."""
Rule = Callable[[Maker, Term, Sequence[Value]], Value]


def complex_to_pairs(program: Program, terms: Terms, whole: frozenset[int]) -> Program:
    """The program in real terms: its results and new values are pairs where they were complex, in
    a last axis. The terms with the numbers `whole`, in order, stay ops in their eager form."""
    order = in_order(program.roots)
    if not any(is_complex(t.dtype) for t in order):
        return program
    m, new = Maker(terms, unchanged=frozenset([order[i] for i in whole])), dict[Term, Value]()
    _fill(m, order, new)
    kept = [(i, t) for i, t in program.updates if t is not program.inputs[i]]
    return Program(
        program.inputs,
        tuple([_root(new[t]) for t in program.results]),
        tuple([(i, _root(new[t])) for i, t in kept]),
    )


def together(made: Program, program: Program, terms: Terms) -> Program:
    """`made`, which computes pairs, with the dtypes of the results of `program` and of inputs."""

    def root(t: Term, whole: bool) -> Term:
        return terms.op(Together(), [t]) if whole else t

    pairs = zip(made.results, program.results, strict=True)
    return Program(
        made.inputs,
        tuple([root(t, is_complex(old.dtype)) for t, old in pairs]),
        tuple([(i, root(t, is_complex(made.inputs[i].dtype))) for i, t in made.updates]),
    )


def _fill(m: Maker, order: Sequence[Term], new: dict[Term, Value]) -> None:
    """What stands for each of the terms, as far as it is not known yet."""
    for t in order:
        if t not in new:
            m.like = t
            new[t] = (
                _input_value(m, t) if t.op is None else _op_value(m, t, [new[a] for a in t.args])
            )


def _input_value(m: Maker, t: Term) -> Value:
    """An input or a constant."""
    if not is_complex(t.dtype):
        return m.num(t)
    if t.index is not None:
        both = m.op(Parts(), t)
        return Pair(both.at(len(t.shape), 0), both.at(len(t.shape), 1))
    value: Any = t.value  # the parts of a Python number are Python numbers
    return Pair(m.num(value.real), m.num(value.imag))


def _root(x: Value) -> Term:
    """A result: of a pair, its parts side by side in a last axis."""
    if isinstance(x, Num):
        return x.term
    parts = [part.reshape((*x.shape, 1)) for part in (x.re, x.full().im)]
    return x.re.m.op(Concat(len(x.shape)), *parts).term


def _op_value(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """What stands for the op `t`."""
    op: Any = t.op
    if isinstance(op, Pick):
        several: Any = args[0]
        return m.op(op, several) if isinstance(several, Num) else several[op.index]
    if not is_complex(t.dtype) and not any(isinstance(x, Pair) for x in args):
        return m.op(op, *args)
    if while_loop_of(t) is not None:
        return _loop(m, t, args)
    found: Pair | Num | None = None if t.many or t in m.unchanged else _by_rule(m, t, args)
    if found is None:
        return _in_parts(m, t, args)
    whole = found.broadcast_to(t.shape) if isinstance(found, Pair) else found.spread(t.shape)
    assert whole.dtype == real_dtype(t.dtype), f"{t} has parts of {whole.dtype}"
    return whole


def _by_rule(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    kind: type = t.op.__class__
    rule = RULES.get(kind)
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
    flat: list[Num] = []
    for x, a in zip(args, t.args, strict=True):
        if isinstance(x, Pair):
            dtype = a.dtype if _python(a) is None else _common(t.args)
            full = x.cast(real_dtype(dtype)).full()
            flat += [full.re, full.im]
        else:
            flat.append(x)
    whole = m.op(InParts(t.op, tuple([isinstance(x, Pair) for x in args])), *flat)
    places, out = iter(range(len(whole.term.shape))), list[Value]()
    for dtype in t.dtype if t.many else (t.dtype,):
        out.append(_output(m, whole, dtype, places))
    return out if t.many else out[0]


# --- loops of unknown length ---------------------------------------------------------------------


def _loop(m: Maker, t: Term, args: Sequence[Value]) -> list[Value]:
    """The loop whose complex carries are two each, and what else its turns read, too."""
    turns = while_loop_of(t)
    assert turns is not None
    flat = [part for x in args for part in ([x.re, x.full().im] if isinstance(x, Pair) else [x])]
    program, carries = _turn(turns)
    made = replace(turns, program=program, carries=carries, extends=None, _run=None, _simple=None)
    whole = m.op(new_op(t.op.__class__, made), *flat)
    places = iter(range(carries))
    return [_output(m, whole, dtype, places) for dtype in t.dtype]


def _output(m: Maker, whole: Num, dtype: Any, places: Iterator[int]) -> Value:
    """The next output of an op with several: two of them if it is complex."""
    re = m.op(Pick(next(places)), whole)
    return Pair(re, m.op(Pick(next(places)), whole)) if is_complex(dtype) else re


def _turn(turns: WhileLoop) -> tuple[Program, int]:
    """One turn in real terms, and how many carries it has then."""
    m, new, counts = Maker(Terms()), dict[Term, Value](), [0]
    inputs: list[Term] = []

    def place(t: Term) -> Num:
        inputs.append(m.terms.input(len(inputs), t.shape, real_dtype(t.dtype)))
        return m.num(inputs[-1])

    for t in turns.program.inputs:
        new[t] = Pair(place(t), place(t)) if is_complex(t.dtype) else place(t)
        counts.append(len(inputs))
    _fill(m, in_order(turns.program.roots), new)
    updates: list[tuple[int, Term]] = []
    for i, t in turns.program.updates:
        x = new[t]
        parts = [x.re, x.full().im] if isinstance(x, Pair) else [x]
        updates += [(counts[i] + k, part.term) for k, part in enumerate(parts)]
    return Program(tuple(inputs), (), tuple(updates)), counts[turns.carries]


# --- rules ---------------------------------------------------------------------------------------


def _truth(x: Value) -> Num:
    """Whether it is not 0."""
    return complex_rows.truth(x) if isinstance(x, Pair) else x


def _halves(m: Maker, t: Term, args: Sequence[Value]) -> Value:
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
    return np.result_type(*[a.dtype if p is None else p for a, p in zip(args, plain, strict=True)])


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
    Found: _search_value, Keep: _keep, Where: _halves,
    Dft: fourier.transform, RealDft: fourier.to_half, HalfDft: fourier.from_half,
}  # fmt: skip
"""By class of op; None says that it runs in its eager form."""
