"""What the backward computes again of the forward: signs, factors and functions in it.

The gradients are not affine in such a value as a rule (`tanh(x @ w - b)`), so that no weight can be
solved for: what could stand there instead is tried, one after another.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, ATOM, MUL, POW, as_part, called
from chainrule.verify.repair.pool import fills, with_axes
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.syntax import is_simple
from chainrule.verify.repair.watch import is_count, plain, shape_of
from chainrule.verify.repair.wording import (
    elementwise_calls,
    elementwise_methods,
    forward_texts,
)

_SIGN, _INNER_SIGN, _OPERAND, _FUNCTION = 1.15, 1.35, 1.7, 1.5
"""How unlikely it is that a sign is turned: where one stands, where none does; that an operand is
missing; that a function is."""
_USUAL, _UNSAID = ("exp", "log", "sqrt", "tanh"), 0.2
"""Functions that are tried though nobody calls them, and how much unlikelier they are."""
_ONE = 0.2
"""How much likelier a 1 is than a name."""
_OTHERS = 24
"""Named values that are tried beside one expression."""


def signs(scene: Scene) -> Iterator[Edit]:
    """Another sign: `x @ w - b` to `x @ w + b`, `f(x)` to `f(-x)`."""
    for node in _recomputed(scene):
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
                sign, other = ("+", "-") if isinstance(op, ast.Add) else ("-", "+")
                end, start = scene.draft.span(left)[1], scene.draft.span(right)[0]
                at = scene.draft.body.index(sign, end, start)
                yield Edit(at, at + 1, other, "sign", _SIGN, f"`{sign}` becomes `{other}`")
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                yield scene.put(node, scene.draft.src(inner), "sign", _SIGN)
            case _ if _is_argument(scene, node):
                text = f"-{as_part(scene.draft, node, MUL)}"
                yield scene.put(node, text, "sign", _INNER_SIGN)
            case _:
                continue


def operands(scene: Scene) -> Iterator[Edit]:
    """A named value that is missing, or a 1: as a factor, as a divisor, as a term."""
    for node in _recomputed(scene):
        shape = scene.shape(node)
        if shape is None or not scene.is_array(node) or (is_simple(node) and not shape):
            continue
        unlikely = _OPERAND + (0.0 if node in scene.roots else 0.2 if is_simple(node) else 0.1)
        add, mul, pow_ = [as_part(scene.draft, node, level) for level in (ADD, MUL, POW + 1)]
        here = scene.draft.src(node)
        for text in (f"1 + {add}", f"1 - {mul}", f"1 / {pow_}", f"{pow_} ** 2"):
            yield scene.put(node, text, "wrong_value", unlikely - _ONE)
        for name, cost in _beside(scene, node, shape):
            if name == here:
                continue
            cost += unlikely
            yield scene.put(node, f"{mul} * {name}", "factor", cost)
            yield scene.put(node, f"{mul} / {name}", "factor", cost)
            yield scene.put(node, f"{add} + {name}", "missing_term", cost)
            yield scene.put(node, f"{add} - {name}", "missing_term", cost)


def functions(scene: Scene) -> Iterator[Edit]:
    """A function that is missing around a value: of those that forward and backward call first."""
    texts = "\n".join([scene.draft.body, *forward_texts(scene.draft.source)])
    calls, methods = elementwise_calls(texts), elementwise_methods(texts)
    library = scene.dialect.library
    usual = [f"{library}.{name}" for name in _USUAL] if library is not None else []
    costs = dict.fromkeys(usual, _FUNCTION + _UNSAID) | dict.fromkeys(calls, _FUNCTION)
    for node in _recomputed(scene):
        if not scene.is_array(node):
            continue
        whole = 0.0 if node in scene.roots else 0.1
        for call, cost in costs.items():
            name = call.rpartition(".")[2]
            text = f"{call}({scene.draft.src(node)})"
            yield scene.put(node, text, code_of(name), cost + whole)
        for name in methods:
            text = f"{as_part(scene.draft, node, ATOM)}.{name}()"
            yield scene.put(node, text, code_of(name), _FUNCTION + whole)


def _recomputed(scene: Scene) -> Iterator[ast.expr]:
    """Expressions of fractions into which no cotangent comes, and that are more than a name that
    is handed on, or a selection."""
    for node in scene.expressions:
        value = plain(scene.value(node))
        if value is None or value.dtype.kind != "f" or scene.flows(node):
            continue
        parent = scene.draft.parents.get(node)
        if isinstance(parent, ast.Subscript | ast.Attribute | ast.keyword | ast.Starred):
            continue
        if isinstance(node, ast.Constant) or scene.draft.span(node) in scene.only_returned:
            continue
        yield node


def _is_argument(scene: Scene, node: ast.expr) -> bool:
    """Whether a function of a value is taken."""
    parent = scene.draft.parents.get(node)
    return isinstance(parent, ast.Call) and node in parent.args and bool(called(parent))


def _beside(scene: Scene, node: ast.expr, shape: Shape) -> Iterator[tuple[str, float]]:
    """Named values that fill an expression, with further axes if they need them, and how much less
    likely that makes them."""
    found = list[tuple[str, float]]()
    for name, value in scene.arrays_at(node).items():
        if name in scene.flowing or (held := shape_of(value)) is None:
            continue
        spread = with_axes(name, held, len(shape))
        found += [(t, c) for t, here, c in spread if fills(here, shape) or fills(shape, here)]
    numbers = [k for k, v in scene.numbers.items() if k.isidentifier() and not is_count(v)]
    yield from [*found, *[(n, 0.0) for n in numbers]][:_OTHERS]


def code_of(function: str) -> str:
    """What the mistake is called if this function is missing."""
    return "one_sided" if function in ("abs", "fabs", "absolute") else "wrong_value"
