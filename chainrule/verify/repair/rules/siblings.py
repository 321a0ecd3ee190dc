"""Siblings exchanged: what is returned, unpacked or put together; operands of a matrix product."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from chainrule.verify.repair.code.dialect import forward_texts
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import MUL, called, operand
from chainrule.verify.repair.code.slopes import is_variable
from chainrule.verify.repair.code.syntax import is_sum, names_in
from chainrule.verify.repair.rule_costs import LIKELY, RARE, USUAL
from chainrule.verify.repair.rules.axes import inside_transposition
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.trees import tree_of

_MATMULS = ("matmul", "dot", "mm", "bmm")


def other_order(scene: Scene) -> Iterator[Edit]:
    """Two of the returned gradients, or of the values unpacked or put together, exchanged."""
    for node in scene.draft.nodes:
        code, cost = "wrong_value", USUAL
        match node:
            case ast.Return(value=ast.Tuple() | ast.List() as group):
                code = "wrong_input"
            case ast.Lambda(body=ast.Tuple() as group):
                code = "wrong_input"
            case ast.Assign(targets=[ast.Tuple() | ast.List() as group]):
                cost = RARE  # The forward puts them together so, as a rule.
            case ast.Call(args=[ast.Tuple() | ast.List() as group, *_]):
                if not all(map(scene.shape, group.elts)):
                    continue
            case _:
                continue
        yield from _exchanges(scene, group.elts, code, cost)


def _exchanges(scene: Scene, parts: list[ast.expr], code: str, cost: float) -> Iterator[Edit]:
    texts = [scene.draft.src(e) for e in parts]
    spans = [scene.draft.span(e) for e in parts]
    for i, k in itertools.combinations(range(min(len(texts), 8)), 2):
        between = scene.draft.body[spans[i][1] : spans[k][0]]
        text = texts[k] + between + texts[i]
        says = f"`{texts[i]}` and `{texts[k]}` change places"
        yield Edit(spans[i][0], spans[k][1], text, code, cost, says)
    if len(texts) == 3:
        for order in ((1, 2, 0), (2, 0, 1)):
            text = ", ".join([texts[i] for i in order])
            yield Edit(spans[0][0], spans[2][1], text, code, cost, f"the order becomes {text}")


def other_products(scene: Scene) -> Iterator[Edit]:
    """Every other way to multiply the same two matrices: each transposed or not, either order."""
    for node in scene.expressions:
        match node:
            case ast.BinOp(op=ast.MatMult()):
                a, b = node.left, node.right
            case ast.Call() if called(node) in _MATMULS and len(_operands(node)) == 2:
                a, b = _operands(node)
            case _:
                continue
        for (ka, ta), (kb, tb) in itertools.product(_forms(scene, a), _forms(scene, b)):
            for swapped in (False, True):
                if (ka, kb, swapped) != (0, 0, False):
                    one = (ka, kb) in ((0, 1), (1, 0))
                    whole = swapped and ka == kb == 1  # All of it, transposed.
                    cost = LIKELY if one and not swapped else USUAL if one or whole else RARE
                    text = _product(scene, node, *((tb, ta) if swapped else (ta, tb)))
                    yield scene.put(node, text, "transposed", cost)


def _forms(scene: Scene, node: ast.expr) -> list[tuple[int, str]]:
    """A matrix as it is (0) and transposed (1); a transposition that is there is taken away."""
    here = scene.draft.src(node)
    if (inner := inside_transposition(node)) is not None:
        return [(0, here), (1, scene.draft.src(inner))]
    ndim = len(scene.shape(node) or ())
    return [(0, here), (1, scene.dialect.transposed(here, ndim))] if ndim >= 2 else [(0, here)]


def _product(scene: Scene, node: ast.expr, a: str, b: str) -> str:
    if isinstance(node, ast.BinOp):
        return f"{operand(a, MUL)} @ {operand(b, MUL + 1)}"
    assert isinstance(node, ast.Call)
    function = scene.draft.src(node.func)
    if len(node.args) == 2:
        return f"{function}({a}, {b})"
    return f"{operand(a, 15)}.{called(node)}({b})"


def _operands(node: ast.Call) -> list[ast.expr]:
    if len(node.args) == 1 and isinstance(node.func, ast.Attribute):
        return [node.func.value, node.args[0]]
    return node.args if not node.keywords else []


def as_elsewhere(scene: Scene) -> Iterator[Edit]:
    """A sum or product of which a part stands alone here, as it stands in another statement:
    `beta[t]` for `E[t] + beta[t]`."""
    around = dict[str, dict[str, ast.BinOp]]()
    for text in (scene.draft.body, *forward_texts(scene.draft.source)):
        for node in ast.walk(tree_of(text)):
            match node:
                case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                    for part in (left, node.right):
                        around.setdefault(ast.unparse(part), {})[ast.unparse(node)] = node
                case _:
                    continue
    known = set(scene.watched.names)
    for node in [n for n in scene.expressions if is_variable(n) and scene.is_array(n)]:
        here = ast.unparse(scene.draft.parents[node])
        for text, whole in around.get(ast.unparse(node), {}).items():
            if text != here and names_in(whole) <= known:
                code = "missing_term" if is_sum(whole) else "factor"
                yield scene.put(node, text, code, RARE)
