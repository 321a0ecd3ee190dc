"""Matrix products: operands transposed or exchanged; letters of an einsum; orders of axes."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.fit import MUL, called, part
from chainrule.verify.repair.code.syntax import is_sum
from chainrule.verify.repair.prior import LIKELY, RARE, USUAL
from chainrule.verify.repair.values.scene import Scene, Shape

_MATMULS = ("matmul", "dot", "mm", "bmm")
_SWAPS = ("transpose", "swapaxes", "permute_dims", "permute", "t", "matrix_transpose")


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
    if (inner := _inside_transposition(node)) is not None:
        return [(0, here), (1, scene.draft.src(inner))]
    ndim = len(scene.shape(node) or ())
    return [(0, here), (1, scene.dialect.transposed(here, ndim))] if ndim >= 2 else [(0, here)]


def _product(scene: Scene, node: ast.expr, a: str, b: str) -> str:
    if isinstance(node, ast.BinOp):
        return f"{part(a, MUL)} @ {part(b, MUL + 1)}"
    assert isinstance(node, ast.Call)
    function = scene.draft.src(node.func)
    if len(node.args) == 2:
        return f"{function}({a}, {b})"
    return f"{part(a, 15)}.{called(node)}({b})"


def _inside_transposition(node: ast.expr) -> ast.expr | None:
    """What a transposition of the last two axes is applied to."""
    match node:
        case ast.Attribute(attr="T" | "mT"):
            return node.value
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _SWAPS:
            numbers = [a for a in node.args if not isinstance(a, ast.Constant | ast.UnaryOp)]
            if isinstance(inner, ast.Name) and len(numbers) == 1 and name != "t":
                return node.args[0]  # np.swapaxes(x, -1, -2)
            return inner if not numbers else None
        case _:
            return None


def _operands(node: ast.Call) -> list[ast.expr]:
    if len(node.args) == 1 and isinstance(node.func, ast.Attribute):
        return [node.func.value, node.args[0]]
    return node.args if not node.keywords else []


def einsum_letters(scene: Scene) -> Iterator[Edit]:
    """Two letters of one operand, or of the result, exchanged; or one letter another."""
    for node in scene.expressions:
        if not (isinstance(node, ast.Call) and called(node) == "einsum" and node.args):
            continue
        first = node.args[0]
        if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
            continue
        quote = scene.draft.src(first)[:1]
        for text in dict.fromkeys(_variants(first.value)):
            start, end = scene.draft.span(first)
            says = f"`{first.value}` becomes `{text}`"
            code = "wrong_axis" if _sums_others(first.value, text) else "transposed"
            yield Edit(start, end, f"{quote}{text}{quote}", code, USUAL, says)


def _sums_others(spec: str, text: str) -> bool:
    """Whether the operands are as they were, and other letters of them are summed."""
    (operands, _, result), (others, _, other) = spec.partition("->"), text.partition("->")
    return operands == others and set(result) != set(other)


def _variants(spec: str) -> Iterator[str]:
    spots = [i for i, c in enumerate(spec) if c.isalpha()]
    for i, j in itertools.combinations(spots, 2):
        between = spec[i:j]
        if spec[i] != spec[j] and "," not in between and "->" not in between:
            letters = list(spec)
            letters[i], letters[j] = letters[j], letters[i]
            yield "".join(letters)
    for i in spots:
        for c in sorted(set(filter(str.isalpha, spec)) - {spec[i]}):
            yield spec[:i] + c + spec[i + 1 :]


def transpositions(scene: Scene) -> Iterator[Edit]:
    """A transposition too much, or one that is missing, anywhere but in a product."""
    for node in scene.expressions:
        if (inner := _inside_transposition(node)) is not None:
            yield scene.put(node, scene.draft.src(inner), "transposed", USUAL)
    handed = [a for n in scene.expressions if isinstance(n, ast.Call) for a in n.args]
    sums = [n for n in scene.expressions if isinstance(n, ast.BinOp) and is_sum(n)]
    handed += [a for n in sums for a in (n.left, n.right)]
    square = [a for a in [*handed, *_factors(scene)] if _is_square(scene.shape(a) or ())]
    for node in [*scene.roots, *[a for a in square if a not in scene.roots]]:
        ndim = len(scene.shape(node) or ())
        if ndim >= 2 and _inside_transposition(node) is None:
            yield scene.put(
                node, scene.dialect.transposed(scene.draft.src(node), ndim), "transposed", USUAL
            )


def _factors(scene: Scene) -> list[ast.expr]:
    """By what a cotangent is multiplied element by element."""
    found = list[ast.expr]()
    for node in scene.expressions:
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                pairs = ((left, right), (right, left))
                found += [a for a, b in pairs if scene.flows(b) and not scene.flows(a)]
            case _:
                continue
    return found


def _is_square(shape: Shape) -> bool:
    """Whether it is one of square matrices."""
    return len(shape) >= 2 and shape[-1] == shape[-2]
