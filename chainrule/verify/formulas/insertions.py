"""What may be put into somebody's text: another name, a function more, a factor more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import cast

from chainrule.verify.formulas.alternatives import Meant, expression_named
from chainrule.verify.formulas.kinds import Kind, Reach

_MOST_NAMES = 8


def alike(a: Kind, b: Kind) -> bool:
    """Whether one may have been taken for the other."""
    same = a.shape == b.shape or (len(a.shape) == len(b.shape) and 1 in (*a.shape, *b.shape))
    return same and a.elements == b.elements


def names(node: ast.AST, reach: Reach) -> Meant:
    """Another name of the same kind."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in reach.names:
        kind = reach.names[node.id]
        others = [n for n, k in reach.names.items() if n != node.id and alike(kind, k)]
        yield from ((2.7, expression_named(n)) for n in others[-_MOST_NAMES:])


def wraps(node: ast.AST, reach: Reach) -> Meant:
    """A function more: a square, a root, a sign, `1 - x`, a clamp."""
    kind = reach.kind(node) if _is_value(node) else None
    if kind is None or kind.library == "list" or kind.elements == "bool" or kind.is_index:
        return
    x = cast("ast.expr", node)
    one, two = ast.Constant(1), ast.Constant(2)
    if kind.is_share:
        yield 2.0, ast.BinOp(one, ast.Sub(), x)
    if not (isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub)):
        yield 2.1, ast.UnaryOp(ast.USub(), x)
    if kind.elements != "float":
        return
    yield 2.4, ast.BinOp(x, ast.Pow(), two)
    if kind.least >= 0:
        yield 2.4, ast.BinOp(x, ast.Pow(), ast.Constant(0.5))
        yield from _called("log", x, kind, reach, 2.8)
    else:
        yield 2.3, _clamped(x, kind, reach)
        yield from _called("abs", x, kind, reach, 2.8)
    if kind.most < 50:
        yield from _called("exp", x, kind, reach, 2.8)
    yield 3.4, ast.BinOp(two, ast.Mult(), x)
    yield 3.4, ast.BinOp(ast.Constant(0.5), ast.Mult(), x)


def pairs(node: ast.AST, reach: Reach) -> Meant:
    """The same function more, of both sides."""
    if isinstance(node, ast.BinOp):
        wrapped = [dict(_by_name(wraps(x, reach))) for x in (node.left, node.right)]
        for name in wrapped[0].keys() & wrapped[1].keys():
            left, right = (w[name] for w in wrapped)
            yield 2.5, ast.BinOp(cast("ast.expr", left), node.op, cast("ast.expr", right))


def _by_name(made: Meant) -> Iterator[tuple[str, ast.AST]]:
    for _, node in made:
        if isinstance(node, ast.Call):
            f = node.func
            yield f.attr if isinstance(f, ast.Attribute) else ast.unparse(f), node
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.Sub):
            yield ast.unparse(node.right) if isinstance(node.op, ast.Pow) else "1 -", node


def _is_value(node: ast.AST) -> bool:
    if isinstance(node, ast.Name | ast.Subscript | ast.Attribute):
        return isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.BinOp | ast.Call | ast.UnaryOp)


def _called(name: str, x: ast.expr, kind: Kind, reach: Reach, cost: float) -> Meant:
    if kind.library == "tensor":
        yield cost, ast.Call(ast.Attribute(x, name, ast.Load()), [], [])
    elif reach.numpy:
        f = ast.Attribute(ast.Name(reach.numpy, ast.Load()), name, ast.Load())
        yield cost, ast.Call(f, [x], [])


def _clamped(x: ast.expr, kind: Kind, reach: Reach) -> ast.expr:
    if kind.library == "tensor":
        f = ast.Attribute(x, "clamp", ast.Load())
        return ast.Call(f, [], [ast.keyword("min", ast.Constant(0))])
    if kind.library == "array" and reach.numpy:
        f = ast.Attribute(ast.Name(reach.numpy, ast.Load()), "maximum", ast.Load())
        return ast.Call(f, [x, ast.Constant(0)], [])
    return ast.Call(ast.Name("max", ast.Load()), [x, ast.Constant(0)], [])


def factors(node: ast.AST, reach: Reach) -> Meant:
    """A factor, a divisor or an exponent more, of a name in reach."""
    kind = reach.kind(node) if _is_value(node) else None
    if kind is None or kind.library == "list" or kind.elements == "bool" or kind.is_index:
        return
    x, text = cast("ast.expr", node), ast.unparse(node)
    for name, other in reach.names.items():
        if other.shape and not (other.is_share or other.is_whole):
            continue  # that would be the half of many a formula
        goes = _goes_into(other.shape, kind.shape) or (other.is_whole and not kind.shape)
        if name == text or other.library == "list" or not goes:
            continue
        by = expression_named(name)
        if other.is_whole:
            yield 3.5, ast.BinOp(x, ast.Pow(), by)
        if not _goes_into(other.shape, kind.shape):
            continue
        yield 3.5, ast.BinOp(x, ast.Mult(), by)
        yield 3.6, ast.BinOp(x, ast.Div(), by)
        if other.is_share:
            yield 3.6, ast.BinOp(x, ast.Mult(), ast.BinOp(ast.Constant(1), ast.Sub(), by))
            if kind.is_share and not kind.shape:
                yield 3.7, ast.BinOp(x, ast.Mult(), by)


def _goes_into(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether values of one shape can be multiplied with those of another one, and leave it."""
    rows = zip(reversed(a), reversed(b), strict=False)
    return len(a) <= len(b) and all(m in (1, n) for m, n in rows)
