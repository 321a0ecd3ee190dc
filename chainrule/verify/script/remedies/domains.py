"""Operations that have no finite value, or no finite slope, where they were evaluated.

First the stable form of what is computed, where the text shows one (the logarithm of a softmax is a
log_softmax); otherwise the argument is kept away from the place at which it goes wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.source import Piece, Source, called, nodes, statement_at
from chainrule.verify.training.text.edits import Edit

SMALL = "1e-8"
"""What is added to an argument that must not be 0: much less than any number that matters in
float32, and the root of it is no less than float32 resolves."""

_ABOVE_ZERO = ("{x} + " + SMALL, "{x}.clamp(min=" + SMALL + ")")
_WITHIN_ONE = ("{x}.clamp(-1 + 1e-6, 1 - 1e-6)",)
_ARGUMENTS = {
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal"), _ABOVE_ZERO),
    **dict.fromkeys(("pow", "div", "true_divide", "divide"), _ABOVE_ZERO),
    **dict.fromkeys(("acos", "asin", "arccos", "arcsin", "atanh", "arctanh"), _WITHIN_ONE),
    "log1p": ("{x}.clamp(min=-1 + 1e-6)",),
    "exp": ("{x}.clamp(max=80)",),  # e^80 and sums of many such are finite in float32
}
"""By name of a call: what to give it instead of x."""
_SECOND = ("div", "true_divide", "divide")
_FORMS = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}
_INFINITE = ("-torch.inf", "-math.inf", "-np.inf", "float('-inf')", "-float('inf')")


def domain(finding: Finding) -> Iterator[Edit | None]:
    """Changes of the line at which the first number went bad."""
    if (found := statement_at(finding.place)) is None:
        return
    source, statement = found
    for node in _by_name(statement, finding.subject):
        yield from (source.with_pieces([p]) for p in _stable(source, node))
    apart = [list(_kept_away(source, n)) for n in _by_name(statement, finding.subject)]
    for pieces in apart:
        yield from (source.with_pieces([p]) for p in pieces)
    yield source.with_pieces([pieces[-1] for pieces in apart if pieces])
    yield source.with_pieces([(n, "-1e9") for n in ast.walk(source.scope) if _text(n) in _INFINITE])


def _by_name(statement: ast.stmt, op: str) -> list[ast.AST]:
    """Calls, quotients and powers of a statement; those that are called as the op is, first."""
    found = [n for n in ast.walk(statement) if isinstance(n, ast.Call | ast.BinOp)]
    return sorted(found, key=lambda n: _name(n) not in op.lower() if _name(n) else 2)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.BinOp):
        return {"Div": "div", "Pow": "pow"}.get(type(node.op).__name__, "")
    return called(node)


def _stable(source: Source, node: ast.AST) -> Iterator[Piece]:
    """Another form of the same value."""
    x = _argument(source, node)
    if x is None:
        return
    inner = source.made(x)
    if called(node) == "log" and called(inner) in _FORMS:
        yield node, _renamed(inner, called(inner), _FORMS[called(inner)])
    if called(node) == "log" and called(inner) == "sum" and isinstance(inner, ast.Call):
        summed = _argument(source, inner)
        exp = source.made(summed) if summed is not None else None
        of = _argument(source, exp) if exp is not None and called(exp) == "exp" else None
        rest = [_text(a) for a in _others(source, inner)]
        if of is not None and rest:
            yield node, f"torch.logsumexp({', '.join([_text(of), *rest])})"
    if called(node) == "exp":
        yield from _shifted(source, node, x)


def _shifted(source: Source, node: ast.AST, x: ast.AST) -> Iterator[Piece]:
    """An exponential that is divided by its sum may be shifted: nothing else changes."""
    for quotient in nodes(source.scope, ast.BinOp, lambda n: isinstance(n.op, ast.Div)):
        total = source.made(quotient.right)
        if called(total) != "sum" or not isinstance(total, ast.Call):
            continue
        summed = _argument(source, total)
        same = summed is not None and _text(summed) == _text(quotient.left)
        if same and (_text(quotient.left) == _text(node) or _is_named(source, quotient.left, node)):
            axes = ", ".join([_text(a) for a in _others(source, total)])
            largest = f".amax({axes})" if axes else ".max()"
            yield x, f"{_closed(x)} - {_closed(x)}{largest}"


def _is_named(source: Source, name: ast.AST, node: ast.AST) -> bool:
    """Whether the name is given to what the node computes."""
    given = [s for s in ast.walk(source.scope) if isinstance(s, ast.Assign) and s.value is node]
    return any(_text(t) == _text(name) for s in given for t in s.targets)


def _kept_away(source: Source, node: ast.AST) -> Iterator[Piece]:
    """The node with its argument moved."""
    if isinstance(node, ast.BinOp):
        x = node.right if isinstance(node.op, ast.Div) else node.left
        if _name(node):
            yield from ((x, f"({form.format(x=_closed(x))})") for form in _ABOVE_ZERO)
        return
    x = _argument(source, node)
    if x is not None and called(node) in _SECOND and isinstance(node, ast.Call):
        rest = _others(source, node)
        x = rest[0].value if rest else None
    if x is not None:
        wraps = isinstance(node, ast.Call) and x in node.args
        for form in _ARGUMENTS.get(called(node), ()):
            new = form.format(x=_closed(x))
            yield x, new if wraps or not new.startswith(_text(x) + " ") else f"({new})"


def _argument(source: Source, node: ast.AST) -> ast.expr | None:
    """The x of `torch.f(x)` and of `x.f()`."""
    if not isinstance(node, ast.Call):
        return None
    f = node.func
    if isinstance(f, ast.Attribute) and not _is_module(source, f.value):
        return f.value
    return node.args[0] if node.args else None


def _others(source: Source, node: ast.Call) -> list[ast.keyword]:
    """All arguments but x, those by position without a name."""
    method = isinstance(node.func, ast.Attribute) and not _is_module(source, node.func.value)
    rest = node.args if method else node.args[1:]
    return [*[ast.keyword(None, a) for a in rest], *node.keywords]


def _is_module(source: Source, node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in source.modules


def _renamed(node: ast.AST, old: str, new: str) -> str:
    """A call of another function of the same place; logsigmoid is in `functional` only."""
    if new == "logsigmoid" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        x = node.args[0] if node.args else node.func.value
        return f"torch.nn.functional.logsigmoid({_text(x)})"
    head, _, tail = _text(node).rpartition(old + "(")
    return f"{head}{new}({tail}"


def _closed(node: ast.AST) -> str:
    """Its text, in brackets where it needs them."""
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return _text(node) if plain else f"({_text(node)})"


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.keyword):
        return f"{node.arg}={_text(node.value)}" if node.arg else _text(node.value)
    return ast.unparse(node) if isinstance(node, ast.expr) else ""
