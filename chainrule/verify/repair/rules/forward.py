"""What the forward says of a value, where the backward says it otherwise, or leaves a part out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeAlias

from chainrule.verify.repair.budget import NUMBERS_IN_PLACE
from chainrule.verify.repair.code.dialect import forward_texts
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.rule_costs import RARE, USUAL
from chainrule.verify.repair.rules.patterns import SMALL
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.trees import tree_of

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_BY_SIGN = re.compile(r"[<>]=? 0(?![\w.])|\babs\(")
_POWERS, _NEAR = (2, 3, 4), 0.1
"""What the derivative of a power brings with it, and how near a multiple has to come."""


def as_in_forward(scene: Scene) -> Iterator[Edit]:
    """What is computed again, as the forward computes what it calls by the same name or names."""
    made = _by_name(scene, _assignments)
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


_Read: TypeAlias = Callable[[str], Iterable[tuple[str, str]]]
"""Of some code: pairs of a name and a text that has to do with it."""


def _by_name(scene: Scene, read: _Read) -> dict[str, list[str]]:
    """By what the backward calls it: texts of the forward, in the backward's names. What the
    forward keeps on an object has the object's name: `ctx.w` for `w`."""
    texts, held = forward_texts(scene.draft.source), dict[str, str]()
    for text in texts:
        held |= {k: v for k, v in _kept_names(text) if k not in scene.watched.names}
    found = dict[str, list[str]]()
    for text in texts:
        for name, said in read(text):
            here, said = (_NAME.sub(lambda m: held.get(m[0], m[0]), t) for t in (name, said))
            found.setdefault(here, []).append(said)
    return {k: list(dict.fromkeys(v)) for k, v in found.items()}


def _kept_names(text: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name()) as target], value=ast.Name(id=k)
            ):
                yield k, ast.unparse(target)
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
