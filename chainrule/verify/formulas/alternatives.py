"""What a node of somebody's text may have been meant to be, by kinds of changes.

Another operator, other operands, a function more or less, another axis, another name of the same
kind, an order turned round. Each has its costs: the first ones are the likeliest.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from itertools import combinations
from typing import TypeAlias

from chainrule.verify.formulas.kinds import Reach
from chainrule.verify.formulas.recording import chain

Meant: TypeAlias = Iterator[tuple[float, ast.AST]]
"""Costs, and what may stand in the place of a node."""

_TURNED = {
    "min": "max", "minimum": "maximum", "amin": "amax", "fmin": "fmax", "argmin": "argmax",
    "mean": "sum", "softmax": "log_softmax", "sin": "cos", "tril": "triu", "sigmoid": "logsigmoid",
    "ones_like": "zeros_like", "ones": "zeros", "eye": "ones", "log": "log1p", "exp": "expm1",
    "cumsum": "cumprod", "sum": "mean", "relu": "abs", "floor": "ceil", "sinh": "cosh",
}  # fmt: skip
TURNED = _TURNED | {new: old for old, new in _TURNED.items()}
"""Functions that are taken one for the other."""
FREED = frozenset({
    "square", "sqrt", "exp", "log", "abs", "relu", "sigmoid", "tanh", "clamp", "clip", "flip",
    "reversed", "softplus", "float", "log1p", "rsqrt", "logsigmoid", "clamp_min", "maximum",
    "flipud", "cumsum", "softmax", "log_softmax", "normalize", "sign", "neg", "max", "min",
})  # fmt: skip
"""Functions that may be one too much."""
_ALONG = frozenset({
    "sum", "mean", "cumsum", "cumprod", "softmax", "log_softmax", "logsumexp", "norm", "prod",
    "max", "min", "flip", "argmax", "argmin", "var", "std", "amax", "amin", "diff", "roll",
})  # fmt: skip
_MOST_NAMES = 8
_LATE = 4
"""Names given last, which may be factors of any kind."""


def operators(node: ast.AST, reach: Reach | None = None) -> Meant:
    """+ and -, * and /, a sign, a comparison."""
    match node:
        case ast.BinOp(op=op, left=left, right=right):
            yield from turned_operator(node)
            if isinstance(op, ast.Sub | ast.Div | ast.Pow):
                yield 1.2, ast.BinOp(right, op, left)
        case ast.UnaryOp(op=ast.USub() | ast.Invert() | ast.Not(), operand=operand) if not (
            isinstance(operand, ast.Constant)
        ):
            yield 1.0, operand
        case ast.AugAssign(target=target, op=op, value=value):
            for one, other in ((ast.Add, ast.Sub), (ast.Mult, ast.Div)):
                if isinstance(op, one | other):
                    new = other() if isinstance(op, one) else one()
                    yield 1.0, ast.AugAssign(target, new, value)
            yield 3.0, ast.Assign([target], value, lineno=node.lineno)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            turned: list[tuple[type[ast.cmpop], type[ast.cmpop]]]
            turned = [(ast.Lt, ast.Gt), (ast.LtE, ast.GtE), (ast.Eq, ast.NotEq), (ast.Gt, ast.Lt)]
            turned += [(ast.GtE, ast.LtE), (ast.NotEq, ast.Eq), (ast.Lt, ast.LtE)]
            turned += [(ast.GtE, ast.Gt), (ast.Gt, ast.GtE), (ast.LtE, ast.Lt)]
            for old, new in turned:
                if isinstance(op, old):
                    yield 2.0, ast.Compare(left, [new()], [right])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield 2.0, ast.IfExp(test, orelse, body)
        case _:
            return


def turned_operator(node: ast.BinOp) -> Meant:
    """+ for -, and * for /."""
    for one, other in ((ast.Add, ast.Sub), (ast.Mult, ast.Div)):
        if isinstance(node.op, one | other):
            op = other() if isinstance(node.op, one) else one()
            yield 1.0, ast.BinOp(node.left, op, node.right)


def operands(node: ast.AST, reach: Reach | None = None) -> Meant:
    """A factor, a summand, a power too much; another power."""
    match node:
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            yield 1.5, left
            new = [f"({ast.unparse(right)}) + 1", f"({ast.unparse(right)}) - 1"]
            new += [ast.unparse(right.left)] if isinstance(right, ast.BinOp) else []
            if isinstance(right, ast.Constant):
                new = [x for x in ("2", "0.5", "3", "1.5", "4") if x != ast.unparse(right)]
            yield from ((2.5, ast.BinOp(left, ast.Pow(), expression(text))) for text in new)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=left, right=right):
            yield 2.0, left
            yield 2.0, right
        case ast.BinOp(op=ast.Div(), left=left):
            yield 2.0, left
        case _:
            return


def functions(node: ast.AST, reach: Reach | None = None) -> Meant:
    """Another function, none, exchanged arguments."""
    if not isinstance(node, ast.Call):
        return
    f, args = node.func, node.args
    name = f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")
    if name in TURNED:
        new = copy.deepcopy(f)
        setattr(new, "attr" if isinstance(f, ast.Attribute) else "id", TURNED[name])
        yield 1.4, ast.Call(new, args, node.keywords)
    if name in FREED:
        inner = args[:1] if args and not _is_method(node) else []
        if isinstance(f, ast.Attribute) and not inner:
            inner = [f.value]
        yield from ((2.0, x) for x in inner)
        yield from ((2.2, x) for x in args[1:2] if name in ("maximum", "max", "min", "minimum"))
    for i, j in combinations(range(min(len(args), 4)), 2):
        changed = list(args)
        changed[i], changed[j] = args[j], args[i]
        yield 1.5, ast.Call(f, changed, node.keywords)
    if isinstance(f, ast.Attribute) and name in ("append", "appendleft") and len(args) == 1:
        put = ast.Attribute(f.value, "insert", ast.Load())
        yield 1.0, ast.Call(put, [ast.Constant(0), *args], [])
    if isinstance(f, ast.Attribute) and name == "insert" and len(args) == 2:
        yield 1.0, ast.Call(ast.Attribute(f.value, "append", ast.Load()), args[1:], [])


def _is_method(node: ast.Call) -> bool:
    """Whether it is called on a value, as far as its text tells."""
    f = node.func
    return isinstance(f, ast.Attribute) and chain(f.value).split(".")[0] not in (
        "torch", "np", "numpy", "math", "F", "jnp", "cr", "nn", "chainrule",
    )  # fmt: skip


def axes(node: ast.AST, reach: Reach | None = None) -> Meant:
    """Another axis."""
    match node:
        case ast.keyword(arg="dim" | "axis", value=ast.Constant(value=int()) | ast.UnaryOp()):
            for i in (-1, 0, 1):
                yield 1.6, ast.keyword(node.arg, _number(i))
        case ast.Call(func=ast.Attribute(attr=attr), args=[*rest, last]) if (
            attr in _ALONG and len(rest) == (0 if _is_method(node) else 1) and _is_int(last)
        ):
            for i in (-1, 0, 1):
                yield 1.6, ast.Call(node.func, [*rest, _number(i)], node.keywords)
        case _:
            return


def _is_int(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and isinstance(inner.value, int)


def _number(i: int) -> ast.expr:
    return expression(str(i))


def places(node: ast.AST, reach: Reach | None = None) -> Meant:
    """Slices by one item, indices, an order turned round."""
    match node:
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=None)):
            for a, b in (("1", None), (None, "-1"), (None, None)):
                ends = [None if end is None else expression(end) for end in (a, b)]
                new = ast.Slice(*ends)
                yield 2.0, ast.Subscript(value, new, node.ctx)
            del lower, upper
        case ast.Subscript(value=value, slice=ast.Slice(step=ast.expr())):
            yield 1.5, value
        case ast.Subscript(value=value, slice=ast.Name() | ast.BinOp() | ast.Constant() as at):
            text = ast.unparse(at)
            new = [f"{text} + 1", f"{text} - 1"]
            if isinstance(at, ast.BinOp):
                new = [ast.unparse(at.left)]
            elif isinstance(at, ast.Constant):
                new = ["0", "-1", "1"] if isinstance(at.value, int) else []
            yield from ((2.2, ast.Subscript(value, expression(t), node.ctx)) for t in new)
        case ast.For(iter=over):
            text = ast.unparse(over)
            turned = text[9:-1] if text.startswith("reversed(") else f"reversed({text})"
            if text.endswith("[::-1]"):
                turned = text.removesuffix("[::-1]")
            loop = ast.For(node.target, expression(turned), node.body, node.orelse)
            loop.lineno = node.lineno
            yield 2.5, loop
        case _:
            return


def numbers(node: ast.AST, reach: Reach | None = None) -> Meant:
    """Another literal."""
    match node:
        case ast.Constant(value=bool()):
            yield 3.0, ast.Constant(not node.value)
        case ast.Constant(value=int() as n):
            yield from ((2.8, ast.Constant(x)) for x in (n + 1, n - 1, 0.5 * n) if x)
        case ast.Constant(value=float() as x):
            new = [2 * x, 0.5 * x, *([1 - x] if 0 < x < 1 else [])]
            yield from ((2.8, ast.Constant(n)) for n in new if n)
        case _:
            return


def expression(text: str) -> ast.expr:
    """The tree of a text."""
    return ast.parse(text, mode="eval").body


def expression_named(name: str) -> ast.expr:
    """A name, also of a dotted way."""
    return ast.Name(name, ast.Load())
