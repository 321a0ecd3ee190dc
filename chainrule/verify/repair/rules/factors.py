"""Factors, exponents, constants, conjugates and sizes that are not what they should be.

Constant factors and signs need no rule: `weigh.py` solves for them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import MUL, POW, as_part, called, number
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.watch import is_count, plain, shape_of
from chainrule.verify.repair.wording import ELEMENTWISE, elementwise_calls, forward_texts

_CASTS = {"astype", "float", "half", "double", "detach", "to", "round", "bfloat16", "float32"}


def without(scene: Scene) -> Iterator[Edit]:
    """A factor, a divisor or a call too much: `g * g` for `g`, `np.sign(g)` for `g`."""
    for node in scene.expressions:
        match node:
            case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv()):
                for kept, gone in ((node.left, node.right), (node.right, node.left)):
                    if scene.shape(gone) == () and not scene.is_array(gone):
                        yield scene.put(node, scene.draft.src(kept), "factor", 0.9)
                        continue
                    cotangent = scene.draft.src(gone) in scene.cotangents
                    code = "not_linear" if cotangent else "wrong_value"
                    yield scene.put(node, scene.draft.src(kept), code, 1.4)
            case ast.Call(args=[inner, *_], func=function) if scene.is_array(inner):
                if scene.shape(inner) == scene.shape(node) or len(node.args) == 1:
                    code = _unwrapped_code(scene, function, inner)
                    yield scene.put(node, scene.draft.src(inner), code, 1.5)
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if scene.is_array(inner):
                code = "precision" if name in _CASTS else _without_sign(name)
                if scene.shape(inner) == scene.shape(node):
                    yield scene.put(node, scene.draft.src(inner), code, 1.4)
            case ast.BinOp(op=ast.Pow()) if scene.is_array(node.left):
                code = _unwrapped_code(scene, node, node.left)
                yield scene.put(node, scene.draft.src(node.left), code, 1.4)
            case _:
                continue


def inverse(scene: Scene) -> Iterator[Edit]:
    """`*` for `/` and the other way round."""
    for node in scene.expressions:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            sign = "/" if isinstance(node.op, ast.Mult) else "*"
            a, b = as_part(scene.draft, node.left, MUL), as_part(scene.draft, node.right, MUL + 1)
            yield scene.put(node, f"{a} {sign} {b}", "factor", 1.2)


def _unwrapped_code(scene: Scene, function: ast.expr, inner: ast.expr) -> str:
    if scene.flows(inner):
        return "not_linear"
    return _without_sign(getattr(function, "attr", getattr(function, "id", "")))


def _without_sign(name: str) -> str:
    """What the mistake is called if this function is one too many, or missing."""
    return "one_sided" if name in ("abs", "fabs", "absolute") else "wrong_value"


def exponents(scene: Scene) -> Iterator[Edit]:
    """Another exponent for what has one; for a divisor, and in a loop, one that it lacks."""
    for node in scene.expressions:
        match node:
            case ast.BinOp(op=ast.Pow()):
                here = scene.value(node.right)
                if isinstance(here, int | float):
                    for other in _exponents(float(here)):
                        yield scene.put(node.right, number(other), "wrong_value", 1.3)
            case ast.BinOp(op=ast.Div()) if scene.is_array(node.right):
                base = as_part(scene.draft, node.right, POW + 1)
                for k in (2, 3):
                    yield scene.put(node.right, f"{base} ** {k}", "wrong_value", 1.6)
                yield scene.put(node.right, f"{base} ** 0.5", "wrong_value", 1.6)
            case ast.Name() | ast.Subscript() if _turns(scene, node) and scene.is_array(node):
                if not isinstance(scene.draft.parents[node], ast.Subscript | ast.Attribute):
                    text = f"{as_part(scene.draft, node, POW + 1)} ** 2"
                    yield scene.put(node, text, "wrong_value", 1.6)
            case _:
                continue


def _turns(scene: Scene, node: ast.expr) -> bool:
    """Whether a node is in a loop, where no term of a table can be looked for (`terms.py`)."""
    return scene.watched.turns[scene.draft.index[node]] > 1


def _exponents(here: float) -> list[float]:
    near = [here + 1, here - 1, here + 0.5, here - 0.5, -here, here * 2, here / 2, here - 2]
    return [e for e in dict.fromkeys(near) if e not in (here, 0.0, 1.0)]


def constants(scene: Scene) -> Iterator[Edit]:
    """Another constant near the one that is there."""
    for node in scene.expressions:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, int | float)):
            continue
        parent = scene.draft.parents[node]
        if isinstance(parent, ast.keyword | ast.Tuple | ast.Call | ast.Compare):
            continue  # An axis, a shape, a bound: other rules know them.
        whole = isinstance(node.value, int)
        c = float(node.value)
        others = [c + 1, c - 1, 1.0, 0.0, 2.0, 0.5, c * 2, c / 2, c * 3, c / 3, -c]
        for other in dict.fromkeys(others):
            if other != c and (not whole or other == int(other) or c <= 3):
                yield scene.put(node, number(other), "factor", 1.7)


def conjugated(scene: Scene) -> Iterator[Edit]:
    """A conjugate that is missing, or one too much."""
    module = scene.dialect.library
    for node in scene.expressions:
        value = plain(scene.value(node))
        if module is None or value is None or value.dtype.kind != "c":
            continue
        match node:
            case ast.Name() | ast.Attribute() | ast.Subscript():
                yield scene.put(node, f"{module}.conj({scene.draft.src(node)})", "transposed", 1.2)
            case ast.BinOp(op=ast.Mult(), left=a, right=b):
                for text in _other_conjugates(scene, a, b, module):
                    yield scene.put(node, text, "transposed", 1.3)
            case _:
                continue


def _other_conjugates(scene: Scene, a: ast.expr, b: ast.expr, module: str) -> Iterator[str]:
    """A product in which the other factor is conjugated."""
    left, right = scene.draft.src(a), scene.draft.src(b)
    if isinstance(a, ast.Call) and called(a) in _CONJUGATES and len(a.args) == 1:
        yield f"{scene.draft.src(a.args[0])} * {module}.conj({right})"
    if isinstance(b, ast.Call) and called(b) in _CONJUGATES and len(b.args) == 1:
        yield f"{module}.conj({left}) * {scene.draft.src(b.args[0])}"


_CONJUGATES = ("conj", "conjugate")
_AXIS = re.compile(r"(.*\.shape)\[(-?\d+)\]")
_RELATED = (
    ("sin", "cos"),
    ("sinh", "cosh", "tanh"),
    ("maximum", "minimum"),
    ("exp", "log"),
    ("ones_like", "zeros_like"),
    ("abs", "sign"),
    ("sqrt", "square"),
    ("tanh", "sigmoid"),
    ("clip", "sign"),
)


def functions(scene: Scene) -> Iterator[Edit]:
    """A function that is easily taken for another: `sin` for `cos`, `maximum` for `minimum`."""
    texts = "\n".join(forward_texts(scene.draft.source))
    said = [c.rpartition(".")[2] for c in elementwise_calls(texts)]
    for node in scene.expressions:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            here, end = node.func.attr, scene.draft.span(node.func)[1]
            others = [o for group in _RELATED if here in group for o in group if o != here]
            if here in ELEMENTWISE:  # The forward may call what is meant.
                others += [o for o in said if o != here]
            for other in dict.fromkeys(others):
                says = f"`{here}` becomes `{other}`"
                yield Edit(end - len(here), end, other, "wrong_value", 1.4, says)
        match node:  # One side of what has two.
            case ast.Call(
                func=ast.Attribute(attr="maximum"), args=[x, ast.Constant(value=0 | 0.0)]
            ) if scene.dialect.library is not None:
                text = f"{scene.dialect.library}.abs({scene.draft.src(x)})"
                yield scene.put(node, text, "one_sided", 1.4)
            case _:
                continue


def bounded(scene: Scene) -> Iterator[Edit]:
    """Slices up to a size that is written into the code: `w[:5] * x[:5]` to `w * x`."""
    for root in scene.roots:
        start, text = scene.draft.span(root)[0], scene.draft.src(root)
        cut = [n for n in ast.walk(root) if _is_bounded(n)]
        for node in sorted(cut, key=lambda n: -scene.draft.span(n)[0]):
            assert isinstance(node, ast.Subscript)
            first, last = scene.draft.span(node.value)[1] - start, scene.draft.span(node)[1] - start
            text = text[:first] + text[last:]
        if cut:  # Of axes, `axes[:2]`, some are missing.
            arrays = any(scene.is_array(n) for n in cut)
            yield scene.put(root, text, "size" if arrays else "wrong_axis", 1.1)


def _is_bounded(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Constant(value=int()), step=None)):
            return True
        case _:
            return False


def _decides(scene: Scene, node: ast.expr) -> bool:
    """Whether it is a name that is compared with a number, to choose a case: no size is."""
    parent = scene.draft.parents[node]
    return isinstance(node, ast.Name) and isinstance(parent, ast.Compare)


def sizes(scene: Scene) -> Iterator[Edit]:
    """A size that is written into the code, or another one than the one that is meant."""
    for node in scene.expressions:
        value = scene.value(node)
        match node:
            case ast.Constant(value=int()) if isinstance(value, int) and abs(value) > 1:
                code = "size"
            case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(attr="size"):
                code = "factor"
            case ast.Name() if isinstance(value, int) and not isinstance(value, bool):
                code = "factor"
            case ast.Call(func=ast.Name(id="len")):
                code = "factor"
            case ast.Call(func=ast.Name(id="min" | "max"), args=[a, b]):
                for kept in (a, b):
                    yield scene.put(node, scene.draft.src(kept), "size", 1.2)
                continue
            case ast.BinOp(left=one, op=ast.Pow(), right=ast.Constant(value=2)) if isinstance(
                value, int
            ):  # Right for squares only: `h ** 2` for `h * w`.
                side = scene.draft.src(one)
                for text in scene.extents:
                    apart = 0.1 * (text not in _beside(side))
                    yield scene.put(node, f"{side} * {text}", "size", 0.9 + apart)
                continue
            case _:
                continue
        for text in scene.extents if not _decides(scene, node) else ():
            yield scene.put(node, text, code, 1.5 + 0.3 * ("shape" not in text))


def shapes(scene: Scene) -> Iterator[Edit]:
    """The shape of an array in place of one that is put together of sizes."""
    for node in scene.expressions:
        match node:
            case ast.Call(args=[ast.Tuple(elts=sizes) as first, *_]):
                start, end = scene.draft.span(first)
            case ast.Call(args=[first, _, *_] as sizes) if not node.keywords:
                start, end = scene.draft.span(first)[0], scene.draft.span(sizes[-1])[1]
            case _:
                continue
        here = scene.draft.body[start:end]
        if not all(is_count(scene.value(n)) for n in sizes):
            continue
        for name, value in scene.arrays_at(node).items():
            if len(shape_of(value) or ()) == len(sizes) and name not in scene.cotangents:
                says = f"`{here}` becomes `{name}.shape`"
                yield Edit(start, end, f"{name}.shape", "size", 1.3, says)


def _beside(size: str) -> list[str]:
    """The sizes of the axes next to one: of `x.shape[3]`, `x.shape[2]` and `x.shape[4]`."""
    if (found := _AXIS.fullmatch(size)) is None:
        return []
    shape, axis = found[1], int(found[2])
    return [f"{shape}[{i}]" for i in (axis - 1, axis + 1)]
