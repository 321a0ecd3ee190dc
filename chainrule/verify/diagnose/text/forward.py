"""What the text of a forward says: an array that is changed after it was kept for the backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from chainrule.verify.diagnose.case import Case, Guess, guess
from chainrule.verify.place import Place
from chainrule.verify.trees import tree_of_file

_KEEPING = ("save_for_backward", "append")
_BINARY = ("add", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum", "power")
_UNARY = ("exp", "log", "sqrt", "tanh", "negative", "abs", "square")
_OUT = {**dict.fromkeys(_BINARY, 3), **dict.fromkeys(_UNARY, 2)}
"""Arguments that a function of NumPy has if the last one is the array that it writes to."""
_MAKERS = ("empty", "zeros", "ones", "full")
"""Functions that make an array to be filled."""
_COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Change:
    """Line `line` changes `name` in place, which line `kept` had kept (or keeps in the next turn
    of a loop)."""

    name: str
    kept: int
    line: int


def later_change(case: Case) -> Iterator[Guess]:
    """A guess from the text alone: it is wrong for certain, and this is why, most likely."""
    place = case.subject.place
    for change in changes(place)[:1]:
        at = None if place is None else Place(place.file, change.line, place.function)
        because = (
            f"line {change.kept} of the forward keeps `{change.name}` for the backward, and line "
            f"{change.line} changes that same array in place"
        )
        yield guess(
            "stale",
            1.9,
            because,
            f"the backward reads `{change.name}` as line {change.line} left it",
            formula=f"keep a copy of `{change.name}`, or do not change it in place",
            apart="whether the gradient is right once a copy is kept",
            place=at,
        )


def changes(place: Place | None) -> list[Change]:
    """Such changes in the function at `place`; empty if there are none, or no text."""
    function = function_at(place)
    if function is None:
        return []
    kept: dict[str, int] = {}
    found: list[Change] = []
    statements = [n for n in ast.walk(function) if isinstance(n, ast.stmt)]
    returned = {n.id for s in statements if isinstance(s, ast.Return) for n in _names_read(s)}
    for statement in sorted(statements, key=lambda s: s.lineno):
        line, written = statement.lineno, list(in_place(statement))
        found += [Change(n, kept[n], line) for n in written if kept.get(n, line) < line]
        for name in [*_names_kept(statement), *_aliases(statement, returned)]:
            kept.setdefault(name, line)
        for name in _names_bound(statement):
            kept.pop(name, None)
    return [*found, *_in_loops(function)]


def _in_loops(function: ast.FunctionDef) -> Iterator[Change]:
    """One array for all turns of a loop: kept in each, changed by the next."""
    for loop in ast.walk(function):
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        inside = [n for n in ast.walk(loop) if isinstance(n, ast.stmt) and n is not loop]
        fresh = {name for s in inside for name in _names_bound(s)}
        kept = {name: s.lineno for s in inside for name in _names_kept(s)}
        for statement in inside:
            for name in in_place(statement):
                if name in kept and name not in fresh and kept[name] >= statement.lineno:
                    yield Change(name, kept[name], statement.lineno)


def function_at(place: Place | None) -> ast.FunctionDef | None:
    """The syntax tree of the function at a place; None if there is none, or no text."""
    if place is None:
        return None
    functions = [n for n in ast.walk(tree_of_file(place.file)) if isinstance(n, ast.FunctionDef)]
    at = [f for f in functions if _first(f) <= place.line <= f.body[0].lineno]
    return max(at, key=_first, default=None)


def _first(function: ast.FunctionDef) -> int:
    return min([function.lineno, *[d.lineno for d in function.decorator_list]])


def _names_kept(statement: ast.stmt) -> list[str]:
    """Arrays that get a second name: `ctx.save_for_backward(x)`, `self.x = x`, `cache = (x, y)`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        keeps = isinstance(function, ast.Attribute) and function.attr in _KEEPING
        return _names(statement.value.args) if keeps else []
    if not isinstance(statement, ast.Assign):
        return []
    value = statement.value
    attributes = _names([t for t in statement.targets if isinstance(t, ast.Attribute)])
    return [*([] if _is_made(value) else attributes), *_names_in_container(statement, value)]


def _is_made(value: ast.expr) -> bool:
    """Whether an array is made to be filled: `np.empty(s)`, `torch.zeros_like(x)`."""
    match value:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name.removeprefix("new_").removesuffix("_like") in _MAKERS
        case _:
            return False


def _names_in_container(statement: ast.Assign, value: ast.expr) -> list[str]:
    if isinstance(value, ast.Dict):
        return _names(value.values)
    if isinstance(value, (ast.Tuple, ast.List)):
        # `a, b = x, y` only gives names; a container keeps.
        unpacked = any(isinstance(t, ast.Tuple) for t in statement.targets)
        return [] if unpacked else _names(value.elts)
    held = any(isinstance(t, ast.Attribute) for t in statement.targets)
    return _names([value]) if held else []


def _aliases(statement: ast.stmt, returned: set[str]) -> list[str]:
    """`cache = y`, if what is returned has `cache` in it."""
    if not isinstance(statement, ast.Assign):
        return []
    names = {t.id for t in statement.targets if isinstance(t, ast.Name)}
    return _names([statement.value]) if names & returned else []


def _names_read(statement: ast.stmt) -> list[ast.Name]:
    return [n for n in ast.walk(statement) if isinstance(n, ast.Name)]


def _names(nodes: list[ast.expr]) -> list[str]:
    return [ast.unparse(n) for n in nodes if isinstance(n, (ast.Name, ast.Attribute))]


def in_place(statement: ast.stmt) -> Iterator[str]:
    """Names of arrays that a statement writes into."""
    if isinstance(statement, ast.AugAssign):
        yield from _names([_base(statement.target)])
    if isinstance(statement, ast.Assign):
        indexed = [t for t in statement.targets if isinstance(t, ast.Subscript)]
        yield from _names([_base(t) for t in indexed])
    if not isinstance(statement, _COMPOUND):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                yield from _by_call(node)
                yield from _names([k.value for k in node.keywords if k.arg == "out"])


def _by_call(call: ast.Call) -> Iterator[str]:
    """`x.mul_(2)`, `x.sort()`, `np.add.at(x, ...)`, `np.copyto(x, ...)`."""
    if not isinstance(call.func, ast.Attribute):
        return
    method = call.func.attr
    if method in ("sort", "fill") or (method.endswith("_") and not method.startswith("_")):
        yield from _names([_base(call.func.value)])
    elif method in ("at", "copyto", "put", "shuffle") and call.args:
        yield from _names([call.args[0]])
    elif len(call.args) == _OUT.get(method, -1):
        yield from _names([call.args[-1]])


def _base(node: ast.expr) -> ast.expr:
    """What an index, or `.data`, is taken of."""
    while isinstance(node, ast.Subscript) or (
        isinstance(node, ast.Attribute) and node.attr == "data"
    ):
        node = node.value
    return node


def _names_bound(statement: ast.stmt) -> list[str]:
    """Names that stand for another array from here on."""
    if not isinstance(statement, ast.Assign):
        return []
    return [t.id for t in statement.targets if isinstance(t, ast.Name)]
