"""Slips with memory: writes into what is not one's own, layouts that the code takes for granted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ATOM, as_operand
from chainrule.verify.repair.rule_costs import RARE
from chainrule.verify.repair.rules.statements import SIGNS
from chainrule.verify.repair.values.scene import Scene


def copy_before_write(scene: Scene) -> Iterator[Edit]:
    """A copy before something is written into: `dx = g` to `dx = g.copy()`, `g *= m` to
    `g = g * m`."""
    copy = "clone" if scene.dialect.torch else "copy"
    for node in scene.expressions:
        parent = scene.draft.parents.get(node)
        simple = isinstance(node, ast.Name | ast.Attribute)
        if simple and isinstance(parent, ast.Assign) and scene.is_array(node):
            text = f"{as_operand(scene.draft, node, ATOM)}.{copy}()"
            yield scene.put(node, text, "writes", RARE)
    for node in scene.draft.statements:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            sign = SIGNS.get(type(node.op))
            if sign is not None:
                start, end = scene.draft.span(node)
                name = node.target.id
                value = as_operand(scene.draft, node.value, 12)
                text = f"{name} = {name} {sign} {value}"
                yield Edit(start, end, text, "writes", RARE, f"`{name}` is not written into")
    yield from _output_arguments(scene)


def _output_arguments(scene: Scene) -> Iterator[Edit]:
    """`np.multiply(g, m, out=g)` without `out`; `g.mul_(m)` as `g.mul(m)`, and as
    `g = g.mul(m)` where that is a statement."""
    for node in scene.expressions:
        match node:
            case ast.Call(keywords=keywords, args=[_, *_]):
                for k in keywords:
                    if k.arg == "out":
                        start, end = scene.draft.span(node.args[-1])[1], scene.draft.span(k)[1]
                        yield Edit(start, end, "", "writes", RARE, "`out=` is left out")
            case _:
                pass
        match node:
            case ast.Call(func=ast.Attribute(attr=name) as function) if name.endswith("_"):
                end = scene.draft.span(function)[1]
                says = f"`{name}` becomes `{name[:-1]}`"
                alone = isinstance(scene.draft.parents[node], ast.Expr)
                if alone and isinstance(function.value, ast.Name):
                    start, last = scene.draft.span(node)
                    body, owner = scene.draft.body, function.value.id
                    text = f"{owner} = {body[start : end - 1]}{body[end:last]}"
                    yield Edit(start, last, text, "writes", RARE, says)
                else:
                    yield Edit(end - 1, end, "", "writes", RARE, says)
            case _:
                continue
