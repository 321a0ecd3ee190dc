"""Values that lose their graph in NumPy or in numbers: the same lines in PyTorch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import SIMPLE, Piece, called_name, nodes, statement_at

_LEAVE = {"detach", "cpu", "item", "numpy", "tolist", "astype"}
_COME = {"tensor", "as_tensor", "asarray", "array", "from_numpy", "float", "Tensor"}
_OTHERS = {"np", "numpy", "math"}
_NAMES = {"axis": "dim", "keepdims": "keepdim"}
_METHODS = {"max": "amax", "min": "amin"}


def write_in_torch(finding: Finding) -> Iterator[Edit | None]:
    """All lines from there to the end of their function, or to the backward pass, in PyTorch;
    lists of values stacked, or as they are."""
    if (found := statement_at(finding.place)) is None:
        return
    source, first = found
    ends = [n.lineno for n in nodes(source.scope, ast.Call) if called_name(n) == "backward"]
    until = min([line for line in ends if line >= first.lineno], default=1 << 30)
    some = [
        s for s in nodes(source.scope, ast.stmt)
        if isinstance(s, SIMPLE) and first.lineno <= s.lineno < until
    ]  # fmt: skip
    for stacks in (True, False):
        pieces: list[Piece] = []
        for s in some:
            new = ast.unparse(ast.fix_missing_locations(_Torch(stacks).visit(_copy(s))))
            pieces += [(s, new)] if new != ast.unparse(s) else []
        yield source.with_pieces(pieces[:1])
        yield source.with_pieces(pieces)


def _copy(statement: ast.stmt) -> ast.AST:
    return ast.parse(ast.unparse(statement)).body[0]


class _Torch(ast.NodeTransformer):
    """NumPy's and Python's words in PyTorch's, and nothing that leaves a graph."""

    def __init__(self, stacks: bool) -> None:
        self._stacks = stacks

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, its arguments first."""
        self.generic_visit(node)
        f = node.func
        if called_name(node) in _COME and node.args:
            inside = node.args[0]
            listed = isinstance(inside, ast.List | ast.ListComp | ast.Name)
            if called_name(node) in ("float", "from_numpy") or not (self._stacks and listed):
                return inside
            stack = ast.Attribute(ast.Name("torch", ast.Load()), "stack", ast.Load())
            return ast.Call(stack, [inside], [])
        if isinstance(f, ast.Attribute):
            if f.attr in _LEAVE:
                return f.value
            if f.attr in _METHODS and (node.args or node.keywords):
                f.attr = _METHODS[f.attr]
        for k in node.keywords:
            k.arg = _NAMES.get(k.arg or "", k.arg)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A module of numbers."""
        return ast.Name("torch", node.ctx) if node.id in _OTHERS else node
