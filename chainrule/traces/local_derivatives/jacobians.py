"""The local derivative of one op at one input, in the sparsest form that it has.

| form | found where | how |
|---|---|---|
| `Factor` | elementwise ops | the table's partial derivative |
| `Product` | matrix products, einsum | the op's letters |
| all others | the other ops | see `sparse`: the op's own rules are asked |

Notation: `op` at `xs` gave `y`; `place` the input that the derivative is taken for.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from chainrule.engine.derive import pulled_back, pushed_forward
from chainrule.engine.graph import recording, value_of
from chainrule.engine.op import Op, Pick, Spec
from chainrule.errors import ChainruleError
from chainrule.ops.contraction import Einsum, MatMul
from chainrule.ops.families import Elementwise
from chainrule.ops.rows import Partial
from chainrule.scalar.rules import source_of
from chainrule.traces.kept_values import is_array
from chainrule.traces.local_derivatives.sparse import Rule, sparse_form
from chainrule.traces.trace import Factor, Local, Opaque, Product

LONGEST = 64
"""A rule of more letters is not written out."""
_OURS = "chainrule.ops."
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def local_of(op: Op, place: int, xs: Sequence[Any], y: Any) -> Local:
    """The local derivative of `op` for its input number `place`; `xs` and `y` are what was kept of
    its values, numbers of the program among them."""
    letters = letters_of(op, xs)
    formula = _formula(op, place) if letters is None else _product_rule(op, place, letters)
    if op.many or isinstance(op, Pick):
        return Opaque("this op has several outputs", formula)
    if any(_is_complex(x) for x in (*xs, y)):
        return Opaque("its numbers are complex", formula)
    if letters is not None:
        return Product(*letters, place, formula)
    arrays = [x for x in (*xs, y) if not isinstance(x, bool | int | float | complex)]
    if not all(is_array(x) for x in arrays):
        return Opaque(_absence(arrays), formula)
    if isinstance(op, Elementwise):
        return _factor(op, place, xs, y)
    try:
        return sparse_form(_rule(op, place, xs, y), formula)
    except (ChainruleError, NotImplementedError) as error:
        return Opaque(str(error).splitlines()[0], formula)


def _is_complex(x: Any) -> bool:
    return isinstance(x, complex) or str(getattr(x, "dtype", "")).startswith("complex")


def _formula(op: Op, place: int) -> str:
    if isinstance(op, Elementwise):
        return rule_of(op.partials[place], len(op.partials))
    return f"∂ {op.name} / ∂ input {place + 1}"


def _absence(arrays: Sequence[Any]) -> str:
    if any(x is None for x in arrays):
        return "its values were computed before the recording began"
    return "its arrays are too large to be kept"


# --- Elementwise ---------------------------------------------------------------------------------


def _factor(op: Elementwise, place: int, xs: Sequence[Any], y: Any) -> Local:
    partial = op.partials[place]
    with np.errstate(all="ignore"):
        values = np.array(partial.value(y, xs))
    if values.dtype.kind not in "fV":
        values = values.astype(y.dtype)
    values.setflags(write=False)
    return Factor(values, rule_of(partial, len(op.partials)), partial.singular)


def rule_of(partial: Partial, count: int) -> str:
    """A partial derivative in symbols: `y` the output, `x` or `a b` the inputs.

    >>> from chainrule.ops.elementwise import div
    >>> [rule_of(p, 2) for p in div.partials]
    ['1 / b', '-y / b']
    """
    names = ("y", "a" if count > 1 else "x", "b", "c")
    known = [names[i] for i in partial.reads]
    text = source_of(partial.formula, known, otherwise=f"slope({', '.join(known)})")
    with suppress(SyntaxError):
        text = ast.unparse(ast.parse(text, mode="eval"))  # without parentheses that say nothing
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
    left = ("ab", "ba")[op.transpose_a]
    right = ("bc", "cb")[op.transpose_b]
    return (lead[len(lead) - a :] + left, lead[len(lead) - b :] + right), f"{lead}ac"


def _product_rule(op: Op, place: int, letters: tuple[tuple[str, ...], str]) -> str:
    """`g @ bᵀ`, say."""
    if isinstance(op, MatMul):
        a, b = ("aᵀ" if op.transpose_a else "a"), ("bᵀ" if op.transpose_b else "b")
        if place == 0:
            return f"{b} @ gᵀ" if op.transpose_a else f"g @ {_transpose_name(b)}"
        return f"gᵀ @ {a}" if op.transpose_b else f"{_transpose_name(a)} @ g"
    terms, out = letters
    others = [t for i, t in enumerate(terms) if i != place]
    return f"einsum('{','.join([out, *others])}->{terms[place]}', g, ...)"


def _transpose_name(name: str) -> str:
    return name[0] if name.endswith("ᵀ") else f"{name}ᵀ"


# --- All others ----------------------------------------------------------------------------------


def _rule(op: Op, place: int, xs: Sequence[Any], y: Any) -> Rule:
    """The op's own rules at this input, on arrays of float64, or of their own dtype if the op is
    the user's: it may not take others, and may not compute the same value again."""
    if type(op).__module__.startswith(_OURS):
        xs, y = _in_float64(op, xs, y)
    x = xs[place]
    need = tuple([i == place for i in range(len(xs))])
    shaped = Spec(y.shape, y.dtype)

    def pull(g: Any) -> Any:
        with recording(False), np.errstate(all="ignore"):
            bars = pulled_back(op, need, g.astype(y.dtype), y, xs)
        bar = bars[place]
        return np.zeros(x.shape) if bar is None else np.asarray(value_of(bar)).astype(np.float64)

    def push(t: Any) -> Any:
        ts = [t.astype(x.dtype) if i == place else None for i in range(len(xs))]
        with recording(False), np.errstate(all="ignore"):
            return np.asarray(value_of(pushed_forward(op, shaped, ts, y, xs))).astype(np.float64)

    epsilon = max(
        [float(np.finfo(a.dtype).eps) if a.dtype.kind == "f" else 2.0**-7 for a in (x, y)]
    )
    forward = push if type(op).__module__.startswith(_OURS) else None
    return Rule(pull, forward, x.shape, y.shape, epsilon)


def _in_float64(op: Op, xs: Sequence[Any], y: Any) -> tuple[Sequence[Any], Any]:
    """Inputs as float64, and the value that the op has there."""
    arrays = [x for x in xs if is_array(x)]
    if all(x.dtype == np.float64 or x.dtype.kind not in "fV" for x in arrays):
        return xs, y
    wide: list[Any] = [
        x.astype(np.float64) if is_array(x) and x.dtype.kind in "fV" else x for x in xs
    ]
    with np.errstate(all="ignore"):
        return wide, np.asarray(op.eval(*wide))
