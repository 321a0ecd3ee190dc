"""Changed code for a loss that is divided by the wrong number, or by none."""

from __future__ import annotations

import ast
from typing import TypeGuard

from chainrule.verify.place import Place
from chainrule.verify.training.text.edits import Edit, change_line
from chainrule.verify.trees import blocks, tree_of_file


def divide_loss(place: Place | None, by: int) -> Edit | None:
    """`loss.backward()` as `(loss / by).backward()`."""

    def change(node: ast.stmt) -> bool:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr != "backward":
            return False
        call.func.value = ast.BinOp(call.func.value, ast.Div(), ast.Constant(by))
        return True

    return change_line(place, change)


def change_divisor(place: Place | None, by: float, to: int) -> Edit | None:
    """The division of a loss with another divisor: the only one by `by` in the file, as in
    `loss = mean / 8`; else the last one of what is differentiated at `place`, as in
    `loss = loss / len(loader)`."""
    if place is None:
        return None
    tree = tree_of_file(place.file)
    found = [node.lineno for node in ast.walk(tree) if _divides(node, by)]
    if len(found) != 1:
        found = _divisions(tree, place.line)[-1:]

    def change(node: ast.stmt) -> bool:
        if isinstance(node, ast.AugAssign):
            node.value = ast.Constant(to)
            return True
        some = [p for p in ast.walk(node) if isinstance(p, ast.BinOp) and isinstance(p.op, ast.Div)]
        of_number = [p for p in some if _divides(p, by)]
        for part in of_number or some[:1]:
            part.right = ast.Constant(to)
        return bool(some)

    return change_line(Place(place.file, found[0], place.function), change) if found else None


def _divisions(tree: ast.AST, line: int) -> list[int]:
    """Lines, up to this one, that divide the loss of which it calls `backward`."""
    found: list[int] = []
    for block in [b for b in blocks(tree) if any(s.lineno == line for s in b)]:
        for statement in [s for s in block if s.lineno <= line]:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.Div())):
                    pass
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Div()):
                    pass
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.BinOp(op=ast.Div())))):
                    found.append(statement.lineno)
                    continue
                case _:
                    continue
            found += [statement.lineno] if name in _differentiated_name(block, line) else []
    return sorted(found)


def _differentiated_name(block: list[ast.stmt], line: int) -> list[str]:
    """The name of what a line calls a method of."""
    calls = [n for s in block if s.lineno == line for n in ast.walk(s) if isinstance(n, ast.Call)]
    owners = [c.func.value for c in calls if isinstance(c.func, ast.Attribute)]
    return [x.id for x in owners if isinstance(x, ast.Name)]


def _divides(node: ast.AST, by: float) -> TypeGuard[ast.BinOp]:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and isinstance(node.right, ast.Constant)
        and node.right.value == by
    )
