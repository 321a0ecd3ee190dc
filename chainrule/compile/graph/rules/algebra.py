"""Rules of arithmetic that hold for every number that IEEE knows: for zeros of either sign, for
infinities and NaN.

| term | is | not among them |
|---|---|---|
| `-(-x)`, `+x`, `x * 1`, `x / 1`, `x - 0.0`, `x + -0.0` | `x` | `x + 0.0`: 0.0 where x is -0.0 |
| `x * -1`, `x / -1` | `-x` | `0 - x` |
| `x + (-y)`, `x - (-y)`, `(-x) * (-y)` | `x - y`, `x + y`, `x * y` | `-(x - y)`: a zero's sign |
| `|-x|`, `(-x)^2` | `|x|`, `x^2` | |
| `strong_mul(g, d)` where g cannot be 0, or d not infinite | `g * d` | |
| `where(c, x, x)`, `where(not c, x, y)` | `x`, `where(c, y, x)` | |
| a cast of a cast that lost nothing | one cast | |

Only a zero's sign may differ where a strong product becomes a plain one: 0 times -1 is -0.0 then.

Notation: a rule of an elementwise op is found by the op's label.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.elementwise_decompositions import power, softmax
from chainrule.compile.graph.rules.rewriter import Rewriter, Rule, is_constant, number, uniform
from chainrule.compile.graph.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops.families import BroadcastTo, Elementwise, rows
from chainrule.ops.indexing.selection import Where
from chainrule.ops.shapes.shaping import Astype

Labelled = Callable[[Rewriter, Term, tuple[Term, ...]], Term | None]
"""(rewriter, the term as it is, its arguments) -> a simpler one."""


def _label(t: Term) -> str:
    return t.op.label if isinstance(t.op, Elementwise) else ""


def _minus(t: Term) -> Term | None:
    """What `t` is the negative of."""
    return t.args[0] if _label(t) == "neg" and t.dtype.kind == "f" else None


def _is(x: Term, value: float) -> bool:
    """Whether `x` is `value` everywhere, with its sign if it is a zero."""
    found = uniform(x)
    if found is None or isinstance(found, bool) or found != value:
        return False
    return math.copysign(1, found) == math.copysign(1, value)


def _as(x: Term, t: Term) -> Term | None:
    """`x`, if it has the shape and dtype of `t`."""
    return x if x.shape == t.shape and x.dtype == t.dtype else None


def _same(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    return _as(xs[0], t)


def _neg(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    return _minus(xs[0])


def _mul(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    a, b = xs
    for x, y in ((a, b), (b, a)):
        if _is(y, 1):
            return _as(x, t)
        if _is(y, -1) and t.dtype.kind == "f" and _as(x, t) is not None:
            return r.op(ew.neg, x)
    left, right = _minus(a), _minus(b)
    return r.op(ew.mul, left, right) if left is not None and right is not None else None


def _div(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    a, b = xs
    if _is(b, 1):
        return _as(a, t)
    if _is(b, -1) and _as(a, t) is not None:
        return r.op(ew.neg, a)
    left, right = _minus(a), _minus(b)
    return r.op(ew.div, left, right) if left is not None and right is not None else None


def _zero(t: Term, sign: float) -> float:
    """The zero that `t`'s kind of numbers has: integers have one."""
    return math.copysign(0.0, sign) if t.dtype.kind == "f" else 0


def _add(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    a, b = xs
    for x, y in ((a, b), (b, a)):
        if _is(y, _zero(t, -1.0)):
            return _as(x, t)
        if (z := _minus(y)) is not None:
            return r.op(ew.sub, x, z)
    return None


def _sub(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    a, b = xs
    if _is(b, _zero(t, 1.0)):
        return _as(a, t)
    z = _minus(b)
    return r.op(ew.add, a, z) if z is not None else None


def _even(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    x = _minus(xs[0])
    return r.op(t.op, x) if x is not None else None


def _not(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    (x,) = xs
    return _as(x.args[0], t) if _label(x) == "logical_not" else None


def _strong(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    g, d = xs
    plain = largest(d) < np.inf or (is_constant(g) and np.all(g.value))
    return r.op(ew.mul, g, d) if plain else None


_BEYOND = {
    "less": ("less_equal", "less"), "less_equal": ("less_equal", "less"),
    "greater": ("greater", "greater_equal"), "greater_equal": ("greater", "greater_equal"),
    "equal": ("greater", "less"), "not_equal": ("less_equal", "greater_equal"),
}  # fmt: skip
"""What a comparison with a whole number above (or below) all integers of x's dtype is: one with the
largest (or smallest) of them that always has that answer."""
_MIRRORED = {
    "less": "greater", "less_equal": "greater_equal", "greater": "less",
    "greater_equal": "less_equal", "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip


def _compare(r: Rewriter, t: Term, xs: tuple[Term, ...]) -> Term | None:
    """A number that x's dtype cannot hold would be cut to its bits: 200 is -56 as an int8."""
    label = _label(t)
    if label not in _MIRRORED:  # it is a constant already
        return None
    for x, c, name in ((*xs, label), (*xs[::-1], _MIRRORED[label])):
        n = number(c)
        if n.__class__ is not int or x.dtype.kind not in "iu":
            continue
        limits = np.iinfo(x.dtype)
        if not limits.min <= n <= limits.max:
            above = n > limits.max
            edge = r.constant(int(limits.max if above else limits.min))
            return r.op(rows[_BEYOND[name][not above]], x, edge)
    return None


LABELS: dict[str, Labelled] = {
    **dict.fromkeys(_BEYOND, _compare),
    "neg": _neg, "positive": _same, "mul": _mul, "div": _div, "add": _add, "sub": _sub,
    "abs": _even, "square": _even, "logical_not": _not, "strong_mul": _strong,
    "exp_diff": softmax, "pow": power,
}  # fmt: skip


def elementwise(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """The rule of the op's label."""
    rule = LABELS.get(op.label)
    return None if rule is None else rule(r, r.plain(op, *args), args)


# --- how large a number can be -------------------------------------------------------------------

_UNIT = {"tanh", "sigmoid", "erf", "sign"}
_DEPTH = 8
_ROOM = 1e4
"""Up to where sums and products of bounded numbers are taken to stay finite, in float16, too."""


def largest(x: Term, depth: int = _DEPTH) -> float:
    """A bound of |x|, whatever is computed from; infinity if there is none. A NaN that comes in
    stays NaN: that is no infinity, and no cotangent is protected from it."""
    if (n := uniform(x)) is not None:
        return abs(float(n)) if math.isfinite(n) else np.inf
    if x.dtype == bool:
        return 1.0
    if depth == 0 or x.op is None:
        return np.inf
    label = _label(x)
    if label in _UNIT:
        return 1.0
    inner = [largest(a, depth - 1) for a in x.args if label or isinstance(x.op, _THROUGH)]
    match label:
        case "add" | "sub":
            found = inner[0] + inner[1]
        case "mul" if np.inf not in inner:
            found = inner[0] * inner[1]
        case "neg" | "abs" | "positive":
            found = inner[0]
        case "square":
            found = inner[0] * inner[0]
        case "div" if (least := _smallest(x.args[1])) > 0:
            found = inner[0] / least
        case "":
            found = max(inner, default=np.inf)
        case _:
            return np.inf
    return found if found < _ROOM else np.inf


_THROUGH = Astype | BroadcastTo | Where


def _smallest(x: Term) -> float:
    """A bound from below of |x|, where x is a number plus what is not negative; else 0."""
    if _label(x) != "add":
        return 0.0
    for c, rest in (x.args, x.args[::-1]):
        n = uniform(c)
        square = _label(rest) in ("square", "abs") or (
            _label(rest) == "mul" and rest.args[0] is rest.args[1]
        )
        if n is not None and n > 0 and square and rest.dtype.kind == "f":
            return float(n)
    return 0.0


# --- choices and casts ---------------------------------------------------------------------------


def _where(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    c, a, b = args
    t = r.plain(op, *args)
    if a is b:
        return _as(a, t)
    if (known := uniform(c)) is not None:
        return _as(a if known else b, t)
    return r.op(op, c.args[0], b, a) if _label(c) == "logical_not" else None


_BITS = {"E": 8, "e": 11, "f": 24, "d": 53}
"""How many bits of a whole number each kind of float holds."""


def holds(wide: np.dtype[Any], x: np.dtype[Any]) -> bool:
    """Whether every number of dtype `x` is one of dtype `wide`."""
    if x == wide or x.kind == "b":
        return wide.kind in "biufV"
    if x.kind == "V" and wide.char == "e":
        return False  # of fewer digits, but larger
    if wide.char in _BITS:
        if x.char in _BITS:
            return _BITS[x.char] <= _BITS[wide.char]
        return x.kind in "iu" and 8 * x.itemsize - (x.kind == "i") <= _BITS[wide.char]
    return wide.kind in "iu" and x.kind in "iu" and np.can_cast(x, wide)


def _astype(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if x.dtype == op.dtype:
        return x
    if not isinstance(x.op, Astype):
        return None
    (y,) = x.args
    # a negative float as an unsigned integer is undefined, so that there the way matters
    direct = op.dtype == y.dtype or op.dtype.kind in "fVb" or x.dtype.kind not in "fV"
    direct = direct or y.dtype == bool
    return r.cast(y, op.dtype) if direct and holds(x.dtype, y.dtype) else None


ALGEBRA: dict[type, Rule] = {Elementwise: elementwise, Where: _where, Astype: _astype}
"""The rules, by class of op."""
