"""What a forward keeps for its backward: a copy of what it changes then, another value, a function
of it, or the same at another time."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator

import numpy as np

from chainrule.verify.diagnose.text.cached_values import CachedValue, values_kept_once
from chainrule.verify.repair.code.draft import Draft, Edit
from chainrule.verify.repair.code.parentheses import ATOM, as_operand, operand
from chainrule.verify.repair.code.syntax import names_in
from chainrule.verify.repair.rule_costs import FAR, LIKELY, RARE, SHOWN, USUAL
from chainrule.verify.repair.rules.memory import copy_before_write
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import is_torch, shape_of

_FUNCTIONS = ("exp", "log", "sqrt", "tanh", "abs")
_FORMS = ("-{}", "{} ** 2", "1 / {}", "1 - {}", "{} > 0", "{} < 0")
"""What else could have been kept."""
_KEEPERS = ("save_for_backward", "append", "dict", "update")


def kept_copies(scene: Scene) -> Iterator[Edit]:
    """A copy of each array that is kept: on `ctx`, on `self`, in a cache that is returned; or of
    what is written into."""
    copy = "clone" if scene.dialect.torch else "copy"
    for node in scene.expressions:
        if _is_held(node) and scene.is_array(node) and _is_kept(scene, node):
            text = f"{as_operand(scene.draft, node, ATOM)}.{copy}()"
            yield scene.put(node, text, "stale", LIKELY)
    for edit in copy_before_write(scene):
        yield Edit(edit.start, edit.end, edit.text, "stale", LIKELY, edit.says)


def _is_held(node: ast.expr) -> bool:
    """Whether something else may hold the array as well: it has a name, or was written into."""
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Name | ast.Attribute)
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return method.endswith("_") or any(k.arg == "out" for k in node.keywords)


def kept_others(scene: Scene) -> Iterator[Edit]:
    """Another array of the same shape in place of each that is kept: `cache = (z,)` to
    `cache = (p,)`."""
    for node in scene.expressions:
        here, shape = scene.draft.src(_without_copy(node)), scene.shape(node)
        if not shape or not isinstance(
            _without_copy(node), ast.Name | ast.Attribute | ast.Subscript
        ):
            continue
        if _is_kept(scene, node) or isinstance(scene.draft.parents[node], ast.Assign):
            for name, value in scene.arrays_at(node).items():
                if name != here and name.isidentifier() and shape_of(value) == shape:
                    yield scene.put(node, name, "wrong_value", USUAL)
            for other in scene.roots:
                if isinstance(other, ast.BinOp | ast.Call) and scene.shape(other) == shape:
                    yield scene.put(node, scene.draft.src(other), "wrong_value", RARE)


def _without_copy(node: ast.expr) -> ast.expr:
    """What an expression is a copy of; itself, if of nothing."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="copy" | "clone" | "detach")):
            return _without_copy(value)
        case _:
            return node


def is_kept_twice(scene: Scene, edit: Edit) -> bool:
    """Whether an edit keeps what is kept already, beside it: not what is returned with the output,
    for that may be the output."""
    for node in scene.expressions:
        if scene.draft.span(node) == (edit.start, edit.end):
            parent = scene.draft.parents[node]
            output = isinstance(scene.draft.parents[parent], ast.Return)
            beside = [n for n in ast.iter_child_nodes(parent) if isinstance(n, ast.expr)]
            return not output and edit.text in map(scene.draft.src, beside)
    return False


def kept_functions(scene: Scene) -> Iterator[Edit]:
    """A function of an array in place of what is kept: `self.p = z` to `self.p = np.exp(z)`."""
    for node in scene.expressions:
        kept = isinstance(node, ast.Name | ast.Attribute) and _is_kept(scene, node)
        if not kept or not (shape := scene.shape(node)):
            continue
        here = scene.draft.src(node)
        same = [k for k, v in scene.arrays_at(node).items() if shape_of(v) == shape]
        for name in dict.fromkeys([here, *same]):
            cost = FAR if _under_own_name(scene, node) else RARE
            for text in _functions_of(scene, node, operand(name, ATOM)):
                yield scene.put(node, text, "wrong_value", cost)


def _under_own_name(scene: Scene, node: ast.expr) -> bool:
    """Whether what is kept is known to the backward by the name that it has here, as far as shows:
    `self.z = z` and `save_for_backward(z)`, not `self.p = z`."""
    match scene.draft.parents[node]:
        case ast.Assign(targets=[ast.Attribute(attr=name)]):
            return name.strip("_") == scene.draft.src(node).rpartition(".")[2]
        case ast.Assign() | ast.keyword():
            return False
        case _:
            return True


def _functions_of(scene: Scene, node: ast.expr, atom: str) -> Iterator[str]:
    """Functions of an array, in the words of the library that it belongs to."""
    library = "numpy" if isinstance(scene.value(node), np.ndarray) else "chainrule"
    module = scene.dialect.module("torch" if is_torch(scene.value(node)) else library)
    if module is not None:
        yield from [f"{module}.{f}({atom})" for f in _FUNCTIONS]
    yield from [form.format(atom) for form in _FORMS]


def keeping_edits(scene: Scene, rules: Callable[[Scene], list[Edit]]) -> Iterator[Edit]:
    """Edits of any kind, made where something is computed in order to be kept."""
    spans = [scene.draft.span(n) for n in _for_keeping(scene)]
    for edit in rules(scene):
        if any(start <= edit.start and edit.end <= end for start, end in spans):
            yield edit


def _for_keeping(scene: Scene) -> list[ast.AST]:
    """Values of statements that keep something, or name what is kept."""
    nodes = scene.draft.nodes
    keeping = [n for n in nodes if isinstance(n, ast.Expr | ast.Assign) and _keeps(n)]
    names = {
        n.id for n in scene.expressions if isinstance(n, ast.Name) and _is_kept(scene, n)
    } - set(scene.draft.parameters)
    named = [
        n
        for n in nodes
        if isinstance(n, ast.Assign) and any(names & names_in(t) for t in n.targets)
    ]
    return [n.value for n in [*keeping, *named]]


def _keeps(statement: ast.stmt) -> bool:
    """Whether a statement gives an array a further name, or puts it into something."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name in _KEEPERS
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Assign(value=ast.Name() | ast.Tuple() | ast.Dict() | ast.List()):
            return True
        case _:
            return False


def _is_kept(scene: Scene, node: ast.expr) -> bool:
    parent = scene.draft.parents[node]
    match parent:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name in _KEEPERS
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Tuple() | ast.List() | ast.Dict() | ast.keyword():
            return True
        case _:
            return False


def kept_anew(scene: Scene) -> Iterator[Edit]:
    """`if self.m is None: self.m = f(x)` becomes `self.m = f(x)`, and so does
    `self.m = f(x) if self.m is None else self.m`; `d.setdefault(k, v)` becomes `d[k] = v`."""
    for once in values_kept_once(scene.draft.root):
        text = _always(scene, once)
        if text:
            start, end = scene.draft.span(once.node)
            says = f"`{once.target}` is kept in every call"
            yield Edit(start, end, text, "stale", SHOWN, says)


def _always(scene: Scene, once: CachedValue) -> str:
    """What is to stand in place of the node; empty if that cannot be said in a line of its own."""
    draft = scene.draft
    match once.node:
        case ast.If(body=body):
            return body_text(draft, once.node, body)
        case ast.IfExp(body=value, orelse=other):
            return draft.src(value if once.kept is value else other)
        case ast.Call(func=ast.Attribute(attr="get") | ast.Name()):
            return draft.src(once.kept)
        case ast.Call(func=ast.Attribute(value=table), args=[key, value]):
            statement = draft.parents.get(once.node)
            if isinstance(statement, ast.Expr | ast.Assign):
                return f"{draft.src(table)}[{draft.src(key)}] = {draft.src(value)}"
            return ""
        case _:
            return ""


def body_text(draft: Draft, node: ast.stmt, body: list[ast.stmt]) -> str:
    """The body of a statement, as it stands without that."""
    start, end = draft.span(body[0])[0], draft.span(body[-1])[1]
    if body[0].lineno == node.lineno:
        return draft.body[start:end]
    lines = textwrap.dedent(" " * body[0].col_offset + draft.body[start:end])
    return textwrap.indent(lines, " " * node.col_offset).lstrip()
