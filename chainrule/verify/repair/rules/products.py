"""Matrix products: operands transposed, exchanged; letters of an einsum; orders of axes."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ATOM, MUL, called, part
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.syntax import is_sum, names_in
from chainrule.verify.repair.watch import shape_of
from chainrule.verify.repair.wording import forward_texts

_MATMULS = ("matmul", "dot", "mm", "bmm")
_SWAPS = ("transpose", "swapaxes", "permute_dims", "permute", "t", "matrix_transpose")
_TURNS = re.compile(
    r"\.(?:transpose|permute|swapaxes|moveaxis|movedim)\((?:[-\d, ]|\([-\d, ]*\))+\)"
)
"""Axes in another order, as it is written after a value."""
_COST = {(1, 0): 1.0, (0, 1): 1.0, (1, 1): 1.6}


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
                    turned = swapped and ka == kb == 1  # All of it, transposed.
                    cost = 1.2 if turned else _COST.get((ka, kb), 1.0) + 0.4 * swapped
                    text = _product(scene, node, *((tb, ta) if swapped else (ta, tb)))
                    yield scene.put(node, text, "transposed", cost)


def _forms(scene: Scene, node: ast.expr) -> list[tuple[int, str]]:
    """A matrix as it is (0) and transposed (1); a transposition that is there is taken away."""
    here = scene.draft.src(node)
    if (inner := _untransposed(node)) is not None:
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


def _untransposed(node: ast.expr) -> ast.expr | None:
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
        for text in dict.fromkeys([*_as_elsewhere(scene, node), *_variants(first.value)]):
            start, end = scene.draft.span(first)
            says, cost = f"`{first.value}` becomes `{text}`", 1.2
            code = "transposed"
            if _sums_others(first.value, text):
                code, cost = "wrong_axis", 1.15
            yield Edit(start, end, f"{quote}{text}{quote}", code, cost, says)


def _sums_others(spec: str, text: str) -> bool:
    """Whether the operands are as they were, and other letters of them are summed."""
    (operands, _, result), (others, _, other) = spec.partition("->"), text.partition("->")
    return operands == others and set(result) != set(other)


def _as_elsewhere(scene: Scene, node: ast.Call) -> Iterator[str]:
    """Letters of an operand as in another einsum that reads the same array."""
    known = [pair for n in scene.expressions if n is not node for pair in _lettered(scene, n)]
    for i, (array, letters) in enumerate(here := _lettered(scene, node)):
        for other, text in known:
            if other == array and text != letters and sorted(text) == sorted(letters):
                spec = [t for _, t in here]
                spec[i] = text
                first = node.args[0]
                assert isinstance(first, ast.Constant)
                yield ",".join(spec) + str(first.value)[str(first.value).index("->") :]


def _lettered(scene: Scene, node: ast.expr) -> list[tuple[str, str]]:
    """The operands of an einsum, as they are written, and their letters."""
    match node:
        case ast.Call(args=[ast.Constant(value=str(spec)), *arrays]) if called(node) == "einsum":
            letters = spec.replace(" ", "").partition("->")[0].split(",")
            if len(letters) == len(arrays) and "->" in spec:
                return [(scene.draft.src(a), t) for a, t in zip(arrays, letters, strict=True)]
        case _:
            pass
    return []


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


def transposed(scene: Scene) -> Iterator[Edit]:
    """A transposition too much, or one that is missing, anywhere but in a product."""
    for node in scene.expressions:
        if (inner := _untransposed(node)) is not None:
            yield scene.put(node, scene.draft.src(inner), "transposed", 1.2)
    handed = [a for n in scene.expressions if isinstance(n, ast.Call) for a in n.args]
    sums = [n for n in scene.expressions if isinstance(n, ast.BinOp) and is_sum(n)]
    handed += [a for n in sums for a in (n.left, n.right)]
    square = [a for a in [*handed, *_factors(scene)] if _is_square(scene.shape(a) or ())]
    for node in [*scene.roots, *[a for a in square if a not in scene.roots]]:
        ndim = len(scene.shape(node) or ())
        if ndim >= 2 and _untransposed(node) is None:
            yield scene.put(
                node, scene.dialect.transposed(scene.draft.src(node), ndim), "transposed", 1.3
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


def outer_products(scene: Scene) -> Iterator[Edit]:
    """The Jacobian of a softmax written out, of which only the diagonal is there: `diag(p * (1 -
    p))` to `diag(p) - outer(p, p)`."""
    library = scene.dialect.library
    for node in scene.expressions if library is not None else ():
        match node:
            case ast.Call(args=[part]) if called(node) == "diag" and isinstance(part, ast.BinOp):
                function, shape = scene.draft.src(node.func), scene.shape(part) or ()
            case _:
                continue
        for name in sorted(names_in(part)):
            if len(shape) == 1 and shape_of(scene.watched.names.get(name)) == shape:
                text = f"{function}({name}) - {library}.outer({name}, {name})"
                yield scene.put(node, text, "missing_term", 1.1)


def channels(scene: Scene) -> Iterator[Edit]:
    """The two kinds of channels of what is convolved exchanged: `conv2d(g, w)` to
    `conv2d(g, w.transpose(0, 1))`, or back."""
    exchange = "transpose(0, 1)" if scene.dialect.torch else "swapaxes(0, 1)"
    for node in scene.expressions:
        if not (isinstance(node, ast.Call) and called(node).startswith("conv")):
            continue
        for a in node.args:
            here = scene.draft.src(a)
            if len(scene.shape(a) or ()) >= 3:
                bare = here.removesuffix(f".{exchange}")
                text = bare if bare != here else f"{part(here, ATOM)}.{exchange}"
                yield scene.put(a, text, "transposed", 1.2)


def permuted(scene: Scene) -> Iterator[Edit]:
    """Other orders of the axes in `x.transpose(0, 2, 1, 3)` and `permute`."""
    for node in scene.expressions:
        if not (isinstance(node, ast.Call) and called(node) in _SWAPS):
            continue
        axes = node.args
        if len(axes) == 1 and isinstance(axes[0], ast.Tuple):
            axes = axes[0].elts
        if not axes or not all(isinstance(a, ast.Constant) for a in axes) or len(axes) > 4:
            continue
        start, end = scene.draft.span(axes[0])[0], scene.draft.span(axes[-1])[1]
        texts = [scene.draft.src(a) for a in axes]
        for order in itertools.permutations(texts):
            yield Edit(start, end, ", ".join(order), "transposed", 1.8, "axes in another order")


def lined_up(scene: Scene) -> Iterator[Edit]:
    """Axes that are put in another order before they are flattened, or after they were taken apart,
    as elsewhere in the backward or the forward: heads that are merged."""
    texts = [scene.draft.body, *forward_texts(scene.draft.source)]
    said = [m for t in texts for m in _TURNS.findall(t)]
    turns = list(dict.fromkeys([*said, *[t for m in said for t in _undoing(m)]]))
    for node in scene.expressions if turns else ():
        if not isinstance(node, ast.Call) or called(node) not in ("reshape", "view", "flatten"):
            continue
        (_, end), here = scene.draft.span(node), scene.draft.src(node)
        parent = scene.draft.parents.get(node)
        given = scene.draft.body[end:].startswith(tuple(turns)) or isinstance(parent, ast.Attribute)
        after = [] if given else [here + t for t in turns]
        for text in [*_before(scene, node, turns), *after]:
            yield scene.put(node, text, "transposed", 1.25)


def _undoing(turn: str) -> Iterator[str]:
    """The order of axes that undoes one: `.transpose(0, 2, 3, 1)` for `.transpose(0, 3, 1, 2)`."""
    order = [int(n) for n in re.findall(r"-?\d+", turn)]
    if sorted(order) == list(range(len(order))) and len(order) > 2:
        back = iter(sorted(range(len(order)), key=lambda i: order[i]))
        yield re.sub(r"\d+", lambda _: str(next(back)), turn)


def taken_apart(scene: Scene) -> Iterator[Edit]:
    """Lengths in another order, and then the axes: `x.reshape(b, h, t, d)` to
    `x.reshape(b, t, h, d).swapaxes(1, 2)`, where x has its parts of heads last."""
    for node in scene.expressions:
        match node:
            case ast.Call(func=ast.Attribute(attr="reshape" | "view"), args=[_, _, *_] as args):
                pass
            case _:
                continue
        texts = [scene.draft.src(a) for a in args]
        (start, _), (_, end) = scene.draft.span(args[0]), scene.draft.span(args[-1])
        first, last = scene.draft.span(node)
        body = scene.draft.body
        for i, k in itertools.combinations(range(len(args)), 2):
            if texts[i] != texts[k]:
                order = [*texts]
                order[i], order[k] = texts[k], texts[i]
                swapped = body[first:start] + ", ".join(order) + body[end:last]
                yield scene.put(node, f"{swapped}.swapaxes({i}, {k})", "transposed", 1.35)


def _before(scene: Scene, node: ast.Call, turns: list[str]) -> Iterator[str]:
    """`x.transpose(0, 1).reshape(n, d)` for `x.reshape(n, d)` and for `x.view(n, d)`."""
    match node.func:
        case ast.Attribute(value=inner) if len(scene.shape(inner) or ()) > 2:
            (_, end), (_, last) = scene.draft.span(inner), scene.draft.span(node)
            rest = scene.draft.body[end:last]
            rest = rest[rest.index(".") :].replace(".view(", ".reshape(", 1)
            if not scene.draft.src(inner).endswith(tuple(turns)):
                yield from [part(scene.draft.src(inner), ATOM) + t + rest for t in turns]
        case _:
            return
