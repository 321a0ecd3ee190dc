"""Calls that go along axes: what they go over, along which axis, and how they get one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType

from chainrule.verify.repair.draft import Edit, plain_function
from chainrule.verify.repair.fit import called
from chainrule.verify.repair.scene import Scene

_WORDS = ("axis", "dim", "axes")
REDUCTIONS = ("sum", "mean", "max", "min", "amax", "amin", "prod", "var", "std", "logsumexp")
"""Calls that leave one number of many."""
_ALONG = (*REDUCTIONS, "cumsum", "cumprod", "softmax", "log_softmax", "norm", "flip", "roll")


def calls(scene: Scene) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls along axes, and the array that each goes over."""
    for node in scene.expressions:
        if isinstance(node, ast.Call) and (
            called(node) in _ALONG
            or any(k.arg in _WORDS for k in node.keywords)
            or _asks_for_axis(scene, node)
        ):
            method = isinstance(node.func, ast.Attribute) and scene.is_array(node.func.value)
            if method and isinstance(node.func, ast.Attribute):
                yield node, node.func.value
            elif node.args:
                yield node, node.args[0]


def _asks_for_axis(scene: Scene, node: ast.Call) -> bool:
    """Whether it is a call of a function of the user's that has an argument called so."""
    names = plain_function(scene.draft.source.function).__globals__
    function = names.get(node.func.id) if isinstance(node.func, ast.Name) else None
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(name in _WORDS for name in given)


def axis_of(node: ast.Call) -> ast.expr | None:
    """The axis, or axes, that a call is given."""
    for k in node.keywords:
        if k.arg in _WORDS:
            return k.value
    spots = node.args[:2]
    if isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        spots = node.args
    for a in spots:
        match a:
            case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant(value=int())):
                return a
            case ast.Tuple():
                return a
            case _:
                continue
    return None


def with_argument(scene: Scene, node: ast.Call, text: str, cost: float) -> Edit:
    """A call with one more argument, which says along what it goes."""
    end = scene.draft.span(node)[1] - 1
    comma = ", " if node.args or node.keywords else ""
    says = f"`{scene.draft.src(node)}` gets `{text}`"
    return Edit(end, end, comma + text, "wrong_axis", cost, says)
