"""What a syntax tree tells without being run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

_CALLED = re.compile(r"^(?:d_?|g_|grad_?|delta_?)(\w+)$|^(\w+?)_(?:bar|grad|d|g)$")


def elements(value: ast.expr) -> list[ast.expr]:
    """What a tuple, a list or a dict holds; of anything else, itself."""
    match value:
        case ast.Tuple() | ast.List():
            return list(value.elts)
        case ast.Dict():
            return list(value.values)
        case _:
            return [value]


def writes(statements: Iterable[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.Subscript, ast.expr]]:
    """Assignments to elements, `d[i] = v` and `d[i] += v`: the statement, its target, the value."""
    for s in statements:
        match s:
            case ast.AugAssign(target=ast.Subscript() as target, value=value):
                yield s, target, value
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                yield s, target, value
            case _:
                pass


def names_in(node: ast.AST) -> set[str]:
    """Names that a node mentions."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def are_parts(a: str, b: str) -> bool:
    """Whether two names are those of parts of one thing: `dw_left` and `dw_right`, `dx1` and
    `dx2`."""
    stem = "".join([x for k, x in enumerate(a) if b.startswith(a[: k + 1])])
    ends = a[len(stem) :], b[len(stem) :]
    told = stem.endswith("_") or all(len(end) == 1 for end in ends)
    return len(stem.rstrip("_")) > 1 and all(ends) and told


def undone(name: str) -> list[str]:
    """What a cotangent is called after: `h` of `dh`, `d_h`, `grad_h`, `h_bar`."""
    match = _CALLED.match(name)
    return [] if match is None else [g for g in match.groups() if g]


def bases(target: ast.expr) -> set[str]:
    """Names that an assignment gives, or into whose arrays it writes: `d` of `d[i]`, not `i`."""
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return {name for e in target.elts for name in bases(e)}
    return names_in(target)


def mentions(node: ast.AST) -> set[str]:
    """Names that a node mentions, and what they hold by name: of `self.w`, `self` and that."""
    return names_in(node) | {_held(n) for n in ast.walk(node)} - {""}


def gives(target: ast.expr) -> set[str]:
    """What an assignment gives or changes, in these words: `d` of `d[i]`, `self.grads` of
    `self.grads["W"]`."""
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred) and not _held(target):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return {name for e in target.elts for name in gives(e)}
    return {_held(target)} if _held(target) else names_in(target)


def _held(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            return f"{name}.{attr}"
        case _:
            return ""


def is_stored(node: ast.Name) -> bool:
    """Whether a name is assigned to."""
    return isinstance(node.ctx, ast.Store)


def is_simple(node: ast.AST) -> bool:
    """Whether a node only names something: `self.x`, `cache["x"]`, `saved[0]`."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute():
            return node.attr not in ("T", "mT", "H", "shape", "ndim") and is_simple(node.value)
        case ast.Subscript():
            return isinstance(node.slice, ast.Constant) and is_simple(node.value)
        case _:
            return False


def is_sum(node: ast.AST) -> bool:
    """Whether two terms are added, or one is taken from another."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def is_literal(node: ast.AST) -> bool:
    """Whether an expression is put together of constants only."""
    kinds = ast.Constant | ast.Tuple | ast.List | ast.UnaryOp | ast.USub | ast.Load
    return all(isinstance(n, kinds) for n in ast.walk(node))


def loops_around(parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> list[ast.AST]:
    """The loops in which a node is, the innermost one first."""
    found = list[ast.AST]()
    while node in parents:
        node = parents[node]
        found += [node] if isinstance(node, ast.For | ast.While) else []
    return found
