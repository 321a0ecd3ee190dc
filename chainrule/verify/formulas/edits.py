"""Small changes of an expression or a statement: what somebody may have meant who wrote it.

Changes are made of nodes of a statement, by kinds: another operator, other operands, a function
more or less, another axis, another name of the same kind, an order turned round. The first ones
are the likeliest.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TypeAlias, TypeVar, cast

from chainrule.verify.formulas.recording import chain

T = TypeVar("T", bound=ast.AST)
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


@dataclass(frozen=True)
class Kind:
    """What a name or an expression stands for."""

    library: str
    """"tensor", "array", "list" or "number"."""
    shape: tuple[int, ...] = ()
    elements: str = "float"
    """"float", "int" or "bool"."""
    least: float = float("-inf")
    most: float = float("inf")
    is_whole: bool = False
    """Whether it is made of counts, some of them more than 1."""

    @property
    def is_index(self) -> bool:
        """Whether it is a whole number of Python's, as indices and sizes are."""
        return self.library == "number" and self.elements == "int"

    @property
    def is_share(self) -> bool:
        """Whether all of it lies between 0 and 1."""
        return self.least >= 0 and self.most <= 1


@dataclass(frozen=True)
class Reach:
    """What an edit can put in: names in reach, and kinds of expressions, by their text."""

    names: Mapping[str, Kind]
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    numpy: str = ""
    """What NumPy is called."""

    def kind(self, node: ast.AST) -> Kind | None:
        """Of a node, where it is known."""
        text = ast.unparse(node)
        return self.names.get(text) or self.kinds.get(text)


@dataclass(frozen=True, eq=False)
class Edit:
    """A change of one node of a statement."""

    cost: float
    line: int
    root: ast.stmt
    node: ast.AST
    made: ast.AST
    """What stands in its place."""

    @cached_property
    def before(self) -> str:
        """The node."""
        return ast.unparse(self.node)

    @cached_property
    def after(self) -> str:
        """What it becomes."""
        return ast.unparse(self.made)

    @cached_property
    def statement(self) -> ast.stmt:
        """The statement as it is then."""
        return with_node(self.root, self.node, self.made)


def edits(statement: ast.stmt, reach: Reach) -> Iterator[Edit]:
    """Changes of a statement, in the order of its text."""
    for node in ast.walk(statement):
        line = getattr(node, "lineno", statement.lineno)
        for cost, made in meant(node, reach):
            yield Edit(cost, line, statement, node, made)
    yield from _exchanged(statement, reach)


def with_node(root: T, old: ast.AST, new: ast.AST) -> T:
    """A copy of a tree with another node in the place of one."""
    made = _Put(old, new).visit(root) if old is not root else copy.deepcopy(new)
    return cast("T", ast.fix_missing_locations(made))


class _Put(ast.NodeTransformer):
    """Copies the way to a node, and what is beside it is shared."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """The node, or a copy in which the other one stands."""
        if node is self._old:
            made = copy.deepcopy(self._new)
            for n in ast.walk(made):
                ast.copy_location(n, node)
            return made
        return self.generic_visit(copy.copy(node))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Lists are copied, too: `NodeTransformer` writes into them."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, list(cast("list[object]", value)))
        return super().generic_visit(node)


def _exchanged(statement: ast.stmt, reach: Reach) -> Iterator[Edit]:
    """Two names of one kind, each in the place of the other."""
    part = getattr(statement, "value", None)
    if not isinstance(part, ast.expr):
        return
    read = [n.id for n in ast.walk(part) if isinstance(n, ast.Name) and n.id in reach.names]
    for a, b in combinations(list(dict.fromkeys(read))[:_MOST_NAMES], 2):
        if _alike(reach.names[a], reach.names[b]):
            made = copy.deepcopy(part)
            for n in ast.walk(made):
                if isinstance(n, ast.Name) and n.id in (a, b):
                    n.id = b if n.id == a else a
            yield Edit(1.8, statement.lineno, statement, part, made)


def _alike(a: Kind, b: Kind) -> bool:
    """Whether one may have been taken for the other."""
    same = a.shape == b.shape or (len(a.shape) == len(b.shape) and 1 in (*a.shape, *b.shape))
    return same and a.elements == b.elements


def meant(node: ast.AST, reach: Reach) -> Meant:
    """What a node may have been meant to be."""
    for kind in _KINDS:
        yield from kind(node, reach)


def operators(node: ast.AST, reach: Reach | None = None) -> Meant:
    """+ and -, * and /, a sign, a comparison."""
    match node:
        case ast.BinOp(op=op, left=left, right=right):
            for one, other in ((ast.Add, ast.Sub), (ast.Mult, ast.Div)):
                if isinstance(op, one | other):
                    yield 1.0, ast.BinOp(left, other() if isinstance(op, one) else one(), right)
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
                new = ast.Slice(a and expression(a), b and expression(b))
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


def names(node: ast.AST, reach: Reach) -> Meant:
    """Another name of the same kind."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in reach.names:
        kind = reach.names[node.id]
        others = [n for n, k in reach.names.items() if n != node.id and _alike(kind, k)]
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
    late = list(reach.names)[-_LATE:]
    for name, other in reach.names.items():
        if other.shape and name not in late and not (other.is_share or other.is_whole):
            continue
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


def expression(text: str) -> ast.expr:
    """The tree of a text."""
    return ast.parse(text, mode="eval").body


def expression_named(name: str) -> ast.expr:
    """A name, also of a dotted way."""
    return ast.Name(name, ast.Load())


_KINDS: tuple[Callable[[ast.AST, Reach], Meant], ...] = (
    operators, operands, functions, axes, places, numbers, names, wraps, pairs, factors,
)  # fmt: skip
