"""Other axes for the calls that go along one, and axes kept or not."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import called
from chainrule.verify.repair.rules.along import REDUCTIONS, axis_of, calls, with_argument
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.uses import origin

_KEEP = ("keepdims", "keepdim")


def other_axis(scene: Scene) -> Iterator[Edit]:
    """Another axis for every call that has one, or one for a reduction that has none."""
    for node, operand in calls(scene):
        ndim = len(scene.shape(operand) or ())
        if (axis := axis_of(node)) is not None:
            here, given = scene.draft.src(axis), origin(scene.draft, axis)
            for text in _choices(scene, ndim):
                more = text.startswith("(") and here in text.strip("()").split(", ")
                more = more and called(node) == "sum"
                code, cost = ("not_summed", 1.1) if more else ("wrong_axis", 1.0)
                for place in dict.fromkeys((given, axis)):  # All who read its name, or this one.
                    yield scene.put(place, text, code, cost + 0.2 * ("(" in text))
        elif ndim > 0 and called(node) in REDUCTIONS:
            for text in _choices(scene, ndim):
                yield with_argument(
                    scene, node, f"{'dim' if scene.dialect.torch else 'axis'}={text}", 1.4
                )


def other_axis_throughout(scene: Scene) -> Iterator[Edit]:
    """Another axis for all calls of an expression that go along the same one: a running sum from
    the end names it three times."""
    draft = scene.draft
    for root in scene.roots:
        inside = set(ast.walk(root))
        rows: dict[str, list[tuple[int, int]]] = {}
        for node, _ in calls(scene):
            axis = axis_of(node)
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
    for node, operand in calls(scene):
        axis = axis_of(node)
        match operand:
            case ast.Call(func=ast.Attribute(attr="reshape" | "view"), args=[_, _, *_] as sizes):
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
    for node, operand in calls(scene):
        if called(node) not in REDUCTIONS or not scene.shape(operand):
            continue
        given = [k for k in node.keywords if k.arg in _KEEP]
        for k in given:
            truth = isinstance(k.value, ast.Constant) and k.value.value is True
            yield scene.put(k.value, str(not truth), "wrong_axis", 1.5)
        if not given:
            keep = f"{'keepdim' if scene.dialect.torch else 'keepdims'}=True"
            yield with_argument(scene, node, keep, 1.5)
