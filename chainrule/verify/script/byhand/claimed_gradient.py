"""The gradient in what an update adds to a parameter, as far as the text tells.

What is called a rate is taken off, and numbers before it and roots below it; what an optimizer of
the script's own keeps (`v = mu * v - lr * dW`, a mean of gradients) is followed to what it is made
of.

Notation: an update adds `sign * step` to its target.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TypeAlias, cast

_RATE = re.compile(
    r"(^|_)(lr|lrate|rate|eta|alpha|stepsize|step_size|η|α)(_?[a-z0-9])?$", re.IGNORECASE
)
_GRADIENT = re.compile(r"^(d|D|g|nabla)(_|[A-Z0-9]|$)|^d[a-z]{1,6}\d?$|grad|delta|∇|_bar$")
"""What gradients are called."""
_SHARE = re.compile(
    r"^(b|beta|β|mu|μ|rho|ρ|gamma|γ|alpha|tau|mom|momentum|decay|m|betas)(_?[a-z0-9]+)?$",
    re.IGNORECASE,
)
"""What a mean keeps of what it was, by its name."""
_FOLLOWED = 4
"""Names that are followed from an update to its gradient: Adam's mean, the mean, the gradient."""
_PRODUCT = ast.Mult | ast.Div | ast.MatMult

Claimed: TypeAlias = tuple[ast.expr, int, bool]
"""A gradient, the sign with which it is added, and whether it has a rate."""


def claimed_gradient(
    target: ast.expr, step: ast.expr, sign: int, before: Sequence[ast.stmt], through: list[ast.stmt]
) -> ast.expr | None:
    """The gradient by which a step changes its target; None if it has no rate, and nothing in it is
    called like a gradient. `before`: the statements that stand before it in its block. `through`
    gets those of them that it is followed through."""
    if sign > 0 and _approached(step, ast.unparse(target)) is not None:
        return None  # a mean of what it approaches
    found = _gradient(step, sign, before, through)
    if found is None or _RATE.search(_last(target)):
        return None
    gradient, sign, has_rate = found
    other = _is_called_gradient(target) and not _is_beside(target, gradient)
    if not has_rate and (sign > 0 or other):
        return None
    if not (has_rate or _is_gradient(gradient) or _is_of(target, gradient)):
        return None
    made = gradient if sign < 0 else ast.UnaryOp(ast.USub(), gradient)
    return ast.copy_location(made, step)


def _gradient(
    step: ast.expr, sign: int, before: Sequence[ast.stmt], through: list[ast.stmt]
) -> Claimed | None:
    """The gradient in a step."""
    match step:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _gradient(operand, -sign, before, through)
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
            one, other = (_gradient(x, 1, before, through) for x in (left, right))
            turned = -1 if isinstance(op, ast.Sub) else 1
            return _sum(step, sign, one, other, turned)
        case _:
            core, turned, has_rate = _strip_rate(step)
    sign *= turned
    source = _definition(core, before) if len(through) < _FOLLOWED and is_held(core) else None
    if source is not None:
        through.append(before[len(source[2])])
        further = _gradient(source[0], sign * source[1], source[2], through)
        if further is not None:
            return further[0], further[1], True
        return source[0], sign * source[1], has_rate
    return _followed_factors(core, before, through), sign, has_rate


def _followed_factors(
    core: ast.expr, before: Sequence[ast.stmt], through: list[ast.stmt]
) -> ast.expr:
    """A product, with what an optimizer keeps (`v / n`) followed to the gradient that it adds."""
    match core:
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _PRODUCT):
            sides = [_followed_factors(x, before, through) for x in (left, right)]
            return ast.copy_location(ast.BinOp(sides[0], op, sides[1]), core)
        case _:
            source = _definition(core, before) if is_held(core) else None
            if source is None or len(through) >= _FOLLOWED:
                return core
            through.append(before[len(source[2])])
            return source[0] if source[1] > 0 else ast.UnaryOp(ast.USub(), source[0])


def _sum(
    step: ast.expr, sign: int, one: Claimed | None, other: Claimed | None, turned: int
) -> Claimed | None:
    """Of two terms: that with a rate, or both of them."""
    if one is None or other is None:
        return None
    if one[2] and other[2]:
        op = ast.Add() if one[1] == other[1] * turned else ast.Sub()
        return ast.copy_location(ast.BinOp(one[0], op, other[0]), step), sign * one[1], True
    if one[2]:
        return one[0], sign * one[1], True
    return (other[0], sign * other[1] * turned, True) if other[2] else None


def _strip_rate(step: ast.expr) -> tuple[ast.expr, int, bool]:
    """A product without its rates, numbers before it, and roots below it; a sign; whether a rate
    was there."""
    sign, has_rate = 1, False

    def kept(node: ast.expr) -> ast.expr | None:
        nonlocal sign, has_rate
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                sign = -sign
                return kept(operand)
            case ast.BinOp(op=ast.Div(), left=left, right=right) if _is_root(right):
                return kept(left)
            case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _PRODUCT):
                one, other = kept(left), kept(right)
                if isinstance(op, ast.Div) and one is None and other is not None:
                    one = ast.Constant(1.0)
                if one is None or other is None:
                    return one or other
                return ast.copy_location(ast.BinOp(one, op, other), node)
            case _ if is_held(node) and _RATE.search(_last(node)):
                has_rate = True
                return None
            case _ if _is_share(node):
                return None
            case _:
                return node

    core = kept(step)
    if core is not None and not has_rate:
        core = _strip_number(core)
    return core if core is not None else step, sign, has_rate


def _strip_number(node: ast.expr) -> ast.expr:
    """`0.1 * g` is `g`, and so is `L * dw`, where a rate is called so."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(), right=right):
            return right
        case ast.BinOp(op=ast.Mult(), left=ast.Name() as left, right=right) if is_held(right):
            mine = _is_called_gradient(right) and not _is_called_gradient(left)
            return right if mine else node
        case ast.BinOp(op=op, left=ast.BinOp() as left, right=right) if isinstance(op, _PRODUCT):
            return ast.copy_location(ast.BinOp(_strip_number(left), op, right), node)
        case _:
            return node


def _definition(
    core: ast.expr, before: Sequence[ast.stmt]
) -> tuple[ast.expr, int, Sequence[ast.stmt]] | None:
    """What an optimizer's own value was made of: `v` of `v = mu * v - lr * g` or `v += g`, `mean`
    of `mean / (1 - beta ** t)`. Its sign, and what stands before that."""
    name = ast.unparse(core)
    for i in range(len(before) - 1, -1, -1):
        match before[i]:
            case ast.AugAssign(target=target, op=ast.Add() | ast.Sub() as op, value=value):
                mean = _approached(value, name) if isinstance(op, ast.Add) else None
                found = mean or value, 1 if isinstance(op, ast.Add) else -1
            case ast.Assign(targets=[target], value=value):
                found = _other_term(value, name)
            case _:
                continue
        if ast.unparse(_whole(target)) == name:
            is_own = found is not None and (_has_rate(found[0]) or not _is_called_gradient(core))
            return (found[0], found[1], before[:i]) if is_own and found is not None else None
    return None


def _approached(step: ast.expr, name: str) -> ast.expr | None:
    """`g` of `share * (g - m)`, which is added to `m`: a mean, as `m = beta * m + share * g` is."""
    match step:
        case ast.BinOp(op=ast.Sub(), left=left, right=right) if ast.unparse(right) == name:
            return left
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, ast.Mult | ast.Div):
            return _approached(left, name) or _approached(right, name)
        case _:
            return None


def _whole(target: ast.expr) -> ast.expr:
    """`v` of `v[...] = ` and `v[:] = `."""
    match target:
        case ast.Subscript(value=value, slice=ast.Constant(value=x)) if x is Ellipsis:
            return value
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=None, step=None)):
            return value
        case _:
            return target


def _other_term(value: ast.expr, name: str) -> tuple[ast.expr, int] | None:
    """The term of a sum that is not the value before; what is only scaled, or has a rate."""
    match value:
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
            turned = -1 if isinstance(op, ast.Sub) else 1
            if name in _subexpressions(left):
                inner = None if _is_product(left) else _other_term(left, name)
                if inner is None:
                    return right, turned
                join = ast.Add() if inner[1] == turned else ast.Sub()
                return ast.copy_location(ast.BinOp(inner[0], join, right), value), inner[1]
            return (left, 1) if name in _subexpressions(right) else None
        case ast.BinOp(op=ast.Div(), left=left, right=right) if is_held(left):
            return (left, 1) if _is_share(right) or _is_root(right) else None
        case _:
            return (value, 1) if _has_rate(value) else None


def _is_product(node: ast.expr) -> bool:
    return not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub))


def _subexpressions(node: ast.AST) -> set[str]:
    return {ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.expr)}


def _has_rate(node: ast.AST) -> bool:
    simple = [n for n in ast.walk(node) if isinstance(n, ast.expr) and is_held(n)]
    return any(_RATE.search(_last(n)) for n in simple)


def _is_share(node: ast.AST) -> bool:
    """`1 - beta`, `1 - beta ** t`; the slope `1 - h ** 2`, or `1 - s`, is none."""
    match node:
        case ast.BinOp(op=ast.Sub(), left=ast.Constant(value=1 | 1.0), right=right):
            part = right.left if isinstance(right, ast.BinOp) else right
            return isinstance(part, ast.Constant) or _SHARE.search(_last(part)) is not None
        case _:
            return False


def _is_root(node: ast.AST) -> bool:
    text = ast.unparse(node)
    return "sqrt" in text or "** 0.5" in text


def _is_called_gradient(node: ast.expr) -> bool:
    return _GRADIENT.search(_last(node)) is not None


def _is_gradient(node: ast.AST) -> bool:
    simple = [n for n in ast.walk(node) if isinstance(n, ast.expr) and is_held(n)]
    return any(map(_is_called_gradient, simple))


def _is_beside(target: ast.expr, gradient: ast.expr) -> bool:
    """Whether one object has both: `p.data` and `p.grad`."""
    match target, gradient:
        case ast.Attribute(value=a, attr=own), ast.Attribute(value=b, attr=other):
            return own != other and ast.unparse(a) == ast.unparse(b)
        case _:
            return False


def _is_of(target: ast.expr, gradient: ast.expr) -> bool:
    """Whether a gradient is called by its parameter: `gk` of `k`, `slope_b` of `b`."""
    own, said = _last(target), _last(gradient)
    return bool(own) and re.fullmatch(rf"(g|d|\w+_){re.escape(own)}", said) is not None


def is_held(node: ast.AST) -> bool:
    """Whether a node only names something: `W`, `self.W`, `grads[k]`, `getattr(self, name)`."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=value) | ast.Subscript(value=value):
            return is_held(value)
        case ast.Call(func=ast.Name("getattr"), args=[_, _]):
            return True
        case _:
            return False


def _last(node: ast.expr) -> str:
    """The name that says what something is: `lr` of `self.lr` and `settings["lr"]`, `grads` of
    `grads[k]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(name)):
            return str(name) if isinstance(name, str) else _last(cast("ast.Subscript", node).value)
        case ast.Subscript(value=value):
            return _last(value)
        case _:
            return ""  # no name says it
