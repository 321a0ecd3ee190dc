"""What the forward says of a value, where the backward says it otherwise, or leaves a part out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from chainrule.verify.repair.budget import NUMBERS_IN_PLACE
from chainrule.verify.repair.code.dialect import forward_texts, said_by_forward
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ADD, MUL, as_operand, operand
from chainrule.verify.repair.code.slopes import slopes
from chainrule.verify.repair.code.syntax import undone
from chainrule.verify.repair.rule_costs import LIKELY, RARE, USUAL
from chainrule.verify.repair.rules.patterns import SMALL
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.trees import tree_of

_BY_SIGN = re.compile(r"[<>]=? 0(?![\w.])|\babs\(")
_POWERS, _NEAR = (2, 3, 4), 0.1
"""What the derivative of a power brings with it, and how near a multiple has to come."""


def as_in_forward(scene: Scene) -> Iterator[Edit]:
    """What is computed again, as the forward computes what it calls by the same name or names."""
    made = said_by_forward(scene.draft.source, scene.watched.names, _assignments)
    for node in scene.draft.statements:
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=value) if (
                not scene.flows(value)
            ):
                here = ast.unparse(value)
            case _:
                continue
        for text in made.get(ast.unparse(target), []):
            if text != here:
                cases = bool(_BY_SIGN.search(text)) != bool(_BY_SIGN.search(here))
                yield scene.put(value, text, "one_sided" if cases else "wrong_value", USUAL)


def as_differentiated(scene: Scene) -> Iterator[Edit]:
    """A term of the chain rule that a statement leaves out, by its names: `dx` of what `x` is made
    of, where tangents go forward (`x = a * b`, `da * b`), and of what is made of `x`, where
    cotangents go back (`y = f(x)`, `dy * f'(x)`)."""
    said = _slopes_by_names(scene)
    names = {k: undone(k) for k in scene.watched.names}
    for node in scene.roots:
        target = _given_name(scene, node)
        for meant in undone(target):
            for other in [k for k, of in names.items() if k != target and of]:
                forward = [t for of in names[other] for t in said.get(f"{meant}\n{of}", [])]
                back = [t for of in names[other] for t in said.get(f"{of}\n{meant}", [])]
                for term in dict.fromkeys([*forward, *back]):
                    yield _plus(scene, node, other, term)


def _given_name(scene: Scene, node: ast.expr) -> str:
    match scene.draft.parents[node]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _plus(scene: Scene, node: ast.expr, name: str, slope: str) -> Edit:
    """The value, with a term more."""
    sign = "-" if slope.startswith("-") else "+"
    term = f"{name} * {operand(slope.removeprefix('-'), MUL + 1)}"
    here = as_operand(scene.draft, node, ADD)
    return scene.put(node, f"{here} {sign} {term}", "missing_term", LIKELY)


def _slopes_by_names(scene: Scene) -> dict[str, list[str]]:
    """Terms of derivatives, by what they are of and by what."""

    def read(text: str) -> Iterator[tuple[str, str]]:
        for s in slopes(text):
            yield from [(f"{s.of}\n{s.by}", term) for term in s.terms]

    return said_by_forward(scene.draft.source, scene.watched.names, read)


def number_of_forward(scene: Scene) -> Iterator[Edit]:
    """A fraction that the forward uses, or that has a name, in place of one that is written down;
    a multiple of it that comes near: `3 * 0.044715` for 0.13."""
    texts = forward_texts(scene.draft.source)
    named = {k: float(v) for k, held in scene.numbers.items() if (v := plain(held)) is not None}
    known = {repr(c): c for text in texts for c in _fractions(text)}
    known |= {k: v for k, v in named.items() if not k.isdigit()}
    for node in scene.expressions:
        match node:
            case ast.Constant(value=float() as here) if here:
                others = [k for k, v in known.items() if v != here]
                pairs = [(n, k) for n in _POWERS for k in others]
                near = [(n, k) for n, k in pairs if abs(n * known[k] / here - 1) < _NEAR]
                for text in [*[f"{n} * {k}" for n, k in near], *others][:NUMBERS_IN_PLACE]:
                    yield scene.put(node, text, "wrong_value", USUAL)
                    if 0 < here < SMALL:  # Below it a series may be used.
                        yield scene.put(node, text, "precision", RARE)
            case _:
                continue


@cache
def _assignments(text: str) -> tuple[tuple[str, str], ...]:
    """Names, or several at once, and what they are assigned."""
    nodes = [n for n in ast.walk(tree_of(text)) if isinstance(n, ast.Assign)]
    pairs = [(n.targets[0], n.value) for n in nodes if len(n.targets) == 1]
    named = [(t, v) for t, v in pairs if isinstance(t, ast.Name | ast.Tuple)]
    return tuple([(ast.unparse(t), ast.unparse(v)) for t, v in named])


@cache
def _fractions(text: str) -> tuple[float, ...]:
    numbers = [n.value for n in ast.walk(tree_of(text)) if isinstance(n, ast.Constant)]
    return tuple(dict.fromkeys([c for c in numbers if isinstance(c, float)]))
