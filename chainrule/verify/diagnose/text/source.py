"""The line of a backward that computes a gradient, as far as its text tells."""

from __future__ import annotations

import ast

from chainrule.verify.arrays.naming_conventions import gradient_of
from chainrule.verify.place import Place
from chainrule.verify.subject import Subject, wanted
from chainrule.verify.trees import tree_of

_FORMS = ("reshape", "view", "view_as", "contiguous", "to", "type", "type_as", "astype", "clone")
"""Methods that give a value another form only."""
_MAKERS = ("zeros", "ones", "empty", "full")
"""Functions that take of a value its shape only."""


def line_of(subject: Subject, k: int | None) -> Place | None:
    """The line that computes the gradient of input k, as far as the text tells: where what is
    returned for it got its value last. The backward's first line if it does not tell."""
    place, source = subject.backward_place, subject.source
    if place is None or source is None or k is None:
        return place
    tree = tree_of(source.text)
    names, left = [x.name for x in subject.inputs], _lines_left(tree, subject)
    line = left.get(names[k]) or _line_beside(names, left, k)
    if line is None:
        node = _returned_for(tree, subject, k)
        name = "" if node is None else _name_inside(node)
        filled = _last_filled(tree) if node is None else node.lineno
        line = (_last_assigned(tree, name, k) if name else 0) or filled
    return Place(place.file, line + source.first_line - 1, place.function) if line else place


def _returned_for(tree: ast.AST, subject: Subject, k: int) -> ast.expr | None:
    """The expression that the last `return` gives for input k."""
    returns = [n for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None]
    if not returns:
        return None
    value = returns[-1].value
    if not isinstance(value, ast.Tuple):
        return value
    source = subject.source
    if source is not None and source.forward is not None and source.separate_forward is None:
        return _of_several(tree, value.elts[1:], subject, k)  # The first one is the value.
    order, count = wanted(subject), len(value.elts)
    if count >= len(order) and count != len(subject.inputs):
        return value.elts[order.index(k)] if k in order and count == len(order) else None
    return value.elts[k] if k < count else None  # Those of parameters are kept elsewhere.


def _of_several(tree: ast.AST, given: list[ast.expr], subject: Subject, k: int) -> ast.expr | None:
    """Of gradients that are returned behind a value, that of input k: by its key in a dict that is
    written out, else in order."""
    order = wanted(subject)
    if len(given) != 1:
        return given[order.index(k)] if k in order and len(given) == len(order) else None
    names = [x.name for x in subject.inputs]
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as entries) if (
                isinstance(given[0], ast.Name) and name == given[0].id
            ):
                found = _entry(entries, names, k)
            case ast.Dict() if node is given[0]:
                found = _entry(node, names, k)
            case _:
                continue
        if found is not None:
            return found
    return given[0] if isinstance(given[0], ast.Name) and len(order) == 1 else None


def _entry(entries: ast.Dict, names: list[str], k: int) -> ast.expr | None:
    """What a dict that is written out holds for input k."""
    for key, value in zip(entries.keys, entries.values, strict=True):
        text = key.value if isinstance(key, ast.Constant) else None
        if isinstance(text, str) and gradient_of(text, names) == names[k]:
            return value
    return None


def _name_inside(node: ast.expr) -> str:
    """The name of a value that is only given another form: `dx`, `dx.reshape(s)`, `tensor(dx)`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _FORMS:
            return name
        case ast.Call(func=ast.Attribute(attr=f) | ast.Name(id=f), args=[ast.Name(id=name)]):
            return "" if f.startswith(_MAKERS) else name
        case _:
            return ""


def _lines_left(tree: ast.AST, subject: Subject) -> dict[str, int]:
    """By input: the last line that assigns to a place which is called like its gradient:
    `self.dW`, `grads["w"]`."""
    names, found = [x.name for x in subject.inputs], dict[str, int]()
    for n in ast.walk(tree):
        for t in _targets(n):
            place = isinstance(t, (ast.Attribute, ast.Subscript))
            if place and (name := gradient_of(_key(t), names)) is not None:
                found[name] = max(t.lineno, found.get(name, 0))
    return found


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns to, or writes into by index: `np.add.at(grads["w"], i, g)`."""
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AugAssign(target=target):
            return [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="at"), args=[target, *_])):
            return [target]
        case _:
            return []


def _line_beside(names: list[str], left: dict[str, int], k: int) -> int | None:
    """Of a parameter whose gradient is left nowhere: the line at which that of the one before is,
    in the order in which the code goes through them; None if input k is no parameter."""
    known = [i for i, name in enumerate(names) if name in left]
    if not known or k < known[0]:
        return None
    lines = [left[names[i]] for i in known]
    backwards = lines == sorted(lines, reverse=True) and len(lines) > 1
    before = [i for i in known if (i > k) == backwards]
    near = min(before or known, key=lambda i: abs(i - k))
    return left[names[near]]


def _last_filled(tree: ast.AST) -> int:
    """The last line that fills an entry of what is returned, `grads["w"] += dw` before `return
    loss, grads`: beside it others are forgotten. 0 if there is none."""
    returns = [n.value for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None]
    given = {n.id for v in returns for n in ast.walk(v) if isinstance(n, ast.Name)}
    entries = [t for n in ast.walk(tree) for t in _targets(n) if isinstance(t, ast.Subscript)]
    texts = [t for t in entries if isinstance(t.slice, ast.Constant)]
    own = [t for t in texts if isinstance(t.value, ast.Name) and t.value.id in given]
    return max([t.lineno for t in own], default=0)


def _key(target: ast.Attribute | ast.Subscript) -> str:
    """The last name of a place."""
    match target:
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Subscript(value=ast.Attribute() | ast.Subscript() as inner):
            return _key(inner)
        case _:
            return ""


def _last_assigned(tree: ast.AST, name: str, k: int) -> int:
    """The last line that gives `name` a value; if that is None only, the block that is for the
    gradient of input k."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and name in _names_written(n)]
    nothing = all(_gives_none(n) for n in found)
    blocks = _meant_for(tree, k) if nothing else []
    return max(blocks or [n.lineno for n in (*found, *_calls_given(tree, found, name))], default=0)


def _calls_given(tree: ast.AST, made: list[ast.stmt], name: str) -> list[ast.stmt]:
    """Calls that get an array which was made empty, and are there for what they do: they fill it,
    as a kernel does."""
    if not made or not all(isinstance(n, ast.Assign) and _makes_empty(n.value) for n in made):
        return []
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
    return [n for n in calls if name in {m.id for m in ast.walk(n) if isinstance(m, ast.Name)}]


def _makes_empty(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr=f) | ast.Name(id=f)):
            return f.removeprefix("new_").startswith(("empty", "zeros"))
        case _:
            return False


def _meant_for(tree: ast.AST, k: int) -> list[int]:
    """First lines of what is done `if ctx.needs_input_grad[k]`."""
    return [
        n.body[0].lineno
        for n in ast.walk(tree)
        if isinstance(n, ast.If) and f"needs_input_grad[{k}]" in ast.unparse(n.test)
    ]


def _names_written(statement: ast.stmt) -> list[str]:
    """Names to which a statement assigns, or in whose arrays it writes: `np.add.at(dx, i, g)`,
    `dx.index_add_(0, i, g)`."""
    match statement:
        case ast.Assign() | ast.AugAssign():
            names = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
            return [n.id for n in names if _stored(n, statement)]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))) if (
            attr.endswith("_")
        ):
            return [name]
        case ast.Expr(value=ast.Call(args=[ast.Name(id=name), *_])):
            return [name]
        case _:
            return []


def _gives_none(statement: ast.stmt) -> bool:
    """Whether None is assigned."""
    match statement:
        case ast.Assign(value=ast.Constant(value=None)):
            return True
        case _:
            return False


def _stored(name: ast.Name, statement: ast.Assign | ast.AugAssign) -> bool:
    """Whether `name` is what a statement assigns to, or into."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(_is_base(t, name) for t in targets)


def _is_base(target: ast.expr, name: ast.Name) -> bool:
    if isinstance(target, ast.Tuple):
        return any(_is_base(t, name) for t in target.elts)
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        target = target.value
    return target is name
