"""The local derivative of one op at one input, in the sparsest form that it has.

| form | found where | how |
|---|---|---|
| `Factor` | elementwise ops | the table's partial derivative |
| `Product` | matrix products, einsum | the op's letters |
| `Gather`, `Scatter` | what moves, repeats, picks or adds up elements | the rule is asked where it \
puts three arrays of numbers, and the answer is checked by a fourth |
| `Matrix` | all others of moderate size | the rule, asked for one output element at a time |

Notation: `op` at `xs` gave `y`; `place` the input that the derivative is taken for.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule import functional
from chainrule.errors import ChainruleError
from chainrule.op import Op
from chainrule.ops.contraction import Einsum, MatMul
from chainrule.ops.families import Elementwise
from chainrule.ops.rows import Partial
from chainrule.scalar.rules import written
from chainrule.tensors import Tensor
from chainrule.traces.keeping import Keeper
from chainrule.traces.trace import Factor, Gather, Local, Matrix, Opaque, Product, Scatter

LONGEST = 64
"""A rule of more letters is not written out."""
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def local_of(op: Op, place: int, xs: Sequence[Any], y: Any, keeper: Keeper) -> Local:
    """The local derivative of `op` for its input number `place`; arrays or numbers `xs`."""
    if isinstance(op, Elementwise):
        return _factor(op, place, xs, y, keeper)
    if (letters := letters_of(op, xs)) is not None:
        return Product(*letters, place, _product_rule(op, place, letters))
    rule = f"∂ {op.name} / ∂ input {place + 1}"
    x = np.asarray(xs[place])
    if isinstance(y, tuple):
        return Opaque("this op has several outputs", rule)
    if x.dtype.kind == "c" or y.dtype.kind == "c":
        return Opaque("its numbers are complex", rule)
    if not (keeper.takes(x.size) and keeper.takes(y.size)):
        return Opaque("its arrays are too large to be kept", rule)
    try:
        return _moved(op, place, xs, x, y) or _matrix(op, place, xs, x, y, rule)
    except (ChainruleError, NotImplementedError) as error:
        return Opaque(str(error).splitlines()[0], rule)


# --- Elementwise ---------------------------------------------------------------------------------


def _factor(op: Elementwise, place: int, xs: Sequence[Any], y: Any, keeper: Keeper) -> Local:
    partial = op.partials[place]
    rule = rule_of(partial, len(op.partials))
    if not keeper.takes(y.size):
        return Opaque("its arrays are too large to be kept", rule)
    with np.errstate(all="ignore"):
        values = np.asarray(partial.value(y, xs))
    if values.dtype.kind not in "fV" and y.dtype.kind == "f":
        values = values.astype(y.dtype)
    if values.dtype.kind == "c":
        return Opaque("its numbers are complex", rule)
    kept = np.array(values)
    kept.setflags(write=False)
    return Factor(kept, rule, partial.singular)


def rule_of(partial: Partial, count: int) -> str:
    """A partial derivative in symbols: `y` the output, `x` or `a b` the inputs.

    >>> from chainrule.ops.elementwise import div
    >>> [rule_of(p, 2) for p in div.partials]
    ['1 / b', '-y / b']
    """
    names = ("y", "a" if count > 1 else "x", "b", "c")
    known = [names[i] for i in partial.reads]
    text = written(partial.formula, known, otherwise=f"slope({', '.join(known)})")
    try:
        text = ast.unparse(ast.parse(text, mode="eval"))  # without parentheses that say nothing
    except SyntaxError:
        pass
    return text if len(text) <= LONGEST else f"slope({', '.join(known)})"


# --- Products ------------------------------------------------------------------------------------


def letters_of(op: Op, xs: Sequence[Any]) -> tuple[tuple[str, ...], str] | None:
    """A letter for each axis of the inputs and of the output; None for what is no product.

    Leading axes of a matrix product are aligned at their ends; one of size 1 is repeated.
    """
    if isinstance(op, Einsum):
        return op.terms, op.out
    if not isinstance(op, MatMul):
        return None
    a, b = [len(x.shape) - 2 for x in xs]
    lead = _LETTERS[3 : 3 + max(a, b)]
    left = ("ab", "ba")[op.turn_a]
    right = ("bc", "cb")[op.turn_b]
    return (lead[len(lead) - a :] + left, lead[len(lead) - b :] + right), f"{lead}ac"


def _product_rule(op: Op, place: int, letters: tuple[tuple[str, ...], str]) -> str:
    """`g @ bᵀ`, say."""
    if isinstance(op, MatMul):
        a, b = ("aᵀ" if op.turn_a else "a"), ("bᵀ" if op.turn_b else "b")
        if place == 0:
            return f"{b} @ gᵀ" if op.turn_a else f"g @ {_transposed(b)}"
        return f"gᵀ @ {a}" if op.turn_b else f"{_transposed(a)} @ g"
    terms, out = letters
    others = [t for i, t in enumerate(terms) if i != place]
    return f"einsum('{','.join([out, *others])}->{terms[place]}', g, ...)"


def _transposed(name: str) -> str:
    return name[0] if name.endswith("ᵀ") else f"{name}ᵀ"


# --- What moves elements -------------------------------------------------------------------------


def _moved(op: Op, place: int, xs: Sequence[Any], x: Any, y: Any) -> Local | None:
    """`Scatter` or `Gather`, if the op is such at this point; None if it is neither."""
    pull, push = _rules(op, place, xs)
    found = _one_source(pull, x.size, y.size, y.shape)
    if found is not None:
        target, coefficients = found
        return Scatter(target, coefficients, "1" if _all_one(coefficients) else "coefficient")
    found = _one_source(push, y.size, x.size, x.shape)
    if found is not None:
        source, coefficients = found
        return Gather(source, coefficients, "1" if _all_one(coefficients) else "coefficient")
    return None


def _all_one(x: Any) -> bool:
    return bool((x == 1).all())


Map = Callable[[Any], Any]


def _rules(op: Op, place: int, xs: Sequence[Any]) -> tuple[Map, Map]:
    """Cotangents back and tangents forward through the op at this input, float64 arrays."""
    wide = [
        x.astype(np.float64)
        if i == place or (isinstance(x, np.ndarray) and x.dtype.kind in "fV")
        else x
        for i, x in enumerate(xs)
    ]

    def f(x: Any) -> Any:
        return op(*[x if i == place else other for i, other in enumerate(wide)])

    x = Tensor(wide[place], None)
    y, pullback = functional.vjp(f, x)

    def pull(g: Any) -> Any:
        return np.asarray(pullback(Tensor(g.astype(y.dtype), None))[0].numpy(), np.float64)

    def push(t: Any) -> Any:
        return np.asarray(functional.jvp(f, (x,), (Tensor(t, None),))[1].numpy(), np.float64)

    return pull, push


def _one_source(linear: Map, count: int, among: int, shape: Any) -> tuple[Any, Any] | None:
    """For a linear map of which each of `count` results is a multiple of one of `among` elements:
    which element, and the factor. None if it is no such map."""
    if not (count and among):
        return None
    rng = np.random.default_rng(0)
    numbers = np.arange(1.0, among + 1)
    factors = linear(np.ones(shape)).ravel()
    named = linear(numbers.reshape(shape)).ravel()
    with np.errstate(all="ignore"):
        which = np.where(factors == 0, 0, np.rint(named / factors) - 1)
    if not (np.isfinite(which).all() and (which >= 0).all() and (which < among).all()):
        return None
    which = which.astype(np.int64)
    test = rng.normal(size=among)
    if not np.allclose(linear(test.reshape(shape)).ravel(), factors * test[which], rtol=1e-12):
        return None
    return which.astype(np.int32), factors


# --- All others ----------------------------------------------------------------------------------

MAX_PULLS = 512
MAX_ENTRIES = 1 << 14


def _matrix(op: Op, place: int, xs: Sequence[Any], x: Any, y: Any, rule: str) -> Local:
    """One output element at a time."""
    if y.size > MAX_PULLS:
        return Opaque(f"it has {y.size:,} output elements, each with a derivative of its own", rule)
    pull, _ = _rules(op, place, xs)
    rows: list[Any] = []
    columns: list[Any] = []
    values: list[Any] = []
    for j in range(y.size):
        g = np.zeros(y.size)
        g[j] = 1
        bar = pull(g.reshape(y.shape)).ravel()
        (at,) = bar.nonzero()
        rows.append(np.full(len(at), j, np.int32))
        columns.append(at.astype(np.int32))
        values.append(bar[at])
    entries = math.fsum(map(len, rows))
    if entries > MAX_ENTRIES:
        return Opaque(f"its Jacobian has {int(entries):,} entries", rule)
    return Matrix(*[np.concatenate(parts) for parts in (rows, columns, values)], rule=rule)
