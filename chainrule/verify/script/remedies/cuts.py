"""Graphs that were cut: the line without what cuts it, or the same lines in PyTorch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import (
    SIMPLE,
    Piece,
    Source,
    called_name,
    nodes,
)

_METHODS = {"detach", "detach_", "item", "numpy", "tolist", "cpu"}
_COPIES = {"tensor", "as_tensor", "asarray", "array", "from_numpy", "Tensor", "float"}
_OFF = ("no_grad", "inference_mode", "set_grad_enabled")


def rejoin(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """The line without its cut; then all lines from there to the backward pass without theirs."""
    yield _switched_on(source)
    first = source.statement()
    if first is not None:
        yield source.with_pieces(_whole(first))
        ends = [n.lineno for n in nodes(source.scope, ast.Call) if called_name(n) == "backward"]
        until = min([line for line in ends if line >= first.lineno], default=first.lineno)
        some = [
            s for s in nodes(source.scope, ast.stmt) if first.lineno <= s.lineno <= until
            and isinstance(s, ast.Assign | ast.AugAssign | ast.Expr)
        ]  # fmt: skip
        yield source.with_pieces([p for s in some for p in _whole(s)])


def switch_on(place: Place | None) -> Edit | None:
    """A `with torch.no_grad():` or a decorator of that kind taken away."""
    source = Source.at(place)
    return None if source is None else _switched_on(source)


def _switched_on(source: Source) -> Edit | None:
    for block in source.around(ast.With):
        if len(block.items) == 1 and _is_off(block.items[0].context_expr):
            multi = block.body[0].lineno > block.lineno
            return source.dedented(block) if multi else None
    for function in nodes(source.tree, ast.FunctionDef):
        for maker in function.decorator_list:
            if maker.lineno == source.place.line and _is_off(maker):
                new = source.without([])
                new[maker.lineno - 1] = None
                return source.edited(new)
    return None


def _is_off(node: ast.expr) -> bool:
    return any(name in ast.unparse(node) for name in _OFF)


def _whole(statement: ast.stmt) -> list[Piece]:
    """The outermost pieces of a statement that copy a value out of its graph, and the values."""
    found: list[Piece] = []
    for n in nodes(statement, ast.expr):
        bare = _bare(n)
        if bare is not n and not any(_inside(n, done) for done, _ in found):
            found.append((n, ast.unparse(bare)))
    return found


def _inside(node: ast.AST, outer: ast.AST) -> bool:
    return node is outer or any(node is n for n in ast.walk(outer))


def _bare(node: ast.expr) -> ast.expr:
    """The value behind `.detach()`, `.item()`, `torch.tensor(...)` and the like."""
    while True:
        if isinstance(node, ast.Call):
            f = node.func
            method = isinstance(f, ast.Attribute) and f.attr in _METHODS and not node.args
            if method and isinstance(f, ast.Attribute):
                node = f.value
                continue
            if called_name(node) in _COPIES and node.args:
                inside = _bare(node.args[0])
                if called_name(node) in ("from_numpy", "float") or inside is not node.args[0]:
                    node = inside
                    continue
                return inside if _is_value(inside) else node
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
            continue
        return node


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


_LEAVE = {"detach", "cpu", "item", "numpy", "tolist", "astype"}
_COME = {"tensor", "as_tensor", "asarray", "array", "from_numpy", "float", "Tensor"}
_OTHERS = {"np", "numpy", "math"}
_NAMES = {"axis": "dim", "keepdims": "keepdim"}
_REDUCTIONS = {"max": "amax", "min": "amin"}


def write_in_torch(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """All lines from there to the end of their function, or to the backward pass, in PyTorch;
    lists of values stacked, or as they are."""
    if (first := source.statement()) is None:
        return
    ends = [n.lineno for n in nodes(source.scope, ast.Call) if called_name(n) == "backward"]
    until = min([line for line in ends if line >= first.lineno], default=1 << 30)
    some = [
        s for s in nodes(source.scope, ast.stmt)
        if isinstance(s, SIMPLE) and first.lineno <= s.lineno < until
    ]  # fmt: skip
    for stacks in (True, False):
        pieces: list[Piece] = []
        for s in some:
            new = ast.unparse(ast.fix_missing_locations(_Torch(stacks).visit(_parsed(s))))
            pieces += [(s, new)] if new != ast.unparse(s) else []
        yield source.with_pieces(pieces[:1])
        yield source.with_pieces(pieces)


def _parsed(statement: ast.stmt) -> ast.AST:
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
            if f.attr in _REDUCTIONS and (node.args or node.keywords):
                f.attr = _REDUCTIONS[f.attr]
        for k in node.keywords:
            k.arg = _NAMES.get(k.arg or "", k.arg)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A module of numbers."""
        return ast.Name("torch", node.ctx) if node.id in _OTHERS else node
