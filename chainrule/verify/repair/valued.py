"""What of a function computes its value, and what its gradients, where it gives both.

No gradient is wrong because of what the value is computed with: that is what it is the gradient of.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_LOOPS = (ast.For, ast.While)


def statements_of_value(root: ast.AST) -> list[ast.stmt]:
    """Simple statements on which the first returned value depends, as far as the text tells."""
    body: list[ast.stmt] = getattr(root, "body", [])
    returns = [n for n in ast.walk(root) if isinstance(n, ast.Return) and n.value is not None]
    if not returns or not isinstance(root, ast.FunctionDef):
        return []
    value = returns[-1].value
    first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    found: list[ast.stmt] = []
    _behind(body, _read(first), found)
    return found


def _behind(body: Sequence[ast.stmt], needed: set[str], found: list[ast.stmt]) -> set[str]:
    """What is needed before some statements, of which the needed ones are added to those found."""
    for statement in reversed(body):
        needed = _before(statement, needed, found)
    return needed


def _before(statement: ast.stmt, needed: set[str], found: list[ast.stmt]) -> set[str]:
    blocks = list(_blocks(statement))
    if not blocks:
        changed, given = _changed(statement)
        if not changed & needed:
            return needed
        if statement not in found:
            found.append(statement)
        return (needed - given) | _read(statement)
    for _ in range(2 if isinstance(statement, _LOOPS) else 1):  # What a turn hands to the next one.
        inside = [_behind(block, needed, found) for block in blocks]
        needed = needed.union(*inside)
    return needed


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
