"""Axes: another one, one that is missing, two exchanged, the opposite order."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ATOM, as_operand, called
from chainrule.verify.repair.code.syntax import is_sum, origin
from chainrule.verify.repair.rule_costs import LIKELY, RARE, USUAL
from chainrule.verify.repair.values.scene import Scene, Shape
from chainrule.verify.repair.values.watch import shape_of

_WORDS = ("axis", "dim", "axes")
_REDUCTIONS = ("sum", "mean", "max", "min", "amax", "amin", "prod", "var", "std", "logsumexp")
"""Calls that leave one number of many."""
_ALONG = (*_REDUCTIONS, "cumsum", "cumprod", "softmax", "log_softmax", "norm", "flip", "roll")
_SWAPS = ("transpose", "swapaxes", "permute_dims", "permute", "t", "matrix_transpose")


def _calls(scene: Scene) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls along axes, and the array that each goes over."""
    for node in scene.expressions:
        if isinstance(node, ast.Call) and (
            called(node) in _ALONG or any(k.arg in _WORDS for k in node.keywords)
        ):
            if isinstance(node.func, ast.Attribute) and scene.is_array(node.func.value):
                yield node, node.func.value
            elif node.args:
                yield node, node.args[0]


def _axis_of(node: ast.Call) -> ast.expr | None:
    """The axis, or axes, that a call is given."""
    for k in node.keywords:
        if k.arg in _WORDS:
            return k.value
    for a in node.args[:2]:
        match a:
            case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant(value=int())):
                return a
            case ast.Tuple():
                return a
            case _:
                continue
    return None


def other_axis(scene: Scene) -> Iterator[Edit]:
    """Another axis for every call that has one; one for a reduction that has none; axes kept."""
    for node, operand in _calls(scene):
        ndim = len(scene.shape(operand) or ())
        if (axis := _axis_of(node)) is not None:
            here, given = scene.draft.src(axis), origin(scene.draft, axis)
            for text in _choices(scene, ndim):
                more = text.startswith("(") and here in text.strip("()").split(", ")
                more = more and called(node) == "sum"
                code = "not_summed" if more else "wrong_axis"
                cost = LIKELY + (USUAL - LIKELY) * ("(" in text)
                for place in dict.fromkeys((given, axis)):  # All who read its name, or this one.
                    yield scene.put(place, text, code, cost)
        elif ndim > 0 and called(node) in _REDUCTIONS:
            word = "dim" if scene.dialect.torch else "axis"
            for text in _choices(scene, ndim):
                yield _with_argument(scene, node, f"{word}={text}")
        if ndim > 0 and called(node) in _REDUCTIONS:
            yield _with_argument(scene, node, scene.dialect.along(None, True))


def _choices(scene: Scene, ndim: int) -> list[str]:
    """All axes and sets of axes, the last axis as the code writes it elsewhere."""
    axes = list(range(ndim))
    if "-1" in scene.draft.body:
        axes[-1:] = [-1] * (ndim > 0)
    sets = [c for n in range(2, ndim + 1) for c in itertools.combinations(axes, n)]
    return [*map(str, axes), *map(str, sets)]


def _with_argument(scene: Scene, node: ast.Call, text: str) -> Edit:
    """A call with one more argument."""
    end = scene.draft.span(node)[1] - 1
    comma = ", " if node.args or node.keywords else ""
    says = f"`{scene.draft.src(node)}` gets `{text}`"
    return Edit(end, end, comma + text, "wrong_axis", RARE, says)


def missing_reductions(scene: Scene) -> Iterator[Edit]:
    """A sum at the end of a gradient that has more axes than its input, or longer ones; another
    shape for as many elements; repeated elements for fewer."""
    for node in scene.roots:
        here = scene.shape(node) or ()
        for wanted in set(scene.shapes) - {here}:
            atom = as_operand(scene.draft, node, ATOM)
            for axes, keep in _sums(here, wanted):
                axis = axes[0] if len(axes) == 1 else axes
                text = f"{atom}.sum({scene.dialect.along(axis, keep)})"
                again = isinstance(node, ast.Call) and called(node) == "sum"
                cost = LIKELY + 0.2 * len(axes) + (RARE - LIKELY) * again  # Its axis, more likely.
                yield scene.put(node, text, "not_summed", cost)
            same = [k for k, v in scene.arrays_at(node).items() if shape_of(v) == wanted]
            for name in [k for k in same if k != scene.draft.src(node)]:
                if math.prod(here) == math.prod(wanted):
                    text = f"{atom}.reshape({name}.shape)"
                    yield scene.put(node, text, "wrong_shape", USUAL)
                yield from _spread(scene, node, atom, name, wanted)


def _sums(here: Shape, wanted: Shape) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Axes of which the sum has another shape, and whether they are kept."""
    for n in range(1, len(here) + 1):
        for axes in itertools.combinations(range(len(here)), n):
            if tuple([s for i, s in enumerate(here) if i not in axes]) == wanted:
                yield axes, False
            if tuple([1 if i in axes else s for i, s in enumerate(here)]) == wanted:
                yield axes, True


def _spread(scene: Scene, node: ast.expr, atom: str, name: str, wanted: Shape) -> Iterator[Edit]:
    """A gradient that is repeated along the axes of its input: of a sum, of a mean."""
    here, library = scene.shape(node) or (), scene.dialect.library
    for kept in itertools.combinations(range(len(wanted)), len(here)):
        if all(n in (1, wanted[i]) for n, i in zip(here, kept, strict=True)):
            marks = ", ".join([":" if i in kept else "None" for i in range(len(wanted))])
            text = atom if len(here) in (0, len(wanted)) else f"{atom}[{marks}]"
            if scene.dialect.torch:
                yield scene.put(node, f"{text}.expand({name}.shape)", "wrong_shape", RARE)
            elif library is not None:
                text = f"{library}.broadcast_to({text}, {name}.shape)"
                yield scene.put(node, text, "wrong_shape", RARE)


def sums_within_terms(scene: Scene) -> Iterator[Edit]:
    """A sum, or a mean, that is missing within a term: `y * g` to `y * g.sum(axis=-1,
    keepdims=True)`; one that is too much."""
    for node in scene.expressions:
        parent, here = scene.draft.parents[node], scene.shape(node)
        factor = isinstance(parent, ast.BinOp | ast.AugAssign) or node in scene.roots
        if not here or not factor or not scene.flows(node) or not scene.is_array(node):
            continue
        product = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult)
        code, atom = (
            "not_summed" if product else "missing_term",
            as_operand(scene.draft, node, ATOM),
        )
        for axis in [-1, *range(len(here) - 1)]:
            for name in ("sum", "mean"):
                text = f"{atom}.{name}({scene.dialect.along(axis, True)})"
                yield scene.put(node, text, code, RARE)
    for node, operand in _calls(scene):
        if called(node) in _REDUCTIONS:
            here = scene.draft.src(operand)
            comes_in = here in scene.cotangents and not scene.shape(node)
            yield scene.put(node, here, "ignores_cotangent" if comes_in else "wrong_axis", RARE)


def inside_transposition(node: ast.expr) -> ast.expr | None:
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
        if (inner := inside_transposition(node)) is not None:
            yield scene.put(node, scene.draft.src(inner), "transposed", USUAL)
    handed = [a for n in scene.expressions if isinstance(n, ast.Call) for a in n.args]
    sums = [n for n in scene.expressions if isinstance(n, ast.BinOp) and is_sum(n)]
    handed += [a for n in sums for a in (n.left, n.right)]
    square = [a for a in [*handed, *_factors(scene)] if _is_square(scene.shape(a) or ())]
    for node in [*scene.roots, *[a for a in square if a not in scene.roots]]:
        ndim = len(scene.shape(node) or ())
        if ndim >= 2 and inside_transposition(node) is None:
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
