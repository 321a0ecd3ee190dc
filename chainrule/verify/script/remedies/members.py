"""Modules and tensors that a model does not know as its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.source import Piece, Source, called, nodes
from chainrule.verify.training.edits import Edit

_LISTS = (ast.List, ast.ListComp)
_DICTS = (ast.Dict, ast.DictComp)


def registered(finding: Finding) -> Iterator[Edit | None]:
    """Lists and dicts of the class as `ModuleList` and `ModuleDict`; a tensor as a Parameter."""
    source = Source.at(finding.place)
    owners = source.around(ast.ClassDef) if source else []
    if source is None or not owners:
        return
    prefix = next((source.text(b)[: -len("Module")] for b in owners[0].bases
                   if source.text(b).endswith("Module")), "torch.nn.")  # fmt: skip
    kept: list[Piece] = []
    for s in nodes(owners[0], ast.Assign, _is_own):
        if isinstance(s.value, _LISTS) or (called(s.value) == "list" and _has_module(s.value)):
            kept.append((s.value, f"{prefix}ModuleList({source.text(s.value)})"))
        elif isinstance(s.value, _DICTS):
            kept.append((s.value, f"{prefix}ModuleDict({source.text(s.value)})"))
    yield from (source.with_pieces([piece]) for piece in kept)
    yield source.with_pieces(kept)
    yield from (source.with_pieces([p]) for p in _tensors(source, owners[0], prefix))


def _tensors(source: Source, owner: ast.ClassDef, prefix: str) -> Iterator[Piece]:
    """`self.a = torch.ones(3, requires_grad=True)` as a Parameter."""
    for s in nodes(owner, ast.Assign, lambda s: _is_own(s) and isinstance(s.value, ast.Call)):
        assert isinstance(s.value, ast.Call)
        wanted = [k for k in s.value.keywords if k.arg == "requires_grad"]
        if not wanted and called(s.value) != "requires_grad_":
            continue
        rest = [k for k in s.value.keywords if k.arg != "requires_grad"]
        bare = ast.Call(s.value.func, s.value.args, rest)
        if not wanted and isinstance(s.value.func, ast.Attribute):
            yield s.value, f"{prefix}Parameter({source.text(s.value.func.value)})"
        else:
            yield s.value, f"{prefix}Parameter({source.text(bare)})"


def _is_own(s: ast.Assign) -> bool:
    target = s.targets[0]
    return (
        len(s.targets) == 1
        and isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    )


def _has_module(node: ast.AST) -> bool:
    """Whether something is made in it that may be a module: a call of a class."""
    return any(called(n)[:1].isupper() for n in ast.walk(node))
