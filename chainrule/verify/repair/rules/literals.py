"""A number of the backward where the forward has another one: a stabiliser, a slope, a bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, as_part
from chainrule.verify.repair.pool import with_axes
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import writes
from chainrule.verify.repair.watch import plain, shape_of
from chainrule.verify.repair.wording import forward_texts
from chainrule.verify.trees import tree_of

_MOST = 12
"""Numbers that are tried in one place."""
_SAME_PLACE, _FRACTION, _WHOLE = 0.9, 1.3, 1.55
"""How unlikely it is: where the forward computes the same but for this number; elsewhere, for
fractions and for whole numbers."""
_GUARD = 0.6
"""How unlikely it is that what the forward adds to a value was forgotten."""
_NAMED = 1.4
"""How unlikely it is that a number with a name was to be added."""
_ONE = 0.9
"""How unlikely it is that a 1 is written where the cotangent belongs."""
_POWERS, _NEARLY = (2, 3, 4), 0.1
"""What the derivative of a power brings with it, and how near a multiple has to come."""


def number_of_forward(scene: Scene) -> Iterator[Edit]:
    """A number that the forward uses, or that has a name, in place of one that is written down."""
    said = [_parts_of(text) for text in forward_texts(scene.draft.source)]
    if not said:
        return
    parts = frozenset[str]().union(*[p for p, _ in said])
    literals = dict.fromkeys([c for _, found in said for c in found])
    named = {k: float(v) for k, value in scene.numbers.items() if (v := plain(value)) is not None}
    known = {repr(c): c for c in literals} | {k: v for k, v in named.items() if not k.isdigit()}
    for node in scene.expressions:
        if not isinstance(node, ast.Constant) or not _is_quantity(scene, node):
            continue
        fraction = isinstance(node.value, float)
        others = [k for k, v in known.items() if v != scene.value(node)]
        others = [*_multiples(node, known), *others]
        for text in others[:_MOST]:
            same = _around(scene, node, text) in parts
            cost = _SAME_PLACE if same else _FRACTION if fraction else _WHOLE
            yield scene.put(node, text, "wrong_value", cost)


def _multiples(node: ast.Constant, known: dict[str, float]) -> list[str]:
    """Multiples of the numbers that come near the one that is written down: `3 * 0.044715` for
    0.13, from the derivative of a power."""
    value = node.value
    if not isinstance(value, float) or not value:
        return []
    pairs = [(k, n, v) for k, v in known.items() for n in _POWERS if v]
    near = [p for p in pairs if abs(p[1] * p[2] / value - 1) < _NEARLY]
    return [f"{n} * {k}" for k, n, _ in near]


def _is_quantity(scene: Scene, node: ast.Constant) -> bool:
    """Whether a number is computed with: no axis, no index, no length, no power."""
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return False
    parent = scene.draft.parents[node]
    if isinstance(node.value, float):
        return True
    powers = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow)
    return isinstance(parent, ast.BinOp | ast.Compare) and not powers and abs(node.value) > 2


def _around(scene: Scene, node: ast.Constant, text: str) -> str:
    """What a number is part of, with something else in its place, as the forward would have it."""
    parent = scene.draft.parents[node]
    start, (first, last) = scene.draft.span(parent)[0], scene.draft.span(node)
    whole = scene.draft.src(parent)
    changed = whole[: first - start] + text + whole[last - start :]
    try:
        return ast.unparse(ast.parse(changed, mode="eval"))
    except SyntaxError:
        return changed


@cache
def _parts_of(text: str) -> tuple[frozenset[str], tuple[float, ...]]:
    """All expressions of some code, and the fractions among its numbers."""
    tree = tree_of(text)
    parts = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp | ast.Call | ast.Compare)]
    numbers = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    fractions = [c for c in numbers if isinstance(c, float)]
    return frozenset([ast.unparse(p) for p in parts]), tuple(dict.fromkeys(fractions))


def with_addend(scene: Scene) -> Iterator[Edit]:
    """What the forward, or another line, adds a number to before it uses it: `var` to `var + EPS`,
    or to `std ** 2`, where that is the root of the sum."""
    sums = dict[str, list[str]]()
    for text in (scene.draft.text, *forward_texts(scene.draft.source)):
        for name, whole in (*_sums(text), *_roots(text)):
            sums.setdefault(name, []).append(whole)
    for node in scene.expressions if sums else ():
        here = scene.draft.src(node)
        if here in sums and not _is_added_to(scene, node):
            for text in dict.fromkeys(sums[here]):
                yield scene.put(node, f"({text})", "factor", _GUARD)


def number_added(scene: Scene) -> Iterator[Edit]:
    """A number with a name, added to a value: of an exponential linear unit below zero the slope is
    `y + alpha`."""
    named = [k for k, v in scene.numbers.items() if isinstance(v, float) and k.isidentifier()]
    for node in scene.roots:
        if scene.is_array(node) and not scene.flows(node):
            here = as_part(scene.draft, node, ADD)
            for name in named:
                for sign in "+-":
                    yield scene.put(node, f"{here} {sign} {name}", "missing_term", _NAMED)


def _is_added_to(scene: Scene, node: ast.expr) -> bool:
    parent = scene.draft.parents.get(node)
    return isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add)


@cache
def _sums(text: str) -> tuple[tuple[str, str], ...]:
    """Names to which a number, or a constant by its name, is added, and the sums."""
    found = [(_term(node), ast.unparse(node)) for node in ast.walk(tree_of(text))]
    return tuple([(name, whole) for name, whole in found if name])


@cache
def _roots(text: str) -> tuple[tuple[str, str], ...]:
    """The same names, and what the root of the sum is called, or one divided by it, squared."""
    found = list[tuple[str, str]]()
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Assign(targets=[ast.Name(id=root)], value=value):
                words = ast.unparse(value)
                names = [n for n in map(_term, ast.walk(value)) if n]
            case _:
                continue
        if "rsqrt" in words or "** -0.5" in words or words.startswith("1"):
            found += [(name, f"1 / {root} ** 2") for name in names]
        elif "sqrt" in words or "** 0.5" in words:
            found += [(name, f"{root} ** 2") for name in names]
    return tuple(found)


def _term(node: ast.AST) -> str:
    """What a number is added to; empty if it is nothing with a name."""
    match node:
        case ast.BinOp(
            left=ast.Name() | ast.Attribute() as left,
            op=ast.Add(),
            right=ast.Constant() | ast.Name() | ast.Attribute() as right,
        ) if _is_constant(right):
            return ast.unparse(left)
        case _:
            return ""


def _is_constant(node: ast.expr) -> bool:
    """Whether it is a number, or called like one: `EPS`, `self.eps`, `epsilon`."""
    name = getattr(node, "attr", getattr(node, "id", ""))
    return isinstance(node, ast.Constant) or name.isupper() or name.startswith("eps")


def cotangent_for_one(scene: Scene) -> Iterator[Edit]:
    """The cotangent where a 1 is written into elements of a gradient, as if all came in as ones:
    `d[i, best] = 1.0` to `d[i, best] = g`."""
    for filled, one in _ones_written(scene.draft.statements):
        most = len(scene.shape(filled) or ())
        for name in sorted(scene.cotangents):
            held = shape_of(scene.watched.names.get(name))
            for text, _, cost in with_axes(name, held, most) if held is not None else ():
                yield scene.put(one, text, "ignores_cotangent", _ONE + cost)


def _ones_written(statements: list[ast.stmt]) -> Iterator[tuple[ast.expr, ast.Constant]]:
    """What is written into, and the 1 that is: by an index, or by a call, `np.add.at(d, i, 1.0)`,
    `d.scatter_(1, i, 1.0)`."""
    for _, target, value in writes(statements):
        match value:
            case ast.Constant(value=int(n) | float(n)) if n == 1 and n is not True:
                yield target.value, value
            case _:
                continue
    for statement in statements:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name), args=args)):
                filled = owner if name.endswith("_") else args[0] if args else owner
                ones = [n for n in args[1:] if isinstance(n, ast.Constant)]
                yield from [(filled, n) for n in ones if repr(n.value) == "1.0"]
            case _:
                continue
