"""The course of values through a version's text: which stand by themselves, which are returned, and
what the cotangents flow into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from chainrule.verify.repair.code.draft import Draft
from chainrule.verify.repair.code.syntax import elements, fills, gives, mentions

_LOOPS = (ast.For, ast.While)


def whole_expressions(draft: Draft) -> list[ast.expr]:
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


def returned_values(draft: Draft) -> list[ast.expr]:
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
            for target, value in _assignments(n):
                if mentions(value) & found:
                    found |= gives(target)
            found |= names_filled(n, found)
    return found


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
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


def names_filled(node: ast.AST, flowing: set[str]) -> set[str]:
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


def statements_of_value(root: ast.AST, idle: Sequence[ast.stmt] = ()) -> list[ast.stmt]:
    """Simple statements on which the first returned value depends, as far as the text tells; none
    of the `idle` ones, which change nothing when the code is run."""
    body: list[ast.stmt] = getattr(root, "body", [])
    returns = [n for n in ast.walk(root) if isinstance(n, ast.Return) and n.value is not None]
    if not returns or not isinstance(root, ast.FunctionDef):
        return []
    value = returns[-1].value
    first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    found = [*idle]
    _behind(body, _read(first), found, idle)
    return found[len(idle) :]


def _behind(
    body: Sequence[ast.stmt], needed: set[str], found: list[ast.stmt], idle: Sequence[ast.stmt]
) -> set[str]:
    """What is needed before some statements, of which the needed ones are added to those found."""
    for statement in reversed(body):
        needed = needed if statement in idle else _before(statement, needed, found, idle)
    return needed


def _before(
    statement: ast.stmt, needed: set[str], found: list[ast.stmt], idle: Sequence[ast.stmt]
) -> set[str]:
    """The names that are needed before a statement, from those that are needed after it."""
    blocks = list(_blocks(statement))
    if not blocks:
        changed, given = _changed(statement)
        if not changed & needed:
            return needed
        if statement not in found:
            found.append(statement)
        return (needed - given) | _read_for(statement, needed)
    for _ in range(2 if isinstance(statement, _LOOPS) else 1):  # What a turn hands to the next one.
        inside = [_behind(block, needed, found, idle) for block in blocks]
        needed = needed.union(*inside)
    return needed


def _read_for(statement: ast.stmt, needed: set[str]) -> set[str]:
    """What a statement reads for what is needed of it: of `a, b = x, y`, for `a` only `x`."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(
            names
        ) == len(values):
            pairs = zip(names, values, strict=True)
            return {k for n, v in pairs if _dotted(n) in needed for k in _read(v)}
        case _:
            return _read(statement)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        if rows := getattr(statement, field, None):
            yield rows


def _changed(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """What a statement changes, and what of that it gives another value."""
    match statement:
        case ast.Assign(targets=targets):
            each = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
            whole = {_dotted(e) for e in each if isinstance(e, ast.Name)}
            return {_dotted(e) for e in each}, whole
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return {_dotted(target)}, set()
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner), args=args)):
            return {_dotted(owner), *[_dotted(a) for a in args[:1]]} - {""}, set()
        case _:
            return set(), set()


def _read(node: ast.AST | None) -> set[str]:
    """What a node reads: names, and attributes with what they are attributes of."""
    nodes = [] if node is None else list(ast.walk(node))
    inner = {n.value for n in nodes if isinstance(n, ast.Attribute)}
    read = [n for n in nodes if isinstance(n, ast.Name | ast.Attribute) and n not in inner]
    return {_dotted(n) for n in read} - {""}


def _dotted(node: ast.AST) -> str:
    """What a target, or the array that it is a part of, is called."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=attr):
            return f"{_dotted(owner)}.{attr}"
        case ast.Subscript(value=owner) | ast.Starred(value=owner):
            return _dotted(owner)
        case _:
            return ""
