"""Complex numbers as pairs of real ones: a program in which only inputs and results are complex.

That is how they lie in memory, so that a caller's arrays are read and written as they are. What is
linear over the reals is done to both halves, what is a product to all pairs of them. Elementwise
ops have rows of their own (`complex_rows`); transforms are in `fourier`. An op without a rule runs
in its eager form, its complex arguments put together before and its outputs taken apart after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from chainrule.compile.graph.complex_parts import InParts, Parts, Together, is_complex
from chainrule.compile.graph.loop_body import WhileLoop, while_loop_of
from chainrule.compile.graph.rules.complex_rules import (
    RULES,
    Value,
    common_dtype,
    halves,
    products,
    python_number,
)
from chainrule.compile.graph.rules.pair_arithmetic import Maker, Num, Pair
from chainrule.compile.graph.terms import Program, Term, Terms, in_order
from chainrule.engine.op import Pick, Unchanged, new_op
from chainrule.ops.complex import real_dtype
from chainrule.ops.families import Linear, Multilinear
from chainrule.ops.shapes.joining import Concat


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
                rule = halves
            case Multilinear():
                rule = products
            case _:
                return None
    return rule(m, t, args)


def _in_parts(m: Maker, t: Term, args: Sequence[Value]) -> Value:
    """The op in its eager form, on parts of its complex arguments."""
    flat: list[Num] = []
    for x, a in zip(args, t.args, strict=True):
        if isinstance(x, Pair):
            dtype = a.dtype if python_number(a) is None else common_dtype(t.args)
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
    """The loop whose complex carries are two each, and what else its iterations read, too."""
    loop = while_loop_of(t)
    assert loop is not None
    flat = [part for x in args for part in ([x.re, x.full().im] if isinstance(x, Pair) else [x])]
    program, carries = _real_body(loop)
    made = replace(loop, program=program, carries=carries, extends=None, _run=None, _simple=None)
    whole = m.op(new_op(t.op.__class__, made), *flat)
    places = iter(range(carries))
    return [_output(m, whole, dtype, places) for dtype in t.dtype]


def _output(m: Maker, whole: Num, dtype: Any, places: Iterator[int]) -> Value:
    """The next output of an op with several: two of them if it is complex."""
    re = m.op(Pick(next(places)), whole)
    return Pair(re, m.op(Pick(next(places)), whole)) if is_complex(dtype) else re


def _real_body(loop: WhileLoop) -> tuple[Program, int]:
    """One iteration in real terms, and how many carries it has then."""
    m, new, counts = Maker(Terms()), dict[Term, Value](), [0]
    inputs: list[Term] = []

    def place(t: Term) -> Num:
        inputs.append(m.terms.input(len(inputs), t.shape, real_dtype(t.dtype)))
        return m.num(inputs[-1])

    for t in loop.program.inputs:
        new[t] = Pair(place(t), place(t)) if is_complex(t.dtype) else place(t)
        counts.append(len(inputs))
    _fill(m, in_order(loop.program.roots), new)
    updates: list[tuple[int, Term]] = []
    for i, t in loop.program.updates:
        x = new[t]
        parts = [x.re, x.full().im] if isinstance(x, Pair) else [x]
        updates += [(counts[i] + k, part.term) for k, part in enumerate(parts)]
    return Program(tuple(inputs), (), tuple(updates)), counts[loop.carries]
