"""Values that share memory with what changes meanwhile get a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.repair.code.syntax import elements
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Piece, Source, called_name, nodes


def copy_kept(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """A copy of what a forward keeps on its ctx: `ctx.mask = mask.clone()`."""
    if (statement := source.statement()) is None:
        return
    if not isinstance(statement, ast.Assign):
        return
    pieces = list[Piece]()
    for one, value in _pairs(statement):
        if isinstance(one, ast.Attribute) and one.attr == finding.input.rpartition(".")[2]:
            pieces += [(v, _copy(source, v)) for v in elements(value)]
    yield source.with_pieces(pieces)


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target, with the value that it gets."""
    for target in statement.targets:
        some, values = elements(target), elements(statement.value)
        several = isinstance(target, ast.Tuple | ast.List) and len(some) == len(values)
        yield from zip(some, values, strict=True) if several else [(target, statement.value)]


def _copy(source: Source, value: ast.expr) -> str:
    text = source.text(value)
    plain = isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return f"{text}.clone()" if plain else f"({text}).clone()"


_SHARES = ("from_numpy", "as_tensor", "asarray", "frombuffer", "from_dlpack")
_FILLS = ("fill", "sort", "put", "partition", "itemset", "copyto", "place", "putmask", "shuffle")
"""Functions and methods of NumPy's that write to an array."""


def copy_shared(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """`torch.from_numpy(buffer.copy())`, where the file writes to `buffer`: one, then all."""
    pieces = [(x, f"{source.text(x)}.copy()") for x in _shared_arrays(source)]
    yield from (source.with_pieces([piece]) for piece in pieces)
    yield source.with_pieces(pieces)


def _shared_arrays(source: Source) -> list[ast.expr]:
    """Arrays that tensors are made of without a copy, and that the file writes to."""
    written = {name for n in ast.walk(source.tree) for name in _written_bases(n)}
    calls = nodes(source.tree, ast.Call, lambda n: called_name(n) in _SHARES and len(n.args) > 0)
    given = [n.args[0] for n in calls]
    return [x for x in given if _base(x) in written - {""}]


def _written_bases(node: ast.AST) -> Iterator[str]:
    """What a node writes to in place: `x[...] = y`, `x += y`, `x.fill(0)`, `np.copyto(x, y)`,
    `f(y, out=x)`."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Store()) | ast.AugAssign(target=value):
            yield _base(value)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=args, keywords=words):
            some = [owner, *args[:1]] if attr in _FILLS else []
            some += [k.value for k in words if k.arg == "out"]
            yield from map(_base, some)
        case _:
            pass


def _base(node: ast.expr) -> str:
    """The array that an expression is a view of, as Python would write it; empty if it is new."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "T"):
        node = node.value
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
