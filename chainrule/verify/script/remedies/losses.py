"""What losses and ops are given: what they expect, arguments in their domain, one mean.

First the stable form of what is computed, where the text shows one (the logarithm of a softmax is a
log_softmax); otherwise the argument is kept away from the place at which it goes wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.patterns import Rewrite, Row, fits_of_rows, is_method
from chainrule.verify.script.remedies.rewrites import AWAY, STABLE
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Piece, Source, called_name, nodes

_LAYERS = {"softmax": "Softmax", "sigmoid": "Sigmoid"}
_LOGARITHMS: tuple[Row, ...] = (
    ("softmax(X, *A)", "log_softmax(X, *A)"), ("X.Softmax", "X.LogSoftmax"),
)  # fmt: skip
_BARE: tuple[Row, ...] = (("softmax(X, *A)", "X"), ("sigmoid(X)", "X"))
_SWAPS: dict[str, tuple[Row, ...]] = {
    "nll_loss": (("nll_loss(X, *A)", "cross_entropy(X, *A)"), ("X.NLLLoss", "X.CrossEntropyLoss")),
    "cross_entropy": (
        ("cross_entropy(X, *A)", "nll_loss(torch.log(X), *A)"),
    ),
    "binary_cross_entropy_with_logits": (
        ("binary_cross_entropy_with_logits(X, *A)", "binary_cross_entropy(X, *A)"),
        ("X.BCEWithLogitsLoss", "X.BCELoss"),
    ),
    "poisson_nll_loss": (
        ("poisson_nll_loss(X, Y)", "poisson_nll_loss(X, Y, log_input=False)"),
        ("PoissonNLLLoss()", "PoissonNLLLoss(log_input=False)"),
    ),
}  # fmt: skip
"""By loss: another one for what it is given."""
_NAMED = re.compile(r"`(\w+)` expects")


def expected(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """Changes of what makes the prediction, then of the loss."""
    if (said := _NAMED.search(finding.name.because)) is None:
        return
    loss, unscaled = said[1], "above 0" in finding.name.because
    if not unscaled:
        rows = _LOGARITHMS if loss in ("nll_loss", "kl_div") else _BARE
        yield from _each(source, rows)
        yield from () if rows is _LOGARITHMS else _layers(source)
    yield from Rewrite(_SWAPS.get(loss, ()))(source, finding)


def _each(source: Source, rows: tuple[Row, ...]) -> Iterator[Edit | None]:
    """Where one fits, on the line first, then elsewhere."""
    some = sorted(nodes(source.tree, ast.expr), key=lambda n: n.lineno != source.place.line)
    yield from (source.with_pieces([piece]) for piece in fits_of_rows(source, some, rows))


def _layers(source: Source) -> Iterator[Edit | None]:
    """`nn.Softmax(dim=1)` as a layer that does nothing."""
    for call in nodes(source.tree, ast.Call):
        if called_name(call) in _LAYERS.values() and isinstance(call.func, ast.Attribute):
            of = source.text(call.func.value)
            yield source.with_pieces([(call, f"{of}.Identity()")])


def along(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """A softmax along the other axis."""
    advice = finding.correction.formula if finding.correction is not None else ""
    if (said := re.search(r"along axis (\d+)$", advice)) is None:
        return
    on_line = nodes(source.tree, ast.Call, lambda n: n.lineno == source.place.line)
    for call in [c for c in on_line if called_name(c) in ("softmax", "log_softmax")]:
        named = [k.value for k in call.keywords if k.arg in ("dim", "axis")]
        plain = [a for a in call.args if isinstance(a, ast.Constant | ast.UnaryOp)]
        for node in [*named, *plain[-1:]]:
            yield source.with_pieces([(node, said[1])])


_INFINITE = ("-torch.inf", "-math.inf", "-np.inf", "float('-inf')", "-float('inf')")


def keep_in_domain(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """Changes of the line at which the first number went bad."""
    if (statement := source.statement()) is None:
        return
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


_FUNCTIONS = ("cross_entropy", "nll_loss")
_CLASSES = ("CrossEntropyLoss", "NLLLoss")
_IGNORED = "-100"
"""What PyTorch's losses leave out if nothing else is said."""


def one_mean(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """In `for x, y in batches:` a mean that is divided by `len(batches)` becomes a sum that is
    divided by the number of elements in all of them."""
    for loop in source.around(ast.For):
        element, batches = _header(loop)
        for n in nodes(loop, ast.BinOp, lambda n: isinstance(n.op, ast.Div)):
            if source.text(n.right) == f"len({source.text(batches)})":
                new = _as_share_of_sum(source, loop, n.left, f"{source.text(element)} in", batches)
                pieces: list[Piece] = [(n, new)] if new else []
                yield source.with_pieces(pieces)


def _header(loop: ast.For) -> tuple[ast.expr, ast.expr]:
    """What stands for one of the batches, and for all."""
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[_, one]),
            iter=ast.Call(func=ast.Name(id="enumerate"), args=[every, *_]),
        ):
            return one, every
        case _:
            return loop.target, loop.iter


def _as_share_of_sum(
    source: Source, loop: ast.For, mean: ast.expr, each: str, batches: ast.expr
) -> str:
    """A mean as a share of the sum over all batches; empty if its count is not known."""
    count, upper = "", ""
    match mean:
        case ast.BinOp(left=above, op=ast.Div(), right=by):
            count, upper = _of_batch(source, loop, by), source.text(above)
        case ast.Call(args=[_, target]) if left_out := _ignored_target(source, mean):
            goal = _of_batch(source, loop, target)
            count = f"({goal} != {left_out}).sum()" if goal else ""
            if called_name(mean) in _FUNCTIONS:
                upper = f'{source.text(mean)[:-1]}, reduction="sum")'
            else:
                upper = f"{source.text(mean)} * {count}"
        case _:
            pass
    return f"{upper} / sum({count} for {each} {source.text(batches)})" if count else ""


def _ignored_target(source: Source, call: ast.Call) -> str:
    """The target that a loss leaves out, as its call, or the call that made it, says; empty if that
    is not known."""
    made = source.made(call.func)
    said = call if called_name(call) in _FUNCTIONS else made
    if not isinstance(said, ast.Call) or called_name(said) not in (*_FUNCTIONS, *_CLASSES):
        return ""
    words = {k.arg: k.value for k in said.keywords}
    left_out = words.pop("ignore_index", None)
    return "" if words else _IGNORED if left_out is None else source.text(left_out)


def _of_batch(source: Source, loop: ast.For, value: ast.expr) -> str:
    """An expression in terms of one batch alone; empty if it cannot be put so."""
    own = {n.id for n in nodes(loop.target, ast.Name)}
    inside = {n.id for s in loop.body for n in nodes(s, ast.Name) if isinstance(n.ctx, ast.Store)}
    if isinstance(value, ast.Name) and value.id in inside - own:
        made = source.made(value)
        value = made if isinstance(made, ast.expr) else value
    return "" if {n.id for n in nodes(value, ast.Name)} & (inside - own) else source.text(value)
