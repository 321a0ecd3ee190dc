"""Reductions: along which axes, kept or not, mean or sum; sums that are missing or too much."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ATOM, MUL, as_part, called
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.uses import origin
from chainrule.verify.repair.watch import shape_of

_WORDS = ("axis", "dim", "axes")
_KEEP = ("keepdims", "keepdim")
_REDUCTIONS = ("sum", "mean", "max", "min", "amax", "amin", "prod", "var", "std", "logsumexp")
_ALONG = (*_REDUCTIONS, "cumsum", "cumprod", "softmax", "log_softmax", "norm", "flip", "roll")


def other_axis(scene: Scene) -> Iterator[Edit]:
    """Another axis for every call that has one, or one for a reduction that has none."""
    for node, operand in _calls(scene):
        ndim = len(scene.shape(operand) or ())
        if (axis := _axis(node)) is not None:
            here, given = scene.draft.src(axis), origin(scene.draft, axis)
            for text in _choices(scene, ndim):
                more = text.startswith("(") and here in text.strip("()").split(", ")
                code, cost = ("not_summed", 1.1) if more else ("wrong_axis", 1.0)
                for place in dict.fromkeys((given, axis)):  # All who read its name, or this one.
                    yield scene.put(place, text, code, cost + 0.2 * ("(" in text))
        elif ndim > 0 and called(node) in _REDUCTIONS:
            for text in _choices(scene, ndim):
                yield _with_argument(
                    scene, node, f"{'dim' if scene.dialect.torch else 'axis'}={text}", 1.4
                )


def other_axis_throughout(scene: Scene) -> Iterator[Edit]:
    """Another axis for all calls of an expression that go along the same one: a running sum from
    the end names it three times."""
    draft = scene.draft
    for root in scene.roots:
        inside = set(ast.walk(root))
        rows: dict[str, list[tuple[int, int]]] = {}
        for node, _ in _calls(scene):
            axis = _axis(node)
            if axis is not None and node in inside:
                rows.setdefault(draft.src(axis), []).append(draft.span(axis))
        for here, spans in rows.items():
            spans.sort()
            if len(spans) < 2:
                continue
            start, end = spans[0][0], spans[-1][1]
            between = [draft.body[a:b] for (_, a), (b, _) in itertools.pairwise(spans)]
            for text in _choices(scene, len(scene.shape(root) or ())):
                new = text.join(["", *between, ""])
                says = f"all axes {here} of `{draft.src(root)}` become {text}"
                yield Edit(start, end, new, "wrong_axis", 1.2, says)


def parts_exchanged(scene: Scene) -> Iterator[Edit]:
    """An axis taken apart in the other order, for a sum over one of its parts: what was repeated
    head by head lies as `(groups, times)`, what was tiled as `(times, groups)`."""
    draft = scene.draft
    for node, operand in _calls(scene):
        axis = _axis(node)
        match operand:
            case ast.Call(func=ast.Attribute(attr="reshape" | "view"), args=[_, _, _, *_] as sizes):
                pass
            case _:
                continue
        if not isinstance(axis, ast.Constant) or not isinstance(axis.value, int):
            continue
        k, (start, end) = axis.value, draft.span(node)
        for j in [j for j in (k - 1, k + 1) if min(j, k) >= 0 and max(j, k) < len(sizes)]:
            pairs = ((sizes[j], draft.src(sizes[k])), (sizes[k], draft.src(sizes[j])))
            parts = sorted([(draft.span(n), text) for n, text in (*pairs, (axis, str(j)))])
            new, last = "", start
            for (a, b), text in parts:
                new, last = new + draft.body[last:a] + text, b
            says = f"`{draft.src(sizes[j])}` and `{draft.src(sizes[k])}` change places"
            yield Edit(start, end, new + draft.body[last:end], "wrong_axis", 1.1, says)


def _choices(scene: Scene, ndim: int) -> list[str]:
    """All axes and sets of axes, the last axis as the code writes it elsewhere."""
    axes = list(range(ndim))
    if "-1" in scene.draft.body:
        axes[-1:] = [-1] * (ndim > 0)
    sets = [c for n in range(2, ndim + 1) for c in itertools.combinations(axes, n)]
    return [*map(str, axes), *map(str, sets)]


def keeping(scene: Scene) -> Iterator[Edit]:
    """`keepdims` given, or not, where it was not, or was."""
    for node, operand in _calls(scene):
        if called(node) not in _REDUCTIONS or not scene.shape(operand):
            continue
        given = [k for k in node.keywords if k.arg in _KEEP]
        for k in given:
            truth = isinstance(k.value, ast.Constant) and k.value.value is True
            yield scene.put(k.value, str(not truth), "wrong_axis", 1.5)
        if not given:
            keep = f"{'keepdim' if scene.dialect.torch else 'keepdims'}=True"
            yield _with_argument(scene, node, keep, 1.5)


def sum_or_mean(scene: Scene) -> Iterator[Edit]:
    """`mean` for `sum` and the other way round, and what else is taken for another."""
    other = {"sum": "mean", "mean": "sum", "max": "sum", "min": "max", "var": "std", "std": "var"}
    by_number = ("sum", "mean")
    for node, _ in _calls(scene):
        if (name := called(node)) in other and isinstance(node.func, ast.Attribute):
            end = scene.draft.span(node.func)[1]
            says = f"`{name}` becomes `{other[name]}`"
            code = "factor" if name in by_number else "wrong_value"
            yield Edit(end - len(name), end, other[name], code, 0.9, says)


def reduced(scene: Scene) -> Iterator[Edit]:
    """A sum at the end of a gradient that has more axes than its input, or longer ones."""
    for node in scene.roots:
        here = scene.shape(node) or ()
        for wanted in set(scene.shapes) - {here}:
            for axes, keep in _sums(here, wanted):
                axis = axes[0] if len(axes) == 1 else axes
                text = f"{as_part(scene.draft, node, ATOM)}.sum({scene.dialect.along(axis, keep)})"
                again = isinstance(node, ast.Call) and called(node) == "sum"
                cost = 1.0 + 0.2 * len(axes) + 0.4 * again  # Its own axis is wrong, more likely.
                yield scene.put(node, text, "not_summed", cost)
            if here == () or math.prod(here) == math.prod(wanted):
                yield from _reshaped(scene, node, wanted)


def summed_within(scene: Scene) -> Iterator[Edit]:
    """A sum, or a mean, that is missing within a term: `y * g` to `y * g.sum(axis=-1,
    keepdims=True)`."""
    for node in scene.expressions:
        parent, here = scene.draft.parents[node], scene.shape(node)
        factor = isinstance(parent, ast.BinOp | ast.AugAssign) or node in scene.roots
        if not here or not factor or not scene.flows(node) or not scene.is_array(node):
            continue
        for axis in [-1, *range(len(here) - 1)]:
            for name in ("sum", "mean"):
                call = (
                    f"{as_part(scene.draft, node, ATOM)}.{name}({scene.dialect.along(axis, True)})"
                )
                yield scene.put(node, call, "missing_term", 1.45 + 0.1 * (name == "mean"))


def total_of_the_other(scene: Scene) -> Iterator[Edit]:
    """A term that lacks the total of the other one: `p - t` to `p * t.sum(axis=-1, keepdims=True) -
    t`, which is the same where that is one."""
    for node in scene.expressions:
        match scene.draft.parents[node], scene.shape(node):
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right), here if here:
                other = right if node is left else left
                if scene.shape(other) == here:
                    for axis in [-1, *range(len(here) - 1)]:
                        total = as_part(scene.draft, other, ATOM)
                        total = f"{total}.sum({scene.dialect.along(axis, True)})"
                        text = f"{as_part(scene.draft, node, MUL)} * {total}"
                        yield scene.put(node, text, "missing_term", 1.4)
            case _:
                continue


def one_of_all(scene: Scene) -> Iterator[Edit]:
    """One element along an axis in place of the sum along it: `g[0]` to `g.sum(axis=0)`."""
    for node in scene.expressions:
        if not isinstance(node, ast.Subscript) or not scene.flows(node.value):
            continue
        *before, last = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not all(map(_is_all, before)) or not isinstance(last, ast.Constant | ast.UnaryOp):
            continue
        whole, here = scene.shape(node.value) or (), scene.shape(node)
        if here is not None and len(whole) == len(here) + 1:
            axis = -1 if "..." in map(ast.unparse, before) else len(before)
            text = as_part(scene.draft, node.value, ATOM)
            text = f"{text}.sum({scene.dialect.along(axis, False)})"
            yield scene.put(node, text, "not_summed", 1.3)


def _is_all(index: ast.expr) -> bool:
    """Whether an index leaves an axis as it is: `:`, or `...` for several."""
    return ast.unparse(index) in (":", "...")


def _sums(here: Shape, wanted: Shape) -> Iterator[tuple[tuple[int, ...], bool]]:
    for n in range(1, len(here) + 1):
        for axes in itertools.combinations(range(len(here)), n):
            if tuple([s for i, s in enumerate(here) if i not in axes]) == wanted:
                yield axes, False
            if tuple([1 if i in axes else s for i, s in enumerate(here)]) == wanted:
                yield axes, True


def _reshaped(scene: Scene, node: ast.expr, wanted: Shape) -> Iterator[Edit]:
    for name, value in scene.arrays_at(node).items():
        if shape_of(value) == wanted and name != scene.draft.src(node):
            text = f"{as_part(scene.draft, node, ATOM)}.reshape({name}.shape)"
            yield scene.put(node, text, "wrong_shape", 1.4)


def not_reduced(scene: Scene) -> Iterator[Edit]:
    """A reduction too much."""
    for node, operand in _calls(scene):
        if called(node) in _REDUCTIONS:
            here = scene.draft.src(operand)
            yield scene.put(node, here, "wrong_axis", 1.8)
            given = here in scene.draft.parameters
            if given and scene.shape(operand) in scene.cotangent_shapes and not scene.shape(node):
                for text in (here, f"{here}[..., None]"):  # Each row has its own.
                    yield scene.put(node, text, "ignores_cotangent", 1.3)


def spread(scene: Scene) -> Iterator[Edit]:
    """A gradient that must be repeated along the axes of its input: of a sum, of a mean."""
    module = scene.dialect.library
    for node in scene.roots:
        here = scene.shape(node) or ()
        for name, value in scene.arrays_at(node).items():
            shape = shape_of(value) or ()
            if shape not in scene.shapes or shape == here:
                continue
            for text in _lifted(as_part(scene.draft, node, ATOM), here, shape):
                if scene.dialect.torch:
                    yield scene.put(node, f"{text}.expand({name}.shape)", "wrong_shape", 1.6)
                elif module is not None:
                    text = f"{module}.broadcast_to({text}, {name}.shape)"
                    yield scene.put(node, text, "wrong_shape", 1.6)


def _lifted(text: str, here: Shape, shape: Shape) -> Iterator[str]:
    """An expression with axes of length one put in, so that it broadcasts to `shape`."""
    if len(here) == len(shape) and all(a in (1, b) for a, b in zip(here, shape, strict=True)):
        yield text
    for kept in itertools.combinations(range(len(shape)), len(here)):
        if 0 < len(here) < len(shape) and tuple([shape[i] for i in kept]) == here:
            marks = [":" if i in kept else "None" for i in range(len(shape))]
            yield f"{text}[{', '.join(marks)}]"
    if not here:
        yield text


def placed(scene: Scene) -> Iterator[Edit]:
    """A vector that is lined up with the wrong axis of its partner: `v[:, None]`."""
    for node in scene.expressions:
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                small, large = scene.shape(one), scene.shape(other)
                if small and large and len(small) < len(large):
                    for text in _lifted(as_part(scene.draft, one, ATOM), small, large):
                        yield scene.put(one, text, "wrong_axis", 1.5)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            parts = [scene.draft.src(e) for e in node.slice.elts]
            if "None" in parts or "np.newaxis" in parts:
                for order in set(itertools.permutations(parts)):
                    text = f"{as_part(scene.draft, node.value, ATOM)}[{', '.join(order)}]"
                    yield scene.put(node, text, "wrong_axis", 1.4)


def backwards(scene: Scene) -> Iterator[Edit]:
    """An array in the opposite order: the kernel of a convolution, a sum that runs from the end."""
    for node in scene.expressions:
        parent, ndim = scene.draft.parents[node], len(scene.shape(node) or ())
        if ndim and isinstance(node, ast.Call) and called(node) in ("cumsum", "cumprod"):
            operand = next((o for n, o in _calls(scene) if n is node), None)
            start, end = scene.draft.span(operand) if operand is not None else (0, 0)
            if operand is not None and start < end:
                turned = _flipped(scene, as_part(scene.draft, operand, ATOM), ndim, 1)
                offset = scene.draft.span(node)[0]
                whole = scene.draft.src(node)
                whole = whole[: start - offset] + turned + whole[end - offset :]
                yield scene.put(node, _flipped(scene, whole, ndim, 1), "transposed", 1.4)
        elif ndim and isinstance(parent, ast.Call) and node in parent.args and scene.is_array(node):
            text = as_part(scene.draft, node, ATOM)
            for last in range(1, min(ndim, 3) + 1):
                yield scene.put(node, _flipped(scene, text, ndim, last), "transposed", 1.6)


def _flipped(scene: Scene, text: str, ndim: int, last: int) -> str:
    """An expression with its last axes in the opposite order."""
    if scene.dialect.torch:
        return f"{text}.flip({', '.join([str(-k) for k in range(1, last + 1)])})"
    dots = "..., " if ndim > last else ""
    return f"{text}[{dots}{', '.join(['::-1'] * last)}]"


# Calls.


def _calls(scene: Scene) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls along axes, and the array that each goes over."""
    for node in scene.expressions:
        if isinstance(node, ast.Call) and (
            called(node) in _ALONG or any(k.arg in _WORDS for k in node.keywords)
        ):
            method = isinstance(node.func, ast.Attribute) and scene.is_array(node.func.value)
            if method and isinstance(node.func, ast.Attribute):
                yield node, node.func.value
            elif node.args:
                yield node, node.args[0]


def _axis(node: ast.Call) -> ast.expr | None:
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


def _with_argument(scene: Scene, node: ast.Call, text: str, cost: float) -> Edit:
    end = scene.draft.span(node)[1] - 1
    comma = ", " if node.args or node.keywords else ""
    says = f"`{scene.draft.src(node)}` gets `{text}`"
    return Edit(end, end, comma + text, "wrong_axis", cost, says)
