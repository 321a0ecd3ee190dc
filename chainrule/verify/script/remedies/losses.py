"""What losses are given: what they expect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.patterns import Rewrite, Row, fits_of_rows
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Source, called_name, nodes

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
