"""What a syntax tree tells without being run."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

from chainrule.verify.repair.code.draft import Draft

_FILLING_FIRST = ("at", "put_along_axis", "copyto", "put", "place", "putmask")
_COLLECTING = ("append", "extend", "insert", "appendleft", "update")
_CALLED = re.compile(r"^(?:d_?|g_|grad_?|delta_?)(\w+)$|^(\w+?)_(?:bar|grad|d|g)$")


def elements(value: ast.expr) -> list[ast.expr]:
    """What a tuple, a list or a dict holds; of anything else, itself."""
    match value:
        case ast.Tuple() | ast.List():
            return list(value.elts)
        case ast.Dict():
            return list(value.values)
        case _:
            return [value]


def fills(call: ast.Call) -> ast.expr | None:
    """What a call fills with something, as its name says."""
    match call.func:
        case ast.Attribute(attr=attr) if attr in _FILLING_FIRST and call.args:
            return call.args[0]
        case ast.Attribute(value=owner, attr=attr) if attr.endswith("_") or attr in _COLLECTING:
            return owner
        case _:
            return None


def writes(statements: Iterable[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.Subscript, ast.expr]]:
    """Assignments to elements, `d[i] = v` and `d[i] += v`: the statement, its target, the value."""
    for s in statements:
        match s:
            case ast.AugAssign(target=ast.Subscript() as target, value=value):
                yield s, target, value
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                yield s, target, value
            case _:
                pass


def names_in(node: ast.AST) -> set[str]:
    """Names that a node mentions."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def undone(name: str) -> list[str]:
    """What a cotangent is called after: `h` of `dh`, `d_h`, `grad_h`, `h_bar`."""
    match = _CALLED.match(name)
    return [] if match is None else [g for g in match.groups() if g]


def bases(target: ast.expr) -> set[str]:
    """Names that an assignment gives, or into whose arrays it writes: `d` of `d[i]`, not `i`."""
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return {name for e in target.elts for name in bases(e)}
    return names_in(target)


def mentions(node: ast.AST) -> set[str]:
    """Names that a node mentions, and what they hold by name: of `self.w`, `self` and that."""
    return names_in(node) | {_attribute_name(n) for n in ast.walk(node)} - {""}


def gives(target: ast.expr) -> set[str]:
    """What an assignment gives or changes, in these words: `d` of `d[i]`, `self.grads` of
    `self.grads["W"]`."""
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred) and not _attribute_name(
        target
    ):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return {name for e in target.elts for name in gives(e)}
    return {_attribute_name(target)} if _attribute_name(target) else names_in(target)


def _attribute_name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            return f"{name}.{attr}"
        case _:
            return ""


def is_stored(node: ast.Name) -> bool:
    """Whether a name is assigned to."""
    return isinstance(node.ctx, ast.Store)


def is_simple(node: ast.AST) -> bool:
    """Whether a node only names something: `self.x`, `cache["x"]`, `saved[0]`."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute():
            return node.attr not in ("T", "mT", "H", "shape", "ndim") and is_simple(node.value)
        case ast.Subscript():
            return isinstance(node.slice, ast.Constant) and is_simple(node.value)
        case _:
            return False


def is_sum(node: ast.AST) -> bool:
    """Whether two terms are added, or one is taken from another."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def is_literal(node: ast.AST) -> bool:
    """Whether an expression is put together of constants only."""
    kinds = ast.Constant | ast.Tuple | ast.List | ast.UnaryOp | ast.USub | ast.Load
    return all(isinstance(n, kinds) for n in ast.walk(node))


def names_computed(draft: Draft) -> set[str]:
    """Names that are computed: an edit belongs there, not where the name is read."""
    found = set[str]()
    for n in draft.nodes:
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not is_simple(value):
                found.add(name)
            case _:
                continue
    return found


def loop_carried_names(draft: Draft) -> set[str]:
    """Names that a loop gives another value in each turn, made of the one before."""
    return {
        name
        for loop in draft.nodes
        if isinstance(loop, ast.For | ast.While)
        for n in ast.walk(loop)
        if isinstance(n, ast.Assign)
        for name in names_in(n.value) & {t.id for t in n.targets if isinstance(t, ast.Name)}
    }


def reads(draft: Draft) -> list[ast.Name]:
    """Where names are read."""
    return [n for n in draft.nodes if isinstance(n, ast.Name) and not is_stored(n)]


def only_reads(draft: Draft, names: set[str] | None = None) -> set[tuple[int, int]]:
    """Where a name (of some names) is read that is read nowhere else."""
    count = Counter([n.id for n in reads(draft)])
    chosen = [n for n in reads(draft) if count[n.id] == 1 and (names is None or n.id in names)]
    return {draft.span(n) for n in chosen}


def read_once(draft: Draft) -> set[tuple[int, int]]:
    """Where a name that is computed once is read for the only time, other than by a call that is
    made for what it does."""
    found = only_reads(draft, names_computed(draft) & stored_once(draft))
    calls = [n.value for n in draft.nodes if isinstance(n, ast.Expr)]
    done = [a for c in calls if isinstance(c, ast.Call) for a in c.args]
    return found - {draft.span(a) for a in done if isinstance(a, ast.Name)}


def stored_once(draft: Draft) -> set[str]:
    """Names that are given a value in one place."""
    count = Counter([n.id for n in draft.nodes if isinstance(n, ast.Name) and is_stored(n)])
    return {name for name, k in count.items() if k == 1}


def assigned_once(draft: Draft) -> set[str]:
    """Names that one statement gives, and none changes."""
    written = {
        name
        for n in draft.nodes
        if isinstance(n, ast.Subscript | ast.Attribute) and isinstance(n.ctx, ast.Store)
        for name in bases(n)
    }
    calls = [n.value for n in draft.nodes if isinstance(n, ast.Expr)]
    into = [fills(c) for c in calls if isinstance(c, ast.Call)]
    written |= {name for target in into if target is not None for name in bases(target)}
    return stored_once(draft) - written


def replaces_unread(draft: Draft, statement: ast.Assign, name: str) -> bool:
    """Whether a statement gives a name another value, and nothing has read the one that a statement
    of the same block gave it before."""
    block = cast("list[ast.stmt]", getattr(draft.parents[statement], "body", []))
    if statement not in block or name in names_in(statement.value):
        return False
    for other in reversed(block[: block.index(statement)]):
        if isinstance(other, ast.Assign) and name in map(draft.src, other.targets):
            return True
        if name in names_in(other):
            return False
    return False


def unread(draft: Draft) -> set[str]:
    """Local names that are assigned and never read: they were meant for something."""
    loaded = {n.id for n in reads(draft)}
    stored = {n.id for n in draft.nodes if isinstance(n, ast.Name) and is_stored(n)}
    every = {*stored, *draft.parameters} - loaded
    return {n for n in every if not n.startswith("_")}


def origin(draft: Draft, node: ast.expr) -> ast.expr:
    """Of a name that one statement gives a literal, that literal; of anything else, itself."""
    if not isinstance(node, ast.Name) or node.id not in assigned_once(draft):
        return node
    for n in draft.nodes:
        match n:
            case ast.Assign(targets=[ast.Name() as one], value=value):
                pairs = [(one, value)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=False))
            case _:
                continue
        for target, value in pairs:
            if isinstance(target, ast.Name) and target.id == node.id and is_literal(value):
                return value
    return node
