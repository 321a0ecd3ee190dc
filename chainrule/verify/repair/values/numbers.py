"""Numbers that the code could have meant, and texts for a factor that is known.

Sizes coincide by chance at one point, so each number comes with its values at two points, if there
are two: what fits at one of them only is not proposed. What the function says already,
or the forward does, is more likely than anything new.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.verify.repair.budget import BOUNDS, FACTORS, NUMBERS
from chainrule.verify.repair.code.dialect import forward_texts
from chainrule.verify.repair.code.draft import python_function
from chainrule.verify.repair.code.parentheses import ADD, MUL, operand
from chainrule.verify.repair.rule_costs import BY_CHANCE
from chainrule.verify.repair.values.lab import NEAR, Values
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.trees import tree_of

_FRACTION = re.compile(r"(?<![\w.])\d+(?:\.\d+(?:e-?\d+)?|e-\d+)(?![\w.])")
PLAIN = (2, 3, 4, 6, 8, 0.25, 0.1, 10, 1.5)
_CALLS = ("sqrt", "len", "float", "int", "prod", "size", "numel", "sum", "count_nonzero", "max")


@dataclass(frozen=True)
class Scalar:
    """A number that the code could have meant."""

    text: str
    value: Values
    cost: float


def scalars(scene: Scene, other: Scene | None = None) -> list[Scalar]:
    """Numbers within reach: what stands in the text, named ones, sizes, small constants, roots."""
    scenes = [scene] if other is None else [scene, other]
    found = [Scalar(str(c), (float(c),) * len(scenes), 0.3) for c in PLAIN]
    found += _roots_and_squares(
        scene, [*_literals(scenes), *_named_numbers(scenes), *_extents(scenes)]
    )
    found += [Scalar(_root(scene, str(c)), (math.sqrt(c),) * len(scenes), 0.6) for c in (2, 3)]
    gelu = math.sqrt(2 / math.pi)
    found += [Scalar(repr(gelu), (gelu,) * len(scenes), 0.9), *_standing(scenes)]
    found += [*_counts(scenes), *_of_circles(scene, len(scenes))]
    best = dict[str, Scalar]()
    for s in found:
        if s.text not in best or s.cost < best[s.text].cost:
            best[s.text] = s
    return [s for s in best.values() if any(v not in (0.0, 1.0) for v in s.value)]


def _roots_and_squares(scene: Scene, base: list[Scalar]) -> Iterator[Scalar]:
    """Numbers, their roots and squares, and what they are when one is taken off."""
    for s in base:
        yield s
        if min(s.value) > 0:
            yield Scalar(_root(scene, s.text), tuple(map(math.sqrt, s.value)), s.cost + 0.2)
            square = tuple([v**2 for v in s.value])
            yield Scalar(f"{s.text} ** 2", square, s.cost + 0.3)
        if min(s.value) > 2:
            less = tuple([v - 1 for v in s.value])
            yield Scalar(f"({s.text} - 1)", less, s.cost + 0.4)
        if all(0 < v < 1 for v in s.value):
            rest = tuple([1 - v for v in s.value])
            yield Scalar(f"(1 - {s.text})", rest, s.cost + 0.3)


def _named_numbers(scenes: list[Scene]) -> Iterator[Scalar]:
    every = [{k: plain(v) for k, v in s.numbers.items()} for s in scenes]
    for k in every[0]:
        values = [n.get(k) for n in every]
        if all(v is not None and v.size == 1 for v in values):
            each = tuple([float(v.reshape(-1)[0].real) for v in values if v is not None])
            elsewhere = set(each) <= set(PLAIN) and k not in scenes[0].draft.body
            yield Scalar(k, each, 0.15 * ("[" in k) + BY_CHANCE * elsewhere)


def _literals(scenes: list[Scene]) -> Iterator[Scalar]:
    """Numbers that multiply or divide something in the backward or the forward, and fractions: 0.8,
    1e-5, 0.044715, the 3 of `y / 3`."""
    texts = [scenes[0].draft.body, *forward_texts(scenes[0].draft.source)]
    found = [m for t in texts for m in (*_FRACTION.findall(t), *_factors_of(t))]
    for text in dict.fromkeys(found):
        value = float(text)
        if value not in (0.0, 1.0, 2.0):
            yield Scalar(text, (value,) * len(scenes), 0.05)


def _factors_of(text: str) -> list[str]:
    """Whole numbers by which something is multiplied or divided."""
    nodes = [n for n in ast.walk(tree_of(text)) if isinstance(n, ast.BinOp)]
    factors = [n for n in nodes if isinstance(n.op, ast.Mult | ast.Div)]
    parts = [e for n in factors for e in (n.left, n.right) if isinstance(e, ast.Constant)]
    return [str(e.value) for e in parts if type(e.value) is int]


def _extents(scenes: list[Scene]) -> Iterator[Scalar]:
    for k in scenes[0].extents:
        if all(k in s.extents for s in scenes):
            taken = any(k.startswith(f"{g}.") for g in scenes[0].cotangents)
            cost = 0.1 + 0.1 * ("[" not in k) + 0.05 * taken
            yield Scalar(k, tuple([float(s.extents[k]) for s in scenes]), cost)


def bounds(scene: Scene) -> dict[str, float]:
    """Numbers that elements are compared with, by their text: 0, what stands in forward and
    backward, and what has a name."""
    texts = [scene.draft.body, *forward_texts(scene.draft.source)]
    found = {"0": 0.0, "1": 1.0} | {m: float(m) for t in texts for m in _FRACTION.findall(t)}
    named = {k: plain(v) for k, v in scene.numbers.items()}
    found |= {k: float(v.reshape(-1)[0].real) for k, v in named.items() if v is not None}
    finite = [(k, v) for k, v in found.items() if math.isfinite(v)]
    return dict(finite[:BOUNDS])


def _of_circles(scene: Scene, count: int) -> Iterator[Scalar]:
    """Numbers made of pi, as densities and error functions have them."""
    module = scene.dialect.mathematics
    if module is not None:
        for form in ("{m}.pi", "1 / {m}.sqrt(2 * {m}.pi)", "2 / {m}.sqrt({m}.pi)"):
            value = float(eval(form.format(m="math"), {"math": math}))
            yield Scalar(form.format(m=module), (value,) * count, 0.5)


def _counts(scenes: list[Scene]) -> Iterator[Scalar]:
    """What images are averaged over: the size of their last two axes, and how many elements there
    are of each channel. Nothing of arrays that are empty."""
    extents = [s.extents for s in scenes]
    for whole in [k for k in extents[0] if not k.endswith("]")]:
        shape = f"{whole.rpartition('.')[0]}.shape["
        axes = [k for k in extents[0] if k.startswith(shape)]
        if len(axes) < 3 or not all(e.get(k) for k in (whole, *axes) for e in extents):
            continue
        area = [e[axes[-2]] * e[axes[-1]] for e in extents]
        yield Scalar(f"{axes[-2]} * {axes[-1]}", tuple(map(float, area)), 0.35)
        for k in axes:
            rest = [e[whole] // e[k] for e in extents]
            yield Scalar(f"{whole} // {k}", tuple(map(float, rest)), 0.35)


def _root(scene: Scene, text: str) -> str:
    module = scene.dialect.mathematics
    return f"{operand(text, 14)} ** 0.5" if module is None else f"{module}.sqrt({text})"


def _standing(scenes: list[Scene]) -> Iterator[Scalar]:
    """Numbers that the function says already, or the forward, as they are written there."""
    draft = scenes[0].draft
    texts = {draft.src(n): 0.02 for n in scenes[0].expressions if _is_plain(n)}
    for said in forward_texts(draft.source):
        for text in _numbers_of(said):
            texts.setdefault(text, 0.04)
    for text, cost in list(texts.items())[:NUMBERS]:
        values = [_evaluate(s, text) for s in scenes]
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            yield Scalar(text, tuple([float(v) for v in values]), cost)


def _numbers_of(text: str) -> list[str]:
    tree = tree_of(text)
    return [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.expr) and _is_plain(n)]


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is put together of names, sizes and roots, and does nothing."""
    if not isinstance(node, ast.Call | ast.BinOp | ast.Subscript | ast.Attribute):
        return False
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    known = [getattr(f, "attr", getattr(f, "id", "")) in _CALLS for f in calls]
    sizes = any(
        isinstance(n, ast.Attribute) and n.attr in ("shape", "size") for n in ast.walk(node)
    )
    kinds = (ast.Call, ast.BinOp, ast.Subscript, ast.Attribute, ast.Name, ast.Constant, ast.UnaryOp)
    plain_kinds = all(isinstance(n, kinds) for n in ast.walk(node) if isinstance(n, ast.expr))
    return plain_kinds and all(known) and (sizes or bool(calls))


def _evaluate(scene: Scene, text: str) -> Any:
    """What such an expression is where the function ends; None if that is not known."""
    function = python_function(scene.draft.source.function)
    names = {**function.__globals__, **scene.watched.names}
    try:
        return eval(text, {"__builtins__": {"len": len, "float": float, "int": int}}, names)
    except Exception:
        return None


def factors(weight: Values, numbers: list[Scalar]) -> list[tuple[str, float]]:
    """`* s` and `/ s` for every s that gives the weight, and how far-fetched each is; the best, and
    the whole number that it is, which lengths may be by chance."""
    found = list(_single(weight, numbers)) or list(_ratios(weight, numbers))
    best, whole = sorted(found, key=lambda f: f[1])[:FACTORS], f"* {round(weight[0])}"
    more = [f for f in found if f[0] == whole and f not in best][:1]
    if _is(
        weight, weight[:1] * len(weight)
    ):  # Half of a length less one is a small number by chance.
        more += [f for f in _ratios(weight, numbers) if f not in best and "- 1)" in f[0]][:2]
    return [*best, *more]


def _single(weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    for s in numbers:
        if _is(s.value, weight):
            yield f"* {operand(s.text, MUL + 1)}", s.cost
        elif _is(times(s.value, weight), (1.0,) * len(weight)):
            yield f"/ {operand(s.text, MUL + 1)}", s.cost
    if _is(weight, (round(weight[0]),) * len(weight)):
        yield f"* {round(weight[0])}", 0.5


def _ratios(weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    first = np.array([s.value[0] for s in numbers])
    wanted = first[:, None] * weight[0]
    near = np.abs(wanted - first) <= NEAR * np.maximum(np.abs(wanted), np.abs(first))
    pairs: list[list[int]] = np.argwhere(near).tolist()
    for i, j in pairs:
        a, b = numbers[i], numbers[j]
        fits = _is(times(a.value, weight), b.value) and not _is(a.value, b.value)
        if (i >= len(PLAIN) or (a.text == "2" and j >= len(PLAIN))) and fits:
            cost = 0.2 if b.text == "2" else 0.8  # 2 / n: the derivative of a mean square
            yield f"* {operand(b.text, MUL + 1)} / {operand(a.text, MUL + 1)}", cost


def spellings(value: Values, numbers: list[Scalar]) -> list[tuple[str, float]]:
    """Texts of a number that stands alone."""
    return sorted(_spellings(value, numbers), key=lambda f: f[1])[:FACTORS]


def _spellings(value: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    for s in numbers:
        if _is(s.value, value):
            yield s.text, s.cost
        elif _is(times(s.value, value), (1.0,) * len(value)):
            yield f"1 / {operand(s.text, MUL + 1)}", s.cost
    short = float(f"{value[0]:.4g}")
    if _is((short,) * len(value), value):
        yield (str(int(short)) if short == int(short) else repr(short)), 0.3


def coefficient(text: str, weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    """`+ term`, `- term`, `- term / s` for every s that gives the weight of a term."""
    sign, size = "-" if weight[0] < 0 else "+", tuple(map(abs, weight))
    if _is(size, (1.0,) * len(size)):
        yield f"{sign} {operand(text, ADD + 1)}", 0.0
        return
    for factor, extra in factors(size, numbers):
        yield f"{sign} {operand(text, MUL)} {factor}", extra


def times(a: Values, b: Values) -> Values:
    """The products of numbers, point by point."""
    return tuple([x * y for x, y in zip(a, b, strict=False)])


def _is(a: Values, b: Values) -> bool:
    """Whether numbers are the same at all points at which both are known."""
    return all(abs(x - y) <= NEAR * max(abs(x), abs(y)) for x, y in zip(a, b, strict=False))
