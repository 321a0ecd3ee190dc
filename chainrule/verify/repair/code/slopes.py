"""Derivatives of what statements assign, element by element, as text in the statements' own names.

`loss = a * f(x)` gives d loss / d x as the terms of the product rule: what a backward that computes
it by hand is made of. Sums and bounds are passed through: they weigh elements, and change no text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain

from chainrule.verify.repair.code.parentheses import MUL, POW, UNARY, called, operand
from chainrule.verify.repair.code.syntax import names_in
from chainrule.verify.trees import tree_of

OF_FUNCTIONS = {
    "exp": "{y}",
    "log": "1 / {x}",
    "log1p": "1 / (1 + {x})",
    "log2": "1 / (0.6931471805599453 * {x})",
    "log10": "1 / (2.302585092994046 * {x})",
    "expm1": "{f}exp({x})",
    "sqrt": "0.5 / {y}",
    "square": "2 * {x}",
    "tanh": "1 - {y} ** 2",
    "sigmoid": "{y} * (1 - {y})",
    "sin": "{f}cos({x})",
    "cos": "-{f}sin({x})",
    "tan": "1 + {y} ** 2",
    "sinh": "{f}cosh({x})",
    "cosh": "{f}sinh({x})",
    "arctan": "1 / (1 + {x} ** 2)",
    "atan": "1 / (1 + {x} ** 2)",
    "arcsin": "1 / {f}sqrt(1 - {x} ** 2)",
    "asin": "1 / {f}sqrt(1 - {x} ** 2)",
    "reciprocal": "-({y} ** 2)",
    "abs": "{f}sign({x})",
}
"""By the name of a function: dy/dx of y = f(x), as people write it; the table of ops has it as it
is best computed. `{f}` is where the code has the function from."""
_PASSING = ("sum", "mean", "clip", "clamp", "clamp_min", "clamp_max", "float", "contiguous")
_CONSTANT = ("T", "mT", "shape", "ndim", "size", "pi", "inf", "nan")
"""Attributes that are no variable."""
_MOST_TERMS = 6
"""Of one derivative: longer ones are no slip of a term."""


@dataclass(frozen=True)
class Slope:
    """A derivative of one name by another, as terms that add up to it."""

    of: str
    by: str
    terms: tuple[str, ...]

    @property
    def whole(self) -> str:
        """The sum of its terms."""
        return " + ".join(self.terms).replace("+ -", "- ")


@cache
def slopes(text: str) -> tuple[Slope, ...]:
    """The derivatives of all that the statements of a text assign, by the names that they read."""
    found = dict[Slope, None]()
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Assign(targets=[target], value=value) if is_variable(target):
                pairs = [(target, value)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=False))
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                pairs = [(target, value)]
            case _:
                continue
        for target, value in pairs:
            found |= dict.fromkeys(_of_statement(target, value))
    return tuple(found)


def is_variable(node: ast.AST) -> bool:
    """Whether a node names something that a derivative is taken by: `x`, `self.w`, `h[t - 1]`."""
    match node:
        case ast.Attribute():
            return node.attr not in _CONSTANT and is_variable(node.value)
        case ast.Subscript():
            return is_variable(node.value)
        case _:
            return isinstance(node, ast.Name)


def _of_statement(target: ast.expr, value: ast.expr) -> Iterator[Slope]:
    own = ast.unparse(target)
    if isinstance(value, ast.Constant | ast.Name | ast.Attribute | ast.Subscript):
        return
    for x in dict.fromkeys(map(ast.unparse, _variables(value))):
        try:
            terms = [str(t) for t in _collected(_terms(value, x))]
        except _UnknownError:
            continue
        if isinstance(value, ast.Call):  # What has a name is read by it, not computed again.
            terms = [t.replace(ast.unparse(value), own) for t in terms]
        if 0 < len(terms) <= _MOST_TERMS and terms != ["1"]:
            yield Slope(own, x, tuple(terms))


def _variables(node: ast.AST) -> Iterator[ast.expr]:
    """What a value is computed of, by name, without functions and indices."""
    if is_variable(node):
        assert isinstance(node, ast.expr)
        yield node
    elif isinstance(node, ast.Call):
        of_module = called(node) in OF_FUNCTIONS and bool(node.args)
        own = [] if of_module or not isinstance(node.func, ast.Attribute) else [node.func.value]
        yield from chain.from_iterable(map(_variables, [*own, *node.args]))
    else:
        yield from chain.from_iterable(map(_variables, ast.iter_child_nodes(node)))


class _UnknownError(Exception):
    """An expression of which no derivative is known."""


@dataclass(frozen=True)
class _Product:
    """A term: a number, numerators, divisors."""

    number: float = 1.0
    factors: tuple[str, ...] = ()
    divisors: tuple[str, ...] = ()

    def times(self, text: str) -> _Product:
        """With a factor behind the others; numbers are multiplied."""
        if text.startswith("-") and isinstance(ast.parse(text, mode="eval").body, ast.UnaryOp):
            return self.negated().times(text[1:])
        number = _number(text)
        if number is not None:
            return replace(self, number=self.number * number)
        return replace(self, factors=(*self.factors, text))

    def after(self, text: str) -> _Product:
        """With a factor before the others."""
        made = self.times(text)
        return replace(made, factors=(*made.factors[-1:], *made.factors[:-1]))

    def over(self, text: str) -> _Product:
        """Divided."""
        return replace(self, divisors=(*self.divisors, text))

    def negated(self) -> _Product:
        """With the other sign."""
        return replace(self, number=-self.number)

    def __str__(self) -> str:
        size = f"{abs(self.number):g}"
        parts = [*([size] if size != "1" or not self.factors else []), *self.factors]
        sign = "-" if self.number < 0 else ""
        if len(parts) > 1 or sign or self.divisors:
            parts = [operand(p, MUL) for p in parts]
        return (
            sign + " * ".join(parts) + "".join([f" / {operand(d, MUL + 1)}" for d in self.divisors])
        )


def _collected(terms: list[_Product]) -> Iterator[_Product]:
    """Terms, equal ones as one."""
    alike = dict[tuple[object, object], list[_Product]]()
    for t in terms:
        alike.setdefault((tuple(sorted(t.factors)), t.divisors), []).append(t)
    for same in alike.values():
        yield replace(same[0], number=sum([t.number for t in same]))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _terms(node: ast.expr, x: str) -> list[_Product]:
    """What adds up to the derivative of an expression by x; raises `_UnknownError`."""
    text = ast.unparse(node)
    if text == x:
        return [_Product()]
    if not names_in(ast.parse(x)) <= names_in(node) or x not in text:
        return []
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return [t.negated() for t in _terms(inner, x)]
        case ast.BinOp(op=ast.Add(), left=a, right=b):
            return _terms(a, x) + _terms(b, x)
        case ast.BinOp(op=ast.Sub(), left=a, right=b):
            return _terms(a, x) + [t.negated() for t in _terms(b, x)]
        case ast.BinOp(op=ast.Mult(), left=a, right=b):
            one, other = ast.unparse(a), ast.unparse(b)
            left = [t.times(other) for t in _terms(a, x)]
            return left + [t.after(one) for t in _terms(b, x)]
        case ast.BinOp(op=ast.Div(), left=a, right=b):
            return [t.over(ast.unparse(b)) for t in _terms(a, x)] + _of_divisor(a, b, x)
        case ast.BinOp(op=ast.Pow(), left=a, right=b):
            return _of_power(a, b, x)
        case ast.Call():
            return _of_call(node, x)
        case _:
            raise _UnknownError


def _of_divisor(a: ast.expr, b: ast.expr, x: str) -> list[_Product]:
    square = f"{operand(ast.unparse(b), POW + 1)} ** 2"
    return [t.after(ast.unparse(a)).over(square).negated() for t in _terms(b, x)]


def _of_power(a: ast.expr, b: ast.expr, x: str) -> list[_Product]:
    if _terms(b, x):
        raise _UnknownError
    base, n = operand(ast.unparse(a), POW + 1), ast.unparse(b)
    match b:
        case ast.Constant(value=int() | float() as k):
            less = base if k == 2 else f"{base} ** {operand(f'{k - 1:g}', UNARY)}"
        case _:
            less = f"{base} ** ({n} - 1)"
    return [t.after(less).after(n) for t in _terms(a, x)]


def _of_call(node: ast.Call, x: str) -> list[_Product]:
    """The chain rule through a function of each element: `np.exp(x)`, `x.exp()`."""
    name, f, (inner, *others) = called(node), "", (*node.args, ast.Constant(0))
    match node.func:
        case ast.Attribute(value=owner) if x in ast.unparse(owner):
            inner, others = owner, [ast.Constant(0), *node.args]
        case ast.Attribute(value=owner):
            f = f"{ast.unparse(owner)}."
        case _:
            pass
    if name in _PASSING and not any(x in ast.unparse(o) for o in others):
        return _terms(inner, x)
    if name not in OF_FUNCTIONS or len(others) != 1 or node.keywords:
        raise _UnknownError
    at = operand(ast.unparse(inner), MUL + 1)
    row = OF_FUNCTIONS[name].format(y=ast.unparse(node), x=at, f=f)
    if row.startswith("1 / "):
        return [t.over(row.removeprefix("1 / ")) for t in _terms(inner, x)]
    return [t.times(row) for t in _terms(inner, x)]
