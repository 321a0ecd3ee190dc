"""What is kept and what is read: a forward keeps `z` where the backward unpacks a `p`.

If the forward has a `p` of its own, and keeps something else in its place, the backward reads the
wrong value, however well its formula is written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.forward_text import function_at
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.place import Place
from chainrule.verify.subject import Source
from chainrule.verify.trees import tree_of


@dataclass(frozen=True)
class Mixup:
    """Line `line` of the forward keeps `kept`; the backward calls it `read`."""

    kept: str
    read: str
    line: int


def kept_another(case: Case) -> Iterator[Guess]:
    """A guess from both texts: the gradient is wrong for certain, and the names do not match."""
    place = case.subject.place
    for found in mixups(place, case.subject.source)[:1]:
        yield guess(
            "wrong_value",
            6.4,
            f"line {found.line} of the forward keeps `{found.kept}`, the backward reads it as "
            f"`{found.read}`, and the forward has another `{found.read}`",
            f"`{found.kept}` is kept where `{found.read}` belongs",
            formula=f"keep `{found.read}` in place of `{found.kept}`",
            place=None if place is None else Place(place.file, found.line, place.function),
        )


def mixups(place: Place | None, source: Source | None) -> list[Mixup]:
    """Names that a forward keeps and its backward reads under another of the forward's names."""
    forward = function_at(place)
    if forward is None or source is None:
        return []
    tree = tree_of(source.text)
    stored = [n for n in ast.walk(forward) if isinstance(n, ast.Name)]
    own = {n.id for n in stored if isinstance(n.ctx, ast.Store)}
    read = list(_unpacked(tree))
    found = [*_by_position(forward, read), *_by_parameter(forward, tree), *_by_attribute(forward)]
    return [m for m in found if m.kept != m.read and m.read in own]


def _by_position(forward: ast.FunctionDef, read: list[list[str]]) -> Iterator[Mixup]:
    """A tuple that is kept beside one of as many names that is unpacked."""
    every = list(_kept(forward))
    whole = [names for names, _ in every]
    for names, line in every:
        for others in [r for r in read if r not in whole]:  # some are kept as they are read
            same = len(set(names) & set(others))
            if len(others) == len(names) and same == len(names) - 1:
                pairs = zip(names, others, strict=True)
                yield from [Mixup(a, b, line) for a, b in pairs if a and a != b]


def _kept(forward: ast.FunctionDef) -> Iterator[tuple[list[str], int]]:
    """Names in `save_for_backward(...)`, and in tuples that are returned or assigned."""
    for node in ast.walk(forward):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "save_for_backward":
                yield _named(node.args), node.lineno
        elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
            yield _named(node.elts), node.lineno


def _unpacked(backward: ast.AST) -> Iterator[list[str]]:
    """Names on the left of each unpacking of what was kept."""
    for node in ast.walk(backward):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Name)):
            for target in node.targets:
                if isinstance(target, (ast.Tuple, ast.List)):
                    yield _named(target.elts)


def _by_parameter(forward: ast.FunctionDef, backward: ast.AST) -> Iterator[Mixup]:
    """`return y, z` beside `def backward(g, p)`."""
    functions = [n for n in ast.walk(backward) if isinstance(n, ast.FunctionDef)]
    names = [a.arg for f in functions[:1] for a in f.args.args]
    for node in ast.walk(forward):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            last = node.value.elts[-1]
            if isinstance(last, ast.Name) and len(names) == len(node.value.elts) == 2:
                yield from [Mixup(last.id, n, node.lineno) for n in names if n != last.id]


def _by_attribute(forward: ast.FunctionDef) -> Iterator[Mixup]:
    """`ctx.p = z`, where there is a p."""
    for node in ast.walk(forward):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    yield Mixup(node.value.id, target.attr.lstrip("_"), node.lineno)


def _named(nodes: list[ast.expr]) -> list[str]:
    return [n.id if isinstance(n, ast.Name) else "" for n in nodes]
