"""From a line that stores an argument to the one that hands it in: `meter.update(loss)`.

What keeps averages takes whatever it is given; that it is a tensor with its graph is its caller's
doing.
"""

from __future__ import annotations

import ast

from chainrule.verify.place import Place
from chainrule.verify.trees import tree_of_file


def handed(place: Place) -> Place:
    """The only call that hands a function what it stores at a line; the line itself, if it stores
    something else, or nobody can say who has called."""
    tree = tree_of_file(place.file)
    function = _function_at(tree, place.line)
    if function is None or not _stores_argument(function, place.line):
        return place
    calls = [s for s in ast.walk(tree) if isinstance(s, ast.Expr) and _calls(s, function.name)]
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno:
        return place
    around = _function_at(tree, calls[0].lineno)
    return Place(place.file, calls[0].lineno, "" if around is None else around.name)


def _function_at(tree: ast.AST, line: int) -> ast.FunctionDef | None:
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    around = [f for f in functions if f.lineno <= line <= (f.end_lineno or 0)]
    return max(around, key=lambda f: f.lineno, default=None)


def _stores_argument(function: ast.FunctionDef, line: int) -> bool:
    """Whether a line of a method reads one of its arguments, as it was given."""
    given = {a.arg for a in function.args.args[1:]}
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    anew = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    read = {n.id for n in names if isinstance(n.ctx, ast.Load) and n.lineno == line}
    return bool(read & given - anew)


def _calls(statement: ast.Expr, method: str) -> bool:
    """Whether a statement calls such a method, with a variable as its last argument."""
    match statement.value:
        case ast.Call(func=ast.Attribute(attr=name), args=[*_, ast.Name()]):
            return name == method
        case _:
            return False
