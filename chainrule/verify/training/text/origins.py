"""Where the user wrote what is the reason: the line that names an activation, that sets initial
weights, that makes a scaler or a leaf. Only if there is one such line in a file, or in all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from chainrule.verify.place import Place
from chainrule.verify.trees import last_word, tree_of_file, users_trees

_FILLS = (
    "normal_", "uniform_", "trunc_normal_", "orthogonal_", "constant_", "fill_", "eye_", "mul_",
    "xavier_normal_", "xavier_uniform_", "kaiming_normal_", "kaiming_uniform_",
)  # fmt: skip
"""Calls that give a weight its values."""
_DRAWS = ("randn", "rand", "normal")


def copy_line(one: str, other: str) -> Place | None:
    """The statement that copies one parameter into another: that names both, by the modules that
    have them, and no others. To assign the one to the other is no copy."""
    held = {tuple(name.split(".")[-2:]) for name in (one, other)}

    def names_both(node: ast.AST) -> bool:
        if not isinstance(node, ast.Expr | ast.Assign) or isinstance(node.value, ast.Attribute):
            return False
        found = [n for n in ast.walk(node) if isinstance(n, ast.Attribute)]
        last = {name[-1] for name in held}
        return {(last_word(n.value), n.attr) for n in found if n.attr in last} == held

    return _only(names_both, [name[0] for name in held])


def weights() -> Place | None:
    """The line that sets the weights of layers."""
    return _only(_sets, (*_FILLS, "Parameter"))


def mode_lines(file: str, mode: str) -> list[Place]:
    """The lines of a file that put something into a mode: `model.eval()`, `model.train()`."""

    def sets(node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=[]):
                return attr == mode
            case _:
                return False

    return _lines(file, sets)


def freeze_line(near: Place | None) -> Place | None:
    """The line that freezes parameters: `p.requires_grad = False`, `m.requires_grad_(False)`."""
    return _only(_freezes, ("requires_grad",), near)


def _freezes(node: ast.AST) -> bool:
    match node:
        case ast.Assign(
            targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=no)
        ):
            return no is False
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[ast.Constant(value=no)]):
            return no is False
        case _:
            return False


def sharing_line(near: Place | None) -> Place | None:
    """The line that makes `.data` of one thing that of another: `a.data = b.data`."""
    return _only(_shares, (".data",), near)


def _shares(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    sides = [*node.targets, node.value]
    return all(isinstance(x, ast.Attribute) and x.attr == "data" for x in sides)


def call_line(name: str, near: Place | None) -> Place | None:
    """The only line that calls what has a name."""
    return _only(lambda n: isinstance(n, ast.Call) and last_word(n.func) == name, (name,), near)


def kept_line(load: Place | None) -> Place | None:
    """The line that makes what a line loads (`net.load_state_dict(self.best)`), if what is kept
    there is no copy."""
    nodes = ast.walk(tree_of_file(load.file)) if load is not None else ()
    calls = [n for n in nodes if isinstance(n, ast.Call) and load is not None]
    given = [n.args[0] for n in calls if load is not None and n.lineno == load.line and n.args]
    names = [ast.unparse(x) for x in given if isinstance(x, ast.Name | ast.Attribute)]
    return keeping_line(load.file, names[0]) if load is not None and len(names) == 1 else None


def keeping_line(file: str, name: str) -> Place | None:
    """The only line of a file that gives a variable, or an attribute, values that are no copies:
    `best = net.state_dict()`, `self.shadow = {n: p.detach() for ...}`."""

    def keeps(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Assign)
            and name in map(ast.unparse, node.targets)
            and _is_view(node.value)
        )

    found = _lines(file, keeps)
    return found[0] if len(found) == 1 else None


def _is_view(value: ast.expr) -> bool:
    words = {n.attr for n in ast.walk(value) if isinstance(n, ast.Attribute)}
    return bool(words & {"detach", "data", "state_dict"}) and words.isdisjoint(_COPIES)


_COPIES = ("clone", "copy", "deepcopy", "zeros_like", "empty_like")


def _sets(node: ast.AST) -> bool:
    """Whether it fills the weight of any layer, not that of a named one: `m.weight`, `self.weight`,
    but not `self.embedding.weight`."""
    if not isinstance(node, ast.Call):
        return False
    if last_word(node.func) == "Parameter":
        return any(last_word(n.func) in _DRAWS for n in ast.walk(node) if isinstance(n, ast.Call))
    own = node.func.value if isinstance(node.func, ast.Attribute) else node
    values = [_undata(x) for x in (own, *node.args[:1])]
    return last_word(node.func) in _FILLS and any(map(_is_weight, values))


def _undata(node: ast.expr) -> ast.expr:
    """A tensor, of its `.data`."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node


def _is_weight(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(), attr="weight"):
            return True
        case _:
            return False


def _only(
    is_it: Callable[[ast.AST], bool], words: Sequence[str], near: Place | None = None
) -> Place | None:
    """The line with such a node, if it is one line only: of the file of a place, if it has any,
    else of all of the user's. A file that has none of the words has no such node."""
    found = set(_lines(near.file, is_it)) if near is not None else set[Place]()
    if not found:
        found = {at for file, tree in users_trees(*words) for at in _lines_of(file, tree, is_it)}
    return found.pop() if len(found) == 1 else None


def _lines(file: str, is_it: Callable[[ast.AST], bool]) -> list[Place]:
    return _lines_of(file, tree_of_file(file), is_it)


def _lines_of(file: str, tree: ast.AST, is_it: Callable[[ast.AST], bool]) -> list[Place]:
    nodes = [n for n in ast.walk(tree) if is_it(n)]
    return [Place(file, n.lineno) for n in nodes if isinstance(n, ast.expr | ast.stmt)]
