"""How arrays lie: repeated along the axes of an input, lined up with another one, turned round."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ATOM, as_part, called
from chainrule.verify.repair.rules.along import calls
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.watch import shape_of


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
            operand = next((o for n, o in calls(scene) if n is node), None)
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
