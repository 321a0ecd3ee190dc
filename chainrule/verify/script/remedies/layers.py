"""Gradients that do not come through: other activations, other initial weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.source import Piece, Source, called, nodes
from chainrule.verify.training.text.edits import Edit

_STEEP = {"sigmoid": "relu", "tanh": "relu", "Sigmoid": "ReLU", "Tanh": "ReLU"}
_OPEN = {"relu": "leaky_relu", "ReLU": "LeakyReLU"}
_DRAWS = ("normal_", "uniform_", "trunc_normal_", "xavier_normal_", "xavier_uniform_")
_FILLS = ("constant_", "fill_")


def steeper(finding: Finding) -> Iterator[Edit | None]:
    """Weights drawn to keep sizes, then relu in place of what flattens: the widest use of it that
    helps is wanted, but the last layer may need to stay what it is."""
    source = Source.at(finding.place)
    if source is None:
        return
    yield from drawn(finding)
    for scope in source.scopes():
        pieces = _renamed(source, scope, _STEEP)
        yield source.with_pieces(pieces)
        yield source.with_pieces(pieces[:-1])


def drawn(finding: Finding) -> Iterator[Edit | None]:
    """Initial weights of variance 2/fan-in, which neither shrinks nor grows through a relu."""
    source = Source.at(finding.place)
    if source is None:
        return
    draws = nodes(source.tree, ast.Call, lambda n: called(n) in _DRAWS)
    for kind in ("relu", "tanh"):
        pieces = [p for n in draws if (p := _kaiming(source, n, kind)) is not None]
        yield source.with_pieces(pieces)
    yield source.with_pieces(_scaled(source))


def opened(finding: Finding) -> Iterator[Edit | None]:
    """Biases that begin at 0, then a relu that lets something through."""
    source = Source.at(finding.place)
    if source is None:
        return
    fills = nodes(source.tree, ast.Call, lambda n: called(n) in _FILLS and len(n.args) > 0)
    for n in fills:
        yield source.with_pieces([(n.args[-1], "0.0")])
    for scope in source.scopes():
        yield source.with_pieces(_renamed(source, scope, _OPEN))


def _renamed(source: Source, scope: ast.AST, names: Mapping[str, str]) -> list[Piece]:
    """Every use of some functions and classes under another name, in the order of the text."""
    found: list[Piece] = []
    inner = [n.func for n in nodes(scope, ast.Call)]
    for n in nodes(scope, ast.Attribute, lambda n: n.attr in names):
        new = names[n.attr]
        if new == "leaky_relu" and n in inner and not _is_functional(n):
            found += [(c, _leaky(c, source)) for c in nodes(scope, ast.Call) if c.func is n]
        else:
            found.append((n, f"{source.text(n.value)}.{new}"))
    return found


def _is_functional(node: ast.Attribute) -> bool:
    return ast.unparse(node.value) in ("F", "nn.functional", "torch.nn.functional")


def _leaky(call: ast.Call, source: Source) -> str:
    """`torch.relu(x)` and `x.relu()` have no leaky one beside them."""
    assert isinstance(call.func, ast.Attribute)
    x = call.args[0] if call.args else call.func.value
    return f"torch.nn.functional.leaky_relu({source.text(x)})"


def _kaiming(source: Source, call: ast.Call, kind: str) -> Piece | None:
    """A draw of weights by the number of its inputs: `nn.init.normal_(w, std=...)` and
    `w.data.normal_(...)`."""
    f = call.func
    if not isinstance(f, ast.Attribute):
        return None
    by_module = source.text(f.value).endswith("init")
    if by_module and not call.args:
        return None
    where = source.text(f.value) if by_module else "torch.nn.init"
    what = source.text(call.args[0] if by_module else f.value)
    return call, f'{where}.kaiming_normal_({what}, nonlinearity="{kind}")'


def _scaled(source: Source) -> list[Piece]:
    """`torch.randn(n, m) * 0.01` by the root of n instead."""
    found: list[Piece] = []
    for n in nodes(source.tree, ast.BinOp, lambda n: isinstance(n.op, ast.Mult)):
        pair: Sequence[tuple[ast.expr, ast.expr]] = ((n.left, n.right), (n.right, n.left))
        for draw, factor in pair:
            if called(draw) == "randn" and isinstance(factor, ast.Constant):
                assert isinstance(draw, ast.Call)
                if len(draw.args) == 2:
                    found.append((factor, f"(2 / {source.text(draw.args[0])}) ** 0.5"))
    return found
