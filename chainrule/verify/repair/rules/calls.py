"""Calls and factors: one too many, one for its counterpart, one that is missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from chainrule.verify.repair.code.dialect import ELEMENTWISE, elementwise_calls, forward_texts
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.rule_costs import LIKELY, RARE, USUAL
from chainrule.verify.repair.values.scene import Scene

_CASTS = ("astype", "float", "half", "double", "detach", "to", "round", "bfloat16", "float32")
_SIZES = ("abs", "fabs", "absolute")
_FLAGS = ("keepdims", "keepdim", "adjoint", "upper", "lower", "left")
"""Keywords whose answer is as easily forgotten as turned over."""
COUNTERPARTS: Final = (
    (("sum", "mean"), "factor", LIKELY),
    (("max", "min", "sum"), "wrong_value", LIKELY),
    (("var", "std"), "wrong_value", LIKELY),
    (("sin", "cos"), "wrong_value", RARE),
    (("sinh", "cosh", "tanh", "sigmoid"), "wrong_value", RARE),
    (("maximum", "minimum"), "wrong_value", RARE),
    (("exp", "log"), "wrong_value", RARE),
    (("ones_like", "zeros_like"), "wrong_value", RARE),
    (("abs", "sign", "clip"), "wrong_value", RARE),
    (("sqrt", "square"), "wrong_value", RARE),
    (("scatter", "scatter_add"), "overwritten", LIKELY),
    (("scatter_", "scatter_add_"), "overwritten", LIKELY),
    (("index_copy", "index_add"), "overwritten", LIKELY),
    (("index_copy_", "index_add_"), "overwritten", LIKELY),
    (("view", "reshape"), "contiguity", LIKELY),
)
"""Functions that are taken for one another, what that is called, and how unlikely it is."""


def unwrapped(scene: Scene) -> Iterator[Edit]:
    """A factor, a divisor or a call too much: `g * g` for `g`, `np.sign(g)` for `g`."""
    for node in scene.expressions:
        match node:
            case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv()):
                for kept, gone in ((node.left, node.right), (node.right, node.left)):
                    of_numbers = scene.shape(gone) == () and not scene.is_array(gone)
                    squared = scene.draft.src(gone) in scene.cotangents
                    code = "factor" if of_numbers else "not_linear" if squared else "wrong_value"
                    cost = LIKELY if of_numbers else RARE
                    yield scene.put(node, scene.draft.src(kept), code, cost)
            case ast.Call(args=[inner, *_], func=function) if scene.is_array(inner):
                if scene.shape(inner) == scene.shape(node) or len(node.args) == 1:
                    name = getattr(function, "attr", getattr(function, "id", ""))
                    bent = "not_linear" if scene.flows(inner) else _code(name)
                    yield scene.put(node, scene.draft.src(inner), bent, RARE)
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if scene.is_array(inner):
                code = "precision" if name in _CASTS else _code(name)
                if scene.shape(inner) == scene.shape(node):
                    yield scene.put(node, scene.draft.src(inner), code, RARE)
            case _:
                continue


def _code(function: str) -> str:
    """What the mistake is called if this function is one too many, or missing."""
    return "one_sided" if function in _SIZES else "wrong_value"


def counterparts(scene: Scene) -> Iterator[Edit]:
    """A function that is easily taken for another, or for one that the forward calls; `True` for
    `False`."""
    said = [c.rpartition(".")[2] for t in forward_texts(scene.draft.source) for c in
            elementwise_calls(t)]  # fmt: skip
    for node in scene.expressions:
        match node:
            case ast.Call(func=ast.Attribute(attr=here) as function):
                rows = [(o, code, cost) for some, code, cost in COUNTERPARTS for o in some
                        if here in some]  # fmt: skip
                rows += [(o, "wrong_value", RARE) for o in said if here in ELEMENTWISE]
                end = scene.draft.span(function)[1]
                for other, code, cost in dict.fromkeys(rows):
                    says = f"`{here}` becomes `{other}`"
                    yield Edit(end - len(here), end, other, code, cost, says)
                yield from _flags(scene, node)
            case _:
                continue


def _flags(scene: Scene, call: ast.Call) -> Iterator[Edit]:
    for k in call.keywords:
        if k.arg in _FLAGS and isinstance(k.value, ast.Constant):
            code = "wrong_axis" if k.arg.startswith("keep") else "transposed"
            yield scene.put(k.value, str(not k.value.value), code, USUAL)
