"""Operations that have no finite value, or no finite slope, where they were evaluated.

First the stable form of what is computed, where the text shows one (the logarithm of a softmax is a
log_softmax); otherwise the argument is kept away from the place at which it goes wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.patterns import fits_of_rows, is_method
from chainrule.verify.script.remedies.rewrites import AWAY, STABLE
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Piece, Source, called_name, nodes, statement_at

_INFINITE = ("-torch.inf", "-math.inf", "-np.inf", "float('-inf')", "-float('inf')")


def keep_in_domain(finding: Finding) -> Iterator[Edit | None]:
    """Changes of the line at which the first number went bad."""
    if (found := statement_at(finding.place)) is None:
        return
    source, statement = found
    some = _by_name(statement, finding.subject)
    for node in some:
        pieces = [*fits_of_rows(source, [node], STABLE), *_shift_exponents(source, node)]
        yield from (source.with_pieces([p]) for p in pieces)
    apart = [list(fits_of_rows(source, [n], AWAY)) for n in some]
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
    return called_name(node)


def _shift_exponents(source: Source, node: ast.AST) -> Iterator[Piece]:
    """An exponential that is divided by its sum may be shifted: nothing else changes."""
    x = _argument(source, node) if called_name(node) == "exp" else None
    for quotient in nodes(source.scope, ast.BinOp, lambda n: isinstance(n.op, ast.Div)):
        total = source.made(quotient.right)
        if x is None or called_name(total) != "sum" or not isinstance(total, ast.Call):
            continue
        summed = _argument(source, total)
        same = summed is not None and _text(summed) == _text(quotient.left)
        if same and (_text(quotient.left) == _text(node) or _is_named(source, quotient.left, node)):
            rest = total.args if is_method(source, total) else total.args[1:]
            axes = ", ".join([_text(a) for a in [*rest, *total.keywords]])
            largest = f".amax({axes})" if axes else ".max()"
            closed = _text(x) if isinstance(x, ast.Name | ast.Call) else f"({_text(x)})"
            yield x, f"{closed} - {closed}{largest}"


def _is_named(source: Source, name: ast.AST, node: ast.AST) -> bool:
    """Whether the name is given to what the node computes."""
    given = [s for s in ast.walk(source.scope) if isinstance(s, ast.Assign) and s.value is node]
    return any(_text(t) == _text(name) for s in given for t in s.targets)


def _argument(source: Source, node: ast.AST) -> ast.expr | None:
    """The x of `torch.f(x)` and of `x.f()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=x)) if is_method(source, node):
            return x
        case ast.Call(args=[x, *_]):
            return x
        case _:
            return None


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.expr | ast.keyword) else ""
