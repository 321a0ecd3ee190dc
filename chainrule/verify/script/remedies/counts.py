"""Means over micro-batches that are of different sizes: one mean over all of their elements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Piece, Source, called_name, nodes

_FUNCTIONS = ("cross_entropy", "nll_loss")
_CLASSES = ("CrossEntropyLoss", "NLLLoss")
_IGNORED = "-100"
"""What PyTorch's losses leave out if nothing else is said."""


def one_mean(finding: Finding) -> Iterator[Edit | None]:
    """In `for x, y in batches:` a mean that is divided by `len(batches)` becomes a sum that is
    divided by the number of elements in all of them."""
    source = Source.at(finding.place)
    for loop in source.around(ast.For) if source else []:
        assert source is not None
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
