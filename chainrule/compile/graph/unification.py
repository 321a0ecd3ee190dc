"""Programs traced at several sizes made one, whose sizes are known only when it is called.

What differs between the traces must be a formula of the symbols (`size_polynomials`). What
depends on a size in another way (a Python loop over it, say) makes traces of different structure:
that is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.compile.graph.array_patterns import Ratio, Steps, Triangle, Uniform, find_pattern
from chainrule.compile.graph.loop_body import WhileLoop
from chainrule.compile.graph.size_polynomials import Sample, fit_polynomial, number_fitted
from chainrule.compile.graph.sizes import Size
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.engine.op import Op
from chainrule.errors import TraceError


class _DifferError(Exception):
    """The traces cannot be one program."""


def unify(programs: Sequence[Program], samples: Sequence[Sample]) -> Program:
    """The one program that all of `programs` are, with sizes in the symbols of `samples`."""
    try:
        return _unify(programs, samples)
    except _DifferError as cause:
        sizes = ", ".join(samples[0])
        raise TraceError(
            f"jit: with {sizes} dynamic the function does not do the same at every size: {cause}. "
            "A Python loop or branch over a dynamic size gives another program for each size: use "
            "scan, or whole-array operations; or leave that size out of `dynamic`: then the "
            "function is compiled once for each size."
        ) from cause


def structure(program: Program) -> list[tuple[type, int]]:
    """Which ops a program consists of, in order, and how many arguments each has."""
    return [(type(t.op), len(t.args)) for t in in_order(program.roots)]


def _unify(programs: Sequence[Program], samples: Sequence[Sample]) -> Program:
    """One program for several sizes; raises `_DifferError` where they are not the same steps."""
    orders = [in_order([*p.roots, *p.inputs]) for p in programs]
    if len({len(o) for o in orders}) != 1:
        counts = ", ".join(
            [f"{len(o)} steps at {dict(s)}" for o, s in zip(orders, samples, strict=True)]
        )
        raise _DifferError(f"it takes {counts}")
    new: dict[Term, Term] = {}
    for ts in zip(*orders, strict=True):
        made = _term(ts, [[new[a] for a in t.args] for t in ts], samples)
        for t in ts:
            new[t] = made
    first = programs[0]
    return Program(
        tuple([new[t] for t in first.inputs]),
        tuple([new[t] for t in first.results]),
        tuple([(i, new[t]) for i, t in first.updates]),
    )


def _term(ts: Sequence[Term], args: Sequence[list[Term]], samples: Sequence[Sample]) -> Term:
    t = ts[0]
    if any(type(x.op) is not type(t.op) or x.index != t.index for x in ts):
        raise _DifferError(f"{t.name} at one size is {ts[-1].name} at another{_where(t)}")
    if any(a != args[0] for a in args):
        raise _DifferError(f"{t.name} is of other values at another size{_where(t)}")
    shape = _value([x.shape for x in ts], samples, t)
    if t.op is None:
        value = t.value if t.index is not None else _constant(ts, samples)
        return Term(None, (), shape, t.dtype, value, t.index, t.code, t.at)
    fields = [_value([getattr(x.op, name) for x in ts], samples, t) for name in t.op.fields]
    op: Op = t.op if all(x.op is t.op for x in ts) else type(t.op)(*fields)
    return Term(op, tuple(args[0]), shape, t.dtype, None, None, t.code, t.at)


def _where(t: Term) -> str:
    from chainrule.engine.provenance import location

    return "" if t.code is None else f" ({location(t.code, t.at)})"


def _value(values: Sequence[Any], samples: Sequence[Sample], t: Term) -> Any:
    """What a field or a shape is at all sizes."""
    first = values[0]
    if isinstance(first, tuple):
        counts = [len(v) for v in values]
        if len(set(counts)) != 1:
            raise _DifferError(f"{t.name} has {counts[0]} sizes, then {counts[-1]}{_where(t)}")
        return tuple([_value(list(vs), samples, t) for vs in zip(*values, strict=True)])
    if isinstance(first, WhileLoop):
        return _unified_loop(values, samples, t)
    if all(type(v) is type(first) and v == first for v in values):
        return first
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        found = fit_polynomial(values, samples)
        if found is not None:
            return found
    shown = ", ".join([f"{v} at {dict(s)}" for v, s in zip(values, samples, strict=True)])
    raise _DifferError(f"{t.name} takes {shown}: no polynomial{_where(t)}")


def _unified_loop(values: Sequence[WhileLoop], samples: Sequence[Sample], t: Term) -> WhileLoop:
    """The iterations of a loop at all sizes, also in simpler terms where these are known."""
    first, simple = values[0], [v.known_simple for v in values]
    whole = _unify([v.program for v in values], samples)
    found = [p for p in simple if p is not None]
    made = _unify(found, samples) if len(found) == len(values) else None
    most = None if first.most is None else _value([v.most for v in values], samples, t)
    return WhileLoop(whole, first.carries, first.inlined, most=most, _simple=made)


def _constant(ts: Sequence[Term], samples: Sequence[Sample]) -> Any:
    """A constant at all sizes: the same array, or one pattern."""
    first: Any = ts[0].value
    plain = isinstance(first, bool | int | float | complex)
    if plain:
        found = number_fitted([x.value for x in ts], samples, ts[0].dtype)
        if found is not None:
            return (
                found if found is first or not isinstance(found, Size | Ratio) else Uniform(found)
            )
    elif all(np.array_equal(x.value, first) and x.shape == ts[0].shape for x in ts):
        return first
    shapes = [find_pattern(x.value) for x in ts]
    made = None if plain else _pattern(shapes, samples, ts[0].dtype)
    if made is None:
        raise _DifferError(
            f"a constant of shape {ts[0].shape} depends on it in a way that no formula here says"
            f"{_where(ts[0])}; make it of arange and comparisons inside the function"
        )
    return made


def _pattern(found: Sequence[Any], samples: Sequence[Sample], dtype: Any) -> Any:
    kinds: set[Any] = {type(p) for p in found}
    if kinds == {Uniform}:
        value = number_fitted([p.value for p in found], samples, dtype)
        return None if value is None else Uniform(value)
    if kinds == {Triangle}:
        k = fit_polynomial([p.k for p in found], samples)
        return None if k is None else Triangle(k)
    if kinds == {Steps} and len({p.axis for p in found}) == 1:
        parts = [fit_polynomial([getattr(p, n) for p in found], samples) for n in ("start", "step")]
        return None if None in parts else Steps(found[0].axis, *parts)
    return None


def symbols_of(program: Program) -> set[str]:
    """The symbols on which a program depends."""
    found: set[str] = set()
    for t in in_order([*program.roots, *program.inputs]):
        fields = () if t.op is None else [getattr(t.op, name) for name in t.op.fields]
        for x in (t.shape, t.value, *fields):
            found |= _symbols(x)
    return found


def _symbols(value: Any) -> set[str]:
    """The names of the sizes that are in a constant's description."""
    match value:
        case tuple():
            return set[str]().union(*[_symbols(v) for v in cast("tuple[Any, ...]", value)])
        case Size():
            return set(value.symbols)
        case Ratio():
            return _symbols(value.size)
        case Uniform(value=x) | Triangle(k=x):
            return _symbols(x)
        case Steps():
            return _symbols((value.start, value.step))
        case WhileLoop():
            return symbols_of(value.program)
        case _:
            return set()


# --- whether a program is right at other sizes ---------------------------------------------------


def holds_at(whole: Program, traced: Program, sample: Sample) -> bool:
    """Whether the program with symbols is the one that was traced at the sizes `sample`."""
    ours, theirs = (in_order([*p.roots, *p.inputs]) for p in (whole, traced))
    if len(ours) != len(theirs):
        return False
    place = {t: i for i, t in enumerate(ours)}
    also = {t: i for i, t in enumerate(theirs)}
    return all(
        _is_at(x, y, sample) and [place[a] for a in x.args] == [also[a] for a in y.args]
        for x, y in zip(ours, theirs, strict=True)
    )


def _is_at(x: Term, y: Term, sample: Sample) -> bool:
    """Whether the term `x`, with symbols, is `y` where they have the values `sample`."""
    if type(x.op) is not type(y.op) or x.index != y.index or x.dtype != y.dtype:
        return False
    if _value_at(x.shape, sample) != y.shape:
        return False
    if x.op is not None:
        names = x.op.fields
        return all(_is_field(getattr(x.op, n), getattr(y.op, n), sample) for n in names)
    return x.index is not None or _same_constant(x.value, y.value, y.dtype, sample)


def _is_field(ours: Any, theirs: Any, sample: Sample) -> bool:
    if isinstance(ours, WhileLoop):
        return holds_at(ours.program, theirs.program, sample)
    return _value_at(ours, sample) == theirs


def _value_at(value: Any, sample: Sample) -> Any:
    """A field, a shape or a number where the symbols have these values."""
    match value:
        case tuple():
            return tuple([_value_at(v, sample) for v in cast("tuple[Any, ...]", value)])
        case Size():
            return value.bind(sample)
        case Ratio():
            size = _value_at(value.size, sample)
            return value.scale / size if value.over else value.scale * size
        case _:
            return value


def _same_constant(ours: Any, theirs: Any, dtype: Any, sample: Sample) -> bool:
    """Whether a constant of another trace is what ours is at that trace's sizes."""
    if not isinstance(ours, Uniform | Triangle | Steps):
        return np.array_equal(ours, theirs, equal_nan=dtype.kind == "f")
    found = find_pattern(theirs)
    match ours:
        case Uniform():
            if not isinstance(found, Uniform):
                return False
            near = 4 * np.finfo(dtype).eps if dtype.kind == "f" else 0
            wanted = _value_at(ours.value, sample)
            return bool(np.isclose(found.value, wanted, rtol=near, atol=0, equal_nan=True))
        case Triangle():
            return found == Triangle(_value_at(ours.k, sample))
        case Steps():
            parts = _value_at((ours.start, ours.step), sample)
            return found == Steps(ours.axis, *parts)
