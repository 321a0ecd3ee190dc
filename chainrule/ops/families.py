"""The families: what an op's statement leaves out, its family derives.

| family | states | derived here |
|---|---|---|
| `Elementwise` | value, a partial per argument | vjp `g * d` summed to the input's shape, jvp |
| `Linear` | value, shape, vjp | jvp: the op on the tangents |
| `Multilinear` | value, shape, vjp | jvp: the sum of the op with one argument replaced |

What rows of the elementwise table state is in `rows.py`; here each is given its rules for arrays.

Notation: `d` a partial derivative; `y`, `x` or `a b c` the output and the inputs that it reads.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import cache
from functools import partial as curry
from types import MethodType
from typing import Any, ClassVar

import numpy as np

from chainrule.engine import watch
from chainrule.engine.dtypes import NARROW, float32, number_of, weakly
from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec, derived
from chainrule.ops.eager_kernels import (
    Calls,
    are_alike,
    by_kernels,
    is_large,
    is_ours,
    product_kernel,
)
from chainrule.ops.rows import Elementwise as Elementwise
from chainrule.ops.rows import LazyFunction, NotOffered, Rule, equip_with
from chainrule.ops.rows import Partial as Partial
from chainrule.ops.rows import elementwise as elementwise
from chainrule.ops.rows import rows as rows

# --- Elementwise ---------------------------------------------------------------------------------


def _rule_of(partial: Partial) -> Rule:
    """`(g, y, xs) -> g * d`, in the shortest form for what the partial reads."""
    d, at = partial.formula, partial.reads
    if isinstance(d, NotOffered):
        return lambda g, y, xs: d()
    if not at:
        return _constant_rule(d())
    if partial.singular:
        return lambda g, y, xs: _strong(g, d(*[xs[i - 1] if i else y for i in at]))
    if len(at) == 1:
        return _product_rule(d, at[0] - 1)
    return lambda g, y, xs: g * d(*[xs[i - 1] if i else y for i in at])


def _product_rule(d: Any, i: int) -> Rule:
    """`g * d` where d reads input i, or y where that is -1."""
    if d.__code__.co_code == _itself.__code__.co_code:
        return (lambda g, y, xs: g * y) if i < 0 else (lambda g, y, xs: g * xs[i])
    return (lambda g, y, xs: g * d(y)) if i < 0 else (lambda g, y, xs: g * d(xs[i]))


def _itself(x: Any) -> Any:
    return x


def _constant_rule(d: float) -> Rule:
    if d == 1:
        return lambda g, y, xs: g
    if d == -1:
        return lambda g, y, xs: -g
    if d == 0:
        return lambda g, y, xs: zeros_like(g)
    return lambda g, y, xs: g * d


def _strong(g: Any, d: Any) -> Any:
    """`g * d`, but exactly 0 wherever `g` is 0, whatever `d` is."""
    if isinstance(d, float | int) and math.isfinite(d):
        return g * d
    return strong_mul(g, d)


def zeros_like(x: Any) -> Any:
    """Zeros of the shape and dtype of `x` (an array, a variable, a node, a Spec)."""
    return np.zeros(x.shape, x.dtype)


def _vjp_of(row: Elementwise, rules: Sequence[Rule]) -> Callable[..., Sequence[Any]]:
    """`g * d` for each input that needs it, summed over the axes along which that was repeated."""
    if len(rules) == 1:
        return _vjp_of_one(row, *rules)
    if len(rules) == 2:  # written out: the general form costs as much as the arithmetic
        left, right = rules

        def both(need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
            a_bar = b_bar = None
            shape = g.shape
            for_a, for_b = need
            if for_a:
                a_bar = left(g, y, xs)
                if (size := xs[0].shape) != shape:
                    a_bar = sum_to(a_bar, size)
            if for_b:
                b_bar = right(g, y, xs)
                if (size := xs[1].shape) != shape:
                    b_bar = sum_to(b_bar, size)
            return a_bar, b_bar

        return both

    def several(need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        return [
            sum_to(rule(g, y, xs), x.shape) if needed else None
            for rule, needed, x in zip(rules, need, xs, strict=True)
        ]

    return several


def _vjp_of_one(row: Elementwise, rule: Rule) -> Callable[..., Sequence[Any]]:
    """`g * d`; of many elements by one kernel, where `d` is a row that has one."""

    def one(need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        return (rule(g, y, xs),)

    (partial,) = row.partials
    if partial.singular or partial.reads != (1,):
        return one
    calls = Calls(curry(product_kernel, row.label), 2)
    latest = calls.latest.get
    has_kernel = cache(curry(pulls_by_kernel, row))  # later: rows of slopes stand further down

    def by_kernel(need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        x = xs[0]
        if x.__class__ is np.ndarray and not watch.watches:  # who watches wants to hear of NaNs
            run = latest(x.shape)
            if run and (made := run((g, x))):
                return made
            if has_kernel() and is_large(x) and are_alike(g, x):
                return (calls.run((g, x)),)
        return (rule(g, y, xs),)

    return by_kernel


def pulls_by_kernel(row: Elementwise) -> bool:
    """Whether the slope of a row of ours, of one argument, is made of a row whose value a kernel
    computes."""
    if not is_ours(row) or len(row.partials) != 1:
        return False
    if row.partials[0].singular or row.partials[0].reads != (1,):
        return False
    formula: Any = inspect.unwrap(row.partials[0].formula)
    made_of = [formula.__globals__.get(name) for name in formula.__code__.co_names]
    return any(isinstance(row, Elementwise) and row.fn in by_kernels for row in made_of)


def _spec(row: Elementwise, *xs: Any) -> Spec:
    shape = np.broadcast_shapes(*[x.shape for x in xs if isinstance(x, Spec)])
    empty = empties(xs)
    return Spec(shape, weakly(empty, row.fn(*empty)).dtype)


def _strong_vjp_of(row: Elementwise, rules: Sequence[Rule]) -> Callable[..., Sequence[Any]]:
    def strong(need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        parts = zip(row.partials, rules, row.read, need, xs, strict=True)
        return [
            sum_to(_strong(g, p.value(y, xs)) if read else rule(g, y, xs), x.shape)
            if needed
            else None
            for p, rule, read, needed, x in parts
        ]

    return strong


def _jvp_of(rules: Sequence[Rule]) -> Callable[..., Any]:
    """The sum of `t * d` over the inputs that have a tangent."""

    def jvp(ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        parts = [rule(t, y, xs) for t, rule in zip(ts, rules, strict=True) if t is not None]
        total: Any = sum(parts[1:], parts[0])
        return total if total.shape == y.shape else broadcast_to(total, y.shape)

    return jvp


def _arity(fn: Any, partials: int) -> int:
    """How many arrays a row takes: as many as it has partials, or as its function says."""
    return partials or getattr(fn, "nin", 0) or len(inspect.signature(fn).parameters)


def _equip(row: Elementwise) -> None:
    """Put into `row` what computes with arrays."""
    fn: Any = row.fn
    if isinstance(fn, LazyFunction):
        fn = fn.load(row.label)
    rules = [_rule_of(p) for p in row.partials]
    parts: dict[str, Any] = {
        "fn": fn,
        "takes": _arity(fn, len(rules)),
        "eval": fn,  # one call less on the way to the value
        "spec": MethodType(_spec, row),
        "vjp": _vjp_of(row, rules),
        "strong_vjp": _strong_vjp_of(row, rules),
        "jvp": _jvp_of(row.forward or rules),
    }
    for name, part in parts.items():
        object.__setattr__(row, name, part)


equip_with(_equip)


# --- Other families ------------------------------------------------------------------------------


class Linear(Op):
    """An op that is linear in all of its differentiable inputs taken together.

    `data` are the places of inputs that are not differentiable (indices, conditions); the vjp reads
    nothing else.
    """

    data: ClassVar[tuple[int, ...]] = ()

    def reads(self, i: int) -> tuple[int, ...] | None:
        """The data."""
        return None if i + 1 in self.data else self.data

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The op on the tangents; where one is missing, on zeros."""
        args: list[Any] = []
        for i, (t, x) in enumerate(zip(ts, xs, strict=True), 1):
            if i in self.data:
                args.append(x)
            elif t is None:
                args.append(zeros_like(x) if hasattr(x, "shape") else 0)
            else:
                args.append(t)
        return apply(self, *args)


class Multilinear(Op):
    """An op that is linear in each input while the others stand still."""

    count: ClassVar[int]
    """How many inputs."""

    def reads(self, i: int) -> tuple[int, ...] | None:
        """The other inputs."""
        return tuple([j for j in range(1, self.count + 1) if j != i + 1])

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The sum over the inputs with a tangent of the op with that input replaced."""
        parts = [
            apply(self, *[t if j == i else x for j, x in enumerate(xs)])
            for i, t in enumerate(ts)
            if t is not None
        ]
        return sum(parts[1:], parts[0])


def empties(xs: Sequence[Any]) -> list[Any]:
    """Arrays without elements, and numbers, whose dtypes promote as those of `xs` (Specs, numbers).

    A Spec that stands for a number is one beside others; by itself it is an array.
    """
    some = any(isinstance(x, Spec) and not x.weak for x in xs)
    known = [number_of(x) if some else x for x in xs]
    return [np.empty(0, x.dtype) if isinstance(x, Spec) else x for x in known]


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What sums of many terms of `dtype` are added up in: float32 for float16, whose numbers are 2
    apart beyond 2048, and bfloat16 (beyond 256); itself for the others."""
    return float32 if dtype.char in NARROW else dtype


class SumTo(Linear):
    """Undo broadcasting: sum over the axes along which `shape` was repeated to `wide`."""

    wide: tuple[int, ...]
    shape: tuple[int, ...]
    axes: tuple[int, ...] = derived()

    def prepare(self) -> None:
        """The axes to sum over."""
        lead = len(self.wide) - len(self.shape)
        pairs = zip(self.wide[lead:], self.shape, strict=True)
        repeated = [lead + i for i, (n, m) in enumerate(pairs) if n != m]
        object.__setattr__(self, "axes", (*range(lead), *repeated))

    @property
    def name(self) -> str:
        """`sum_to`."""
        return "sum_to"

    def eval(self, *xs: Any) -> Any:
        """The sum, of shape `shape`."""
        (x,) = xs
        total = np.add.reduce(x, axis=self.axes, dtype=accumulator(x.dtype))
        return total.reshape(self.shape).astype(x.dtype, copy=False)

    def spec(self, *xs: Any) -> Spec:
        """`shape`, and the input's dtype."""
        return Spec(self.shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Repeat `g` again."""
        return (broadcast_to(g, xs[0].shape),)


class Conj(Linear):
    """The complex conjugate; a real number itself.

    Rules are stated as if every op were holomorphic: `vjp` is the transpose of the linear map, not
    its adjoint. So this op, linear over the reals only, is its own transpose.
    """

    @property
    def name(self) -> str:
        """`conj`."""
        return "conj"

    def eval(self, *xs: Any) -> Any:
        """NumPy's conjugate."""
        return np.conjugate(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The conjugate of `g`."""
        return (apply(self, g),)


def conj(x: Any) -> Any:
    """The complex conjugate of `x`; `x` itself if it is real.

    Shapes: (*s) -> (*s).

    >>> cr.conj(cr.tensor([1 + 2j]))
    tensor([1.-2.j], dtype=complex64)
    """
    return apply(Conj(), x) if x.dtype.kind == "c" else x


_SMALL = 4096
"""Up to how many elements a copy is faster to make than a view that repeats."""


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """`x` broadcast to `shape`: a view if that is large, else a copy, which is made faster."""
    if math.prod(shape) > _SMALL or x.ndim > len(shape):
        return np.broadcast_to(x, shape)
    out: Array = np.empty(shape, x.dtype)
    out[...] = x
    return out


class BroadcastTo(Linear):
    """Repeat along axes of size 1 and new leading axes until the shape is `shape`."""

    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """`broadcast_to`."""
        return "broadcast_to"

    def eval(self, *xs: Any) -> Any:
        """A view for large arrays; for small ones a copy, which is much faster to make."""
        return repeated(xs[0], self.shape)

    def spec(self, *xs: Any) -> Spec:
        """`shape`, and the input's dtype."""
        np.broadcast_shapes(xs[0].shape, self.shape)
        return Spec(self.shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Sum what was repeated."""
        return (sum_to(g, xs[0].shape),)


def sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` summed over the axes along which `shape` was broadcast to the shape of `x`."""
    return x if x.shape == shape else apply(SumTo(x.shape, shape), x)


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` repeated to `shape` by the broadcasting rules. Any dtype; same dtype out.

    Shapes: (...) -> (*shape).

    >>> import chainrule as cr
    >>> cr.broadcast_to(cr.tensor([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    return apply(BroadcastTo(tuple(shape)), x)


def _strong_product(g: Any, d: Any) -> Any:
    y = np.multiply(g, d)
    if np.isfinite(y).all():  # so no 0 met an infinity, which is nearly always
        return y
    return np.where(np.equal(g, 0), np.zeros((), y.dtype), y)


def _second(b: Any) -> Any:
    return b


def _first(a: Any) -> Any:
    return a


def _strong_scalar(g: float, d: float) -> float:
    return 0.0 if g == 0 else g * d


strong_mul = elementwise(
    _strong_product,
    _second,
    _first,
    name="strong_mul",
    singular=True,
    scalar=_strong_scalar,
    # In forward mode, too, it is the 0 of g that wins: over any tangent of d.
    forward=(lambda t, _, xs: _strong(t, xs[1]), lambda t, _, xs: _strong(xs[0], t)),
)
"""`g * d`, but exactly 0 wherever g is 0, whatever d is: the strong zero as an op."""
