"""Where the text of a function takes values off their graph, or decides which case holds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from chainrule.verify.place import Place
from chainrule.verify.trees import tree_of_file

_CUTTING = ("detach", "detach_", "item", "numpy", "tolist")
_QUIET = ("no_grad", "inference_mode")
_DECIDING = ("where", "clip", "clamp", "maximum", "minimum", "sign", "relu")


def cut_at(places: Sequence[Place | None]) -> Place | None:
    """The one line of functions at which a value leaves the graph; None if there is none, or if
    there are several."""
    return _only(places, _cuts)


def decided_at(places: Sequence[Place | None]) -> Place | None:
    """The one line at which elements are told apart, in the same way."""
    return _only(places, _decides)


def _only(places: Sequence[Place | None], asked: Callable[[ast.AST], bool]) -> Place | None:
    found = dict.fromkeys([p for place in places if place is not None for p in _at(place, asked)])
    return next(iter(found)) if len(found) == 1 else None


def _at(place: Place, asked: Callable[[ast.AST], bool]) -> Iterator[Place]:
    """Lines of the function at a place on which a statement has a part that is asked for."""
    for node in ast.walk(tree_of_file(place.file)):
        if isinstance(node, ast.FunctionDef) and _begins(node) <= place.line <= node.lineno:
            lines = sorted(
                {n.lineno for n in ast.walk(node) if isinstance(n, ast.expr) and asked(n)}
            )
            yield from [Place(place.file, line, place.function) for line in lines]


def _begins(node: ast.FunctionDef) -> int:
    """The first line of a function, its decorators' included."""
    return min([node.lineno, *[d.lineno for d in node.decorator_list]])


def _cuts(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="data", ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in (*_CUTTING, *_QUIET)
        case _:
            return False


def _decides(node: ast.AST) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _DECIDING
        case _:
            return False
