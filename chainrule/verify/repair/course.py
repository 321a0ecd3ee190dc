"""The course of values through a version's text: which stand by themselves, which are returned, and
what the cotangents flow into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from chainrule.verify.repair.draft import Draft
from chainrule.verify.repair.syntax import elements, gives, mentions

_FILLING_FIRST = ("at", "put_along_axis", "copyto", "put", "place", "putmask")
_COLLECTING = ("append", "extend", "insert", "appendleft", "update")


def whole(draft: Draft) -> list[ast.expr]:
    """Whole right-hand sides, what is kept by a call, and returned values."""
    found = list[ast.expr]()
    root = draft.root
    if isinstance(root, ast.Lambda):
        found += elements(root.body)
    for n in draft.nodes:
        if isinstance(n, ast.Return | ast.Assign | ast.AugAssign | ast.AnnAssign) and n.value:
            found += elements(n.value)
        elif isinstance(n, ast.Dict):
            found += n.values
        elif isinstance(n, ast.Call):  # What is kept by a call: `grads.append(g @ w)`.
            found += n.args if isinstance(draft.parents.get(n), ast.Expr) else []
    return sorted(set(found), key=lambda n: draft.span(n))


def returned(draft: Draft) -> list[ast.expr]:
    """The elements of what the function returns."""
    root = draft.root
    if isinstance(root, ast.Lambda):
        return elements(root.body)
    values = [n.value for n in draft.nodes if isinstance(n, ast.Return) and n.value]
    return [e for v in values for e in elements(v)]


def flowing(draft: Draft, cotangents: set[str], of_value: Sequence[ast.stmt]) -> set[str]:
    """Names that the cotangents flow into; where the value is computed as well, by the statements
    `of_value`, those that are not of it."""
    found = set(cotangents) or set(draft.parameters)
    if of_value:
        rest = [n for n in draft.nodes if isinstance(n, ast.Assign | ast.AugAssign)]
        rest = [n for n in rest if n not in of_value]
        targets = [
            t for n in rest for t in (n.targets if isinstance(n, ast.Assign) else [n.target])
        ]
        found = {name for t in targets for name in gives(t)}
    for _ in range(3):  # Loops hand values on; nobody's chains go further back than this.
        for n in draft.nodes:
            for target, value in _given(n):
                if mentions(value) & found:
                    found |= gives(target)
            found |= filled(n, found)
    return found


def _given(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement gives a value, and that, of `a, b = x, y` one by one."""
    match node:
        case ast.For(target=target, iter=value):
            yield target, value
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(
            names
        ) == len(values) and not any(isinstance(e, ast.Starred) for e in names):
            yield from zip(names, values, strict=True)
        case ast.Assign(targets=targets, value=value):
            yield from [(t, value) for t in targets]
        case _:
            return


def filled(node: ast.AST, flowing: set[str]) -> set[str]:
    """Names of what a statement changes in place by something that flows: `d += g`, `d[i] = g`,
    `np.add.at(d, i, g)`, `d.index_add_(0, i, g)`, `ds.append(g)`."""
    match node:
        case ast.AugAssign(target=target, value=value):
            pass
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            pass
        case ast.Expr(value=ast.Call() as value) if (owner := fills(value)) is not None:
            target = owner
        case _:
            return set()
    return gives(target) if mentions(value) & flowing else set()


def fills(call: ast.Call) -> ast.expr | None:
    """What a call fills with something, as its name says."""
    match call.func:
        case ast.Attribute(attr=attr) if attr in _FILLING_FIRST and call.args:
            return call.args[0]
        case ast.Attribute(value=owner, attr=attr) if attr.endswith("_") or attr in _COLLECTING:
            return owner
        case _:
            return None
