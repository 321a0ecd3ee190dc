"""Statements by which a script changes a parameter itself, without an optimizer.

`W -= lr * dW`, `p = p - rate * g`, `W += v` where `v = mu * v - lr * dW` stands before it,
`m[k] -= lr * mean / np.sqrt(square)`: what is taken off, without its rate, is the gradient that the
script claims. Rewritten, such a statement leaves the parameter as it is and hands over the gradient
(`slots.py`); all else runs as it stands.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from chainrule.verify.repair.values.watch import SEE
from chainrule.verify.script.byhand.claimed_gradient import claimed_gradient, is_held, mean_of
from chainrule.verify.trees import blocks

Tree = TypeVar("Tree", bound=ast.AST)
LEAVE = "__leave__"
"""What rewritten updates call."""
_ATS = {"add": 1, "subtract": -1}
"""`np.add.at` and its like."""


Put: TypeAlias = Callable[[ast.AST], object]
"""Puts another node in the place of one."""


@dataclass(frozen=True)
class Update:
    """A parameter that is changed, and the gradient that it is changed by."""

    target: ast.expr
    gradient: ast.expr
    index: ast.expr | None = None
    """Of the elements that are changed, where `np.add.at` changes them."""
    through: tuple[ast.stmt, ...] = ()
    """Statements between the two, as that of a momentum."""

    @property
    def written(self) -> str:
        """The target, as it is written."""
        return ast.unparse(self.target)


def updates_in(node: ast.AST) -> Iterator[Update]:
    """The updates below a node."""
    for _, update, _ in _found(node):
        yield update


def rewritten(tree: Tree, targets: Container[str] | None = None) -> Tree:
    """The tree, changed: updates hand over their gradients instead; those of some targets only, if
    it is said of which, as they are written."""
    for node, update, put in list(_found(tree)):
        if targets is None or update.written in targets:
            call = _call(update)
            made = ast.Expr(call) if isinstance(node, ast.stmt) else call
            for n in ast.walk(made):
                ast.copy_location(n, node)
            put(made)
    return tree


def handing_on(tree: ast.AST) -> list[ast.stmt]:
    """Statements that are updates by what stands elsewhere, `W -= lr * dW`; with those through
    which that goes down, `v = mu * v - lr * dW`."""
    found: list[ast.stmt] = []
    for node, u, _ in _found(tree):
        if isinstance(node, ast.stmt) and is_held(_positive(u.gradient)):
            found += [node, *(u.through if is_held(u.gradient) else ())]
    return found


def _positive(node: ast.expr) -> ast.expr:
    return node.operand if isinstance(node, ast.UnaryOp) else node


def _call(update: Update) -> ast.Call:
    """The call that takes the place of an update; it gives the parameter as it is."""
    target, gradient = update.target, update.gradient
    how, args = "value", [target, gradient]
    if isinstance(target, ast.Call):
        how, args = "attribute", [*target.args, gradient]
    elif update.index is not None:
        how, args = "at", [target, update.index, gradient]
    elif isinstance(target, ast.Subscript):
        how, args = "item", [target.value, _key(target.slice), gradient]
    elif isinstance(target, ast.Attribute):
        how, args = "attribute", [target.value, ast.Constant(target.attr), gradient]
    args = [ast.Constant(update.written), *[_watched(_loaded(a)) for a in args]]
    return ast.Call(ast.Attribute(ast.Name(LEAVE, ast.Load()), how, ast.Load()), args, [])


def _loaded(node: ast.expr) -> ast.expr:
    """A copy that is read."""
    node = copy.deepcopy(node)
    for n in ast.walk(node):
        if isinstance(n, ast.Name | ast.Attribute | ast.Subscript):
            n.ctx = ast.Load()
    return node


def _key(index: ast.expr) -> ast.expr:
    """An index as a value: `1:3` is a slice."""
    match index:
        case ast.Slice():
            ends = [e or ast.Constant(None) for e in (index.lower, index.upper, index.step)]
            return ast.Call(ast.Name("slice", ast.Load()), ends, [])
        case ast.Tuple():
            return ast.Tuple([_key(e) for e in index.elts], ast.Load())
        case _:
            return index


def _found(node: ast.AST) -> Iterator[tuple[ast.AST, Update, Put]]:
    """Nodes that are updates, and what puts something else in their places."""
    watched = any(isinstance(n, ast.Name) and n.id == SEE for n in ast.walk(node))
    bare = _bare if watched else _same
    for block in blocks(node):
        said = [bare(s) for s in block]
        own = [update_of(s, said[:i]) for i, s in enumerate(said)]
        inner = {id(s) for u in own if u is not None for s in u.through}
        for i, statement in enumerate(said):
            before, update = said[:i], own[i]
            if update is not None and id(statement) not in inner:
                yield block[i], update, _putter(block, i)
                continue
            for n, put in _own_expressions(block[i]):
                if (update := of_difference(bare(n), statement, before)) is not None:
                    yield n, update, put


def _same(node: Any) -> Any:
    return node


def _bare(node: Any) -> Any:
    """A copy of code that is watched, as its user wrote it; what is watched is its `origin`."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[_, inner]) if name == SEE:
            made = _bare(inner)
            made.origin = node
            return made
        case ast.AST():
            fields = {k: _bare(v) for k, v in ast.iter_fields(node)}
            return ast.copy_location(type(node)(**fields), node)
        case list():
            return [_bare(x) for x in cast("list[Any]", node)]
        case _:
            return node


def _watched(node: ast.expr) -> ast.expr:
    """A copy of it that is watched where its parts were."""
    origin = getattr(node, "origin", None)
    if origin is not None:
        return cast("ast.expr", origin)
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            setattr(node, name, _watched(value))
        elif isinstance(value, list):
            rows = cast("list[Any]", value)
            rows[:] = [_watched(x) if isinstance(x, ast.expr) else x for x in rows]
    return node


def _own_expressions(node: ast.AST) -> Iterator[tuple[ast.BinOp, Put]]:
    """Sums and differences in a statement, without those in statements of it."""
    for name, value in ast.iter_fields(node):
        rows = cast("list[Any]", value if isinstance(value, list) else [value])
        for i, row in enumerate(rows):
            if isinstance(row, ast.stmt | ast.ExceptHandler) or not isinstance(row, ast.AST):
                continue
            if isinstance(row, ast.BinOp):
                put = _putter(rows, i) if rows is value else partial(setattr, node, name)
                yield row, put
            yield from _own_expressions(row)


def _putter(block: list[Any], i: int) -> Put:
    return partial(block.__setitem__, i)


def update_of(statement: ast.stmt, before: Sequence[ast.stmt]) -> Update | None:
    """The update that a statement is, by `+=` or a call; `before` are those before it."""
    match statement:
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub() as op, value=value):
            sign = 1 if isinstance(op, ast.Add) else -1
            is_mean = mean_of(target, value) is not None
            return None if is_mean else _update(target, value, sign, before)
        case ast.Expr(value=ast.Call() as call):
            return _of_call(call, before)
        case _:
            return None


def _of_call(call: ast.Call, before: Sequence[ast.stmt]) -> Update | None:
    """`np.add.at(W, i, -lr * g)`, `W.sub_(lr * g)`, `W.add_(g, alpha=-lr)`."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr=("add" | "subtract") as name), attr="at"),
            args=[target, index, value],
        ):
            found = _update(target, value, _ATS[name], before)
            return None if found is None else replace(found, index=index)
        case ast.Call(func=ast.Attribute(value=target, attr=("add_" | "sub_") as name), args=[v]):
            sign = 1 if name == "add_" else -1
            for word in call.keywords:
                v = ast.copy_location(ast.BinOp(word.value, ast.Mult(), v), v)
            return _update(target, v, sign, before)
        case _:
            return None


def of_difference(node: ast.AST, statement: ast.stmt, before: Sequence[ast.stmt]) -> Update | None:
    """`p - lr * g`, wherever it stands; a sum only where it is what the parameter becomes."""
    match node:
        case ast.BinOp(left=target, op=ast.Sub(), right=value) if is_held(target):
            return _update(target, value, -1, before)
        case ast.BinOp(left=target, op=ast.Add(), right=value) if is_held(target):
            match statement:
                case ast.Assign(targets=[given]) if ast.unparse(given) == ast.unparse(target):
                    return _update(target, value, 1, before)
                case _:
                    return None
        case _:
            return None


def _update(
    target: ast.expr, step: ast.expr, sign: int, before: Sequence[ast.stmt]
) -> Update | None:
    """What a step is an update by; None if it is none."""
    through = list[ast.stmt]()
    gradient = claimed_gradient(target, step, sign, before, through)
    return None if gradient is None else Update(target, gradient, through=tuple(through))
