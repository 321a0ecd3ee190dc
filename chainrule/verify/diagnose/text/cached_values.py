"""What the text of a forward keeps for longer than its call, and what every call should keep.

`if Pool.winners is None: Pool.winners = x.argmax(-1)` is right for a table that depends on sizes
only. Of values it is that of the first call for ever. What lies on a class, in a module or in a
global name is replaced by another call's forward before this one's backward has read it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chainrule.verify.diagnose.case import Case, Guess, guess
from chainrule.verify.diagnose.text.forward import function_at
from chainrule.verify.place import Place
from chainrule.verify.subject import Subject
from chainrule.verify.trees import tree_of

_SIZES = ("shape", "size", "ndim", "dtype", "device", "numel", "dim", "itemsize")
"""What of an array says nothing of its values."""

_MAKERS = ("empty", "zeros", "ones", "new_empty", "new_zeros", "new_ones")
"""Functions that take of an array its size and kind only."""
_OWNERS = ("self", "cls", "ctx")
"""What people call the argument that belongs to an object or a call."""


@dataclass(frozen=True, eq=False)
class CachedValue:
    """What keeps a value, unless there is one."""

    node: ast.If | ast.IfExp | ast.Call
    """The statement or expression that decides whether it is kept."""
    target: str
    """Where it is kept, as the text has it."""
    kept: ast.expr
    """The value."""


def values_kept_once(function: ast.FunctionDef | ast.Lambda) -> list[CachedValue]:
    """All that a function keeps only where nothing is, of the values of its arguments."""
    found = [once for node in ast.walk(function) for once in _of(node)]
    lasting, read = _lasting(function), _from_arguments(function)
    return [
        once
        for once in found
        if (not once.target.isidentifier() or once.target in lasting)
        and _values_in(once.kept) & read
    ]


def value_of_first_call(case: Case) -> Iterator[Guess]:
    """A guess from the text: it is wrong for certain, and calls that share no object share this."""
    place = case.subject.place
    function = function_at(place)
    if function is None or place is None:
        return
    for once in values_kept_once(function):
        if once.target.startswith(tuple([f"{name}." for name in _OWNERS])):
            continue  # It does not outlive that.
        yield guess(
            "stale",
            0.85,
            f"line {once.kept.lineno} of the forward keeps `{once.target}` where there is none "
            "yet: later calls find that of the first one",
            f"`{once.target}` is that of another call",
            formula=f"keep `{once.target}` of each call for its own backward",
            place=Place(place.file, once.kept.lineno, place.function),
        )
        return


def _of(node: ast.AST) -> Iterator[CachedValue]:
    """Values that a statement keeps for longer than the call that makes them."""
    match node:
        case ast.If(test=test, body=body, orelse=[]):
            for n in body:
                for target, value in _assignments(n):
                    if _asks(test, target):
                        yield CachedValue(node, ast.unparse(target), value)
        case ast.Assign(targets=[target], value=ast.IfExp(test=test) as both):
            text = ast.unparse(target)
            kept = [v for v in (both.body, both.orelse) if ast.unparse(v) != text]
            if len(kept) == 1 and _asks(test, target):
                yield CachedValue(both, text, kept[0])
        case ast.Assign(targets=[target], value=ast.Call(args=[*_, value]) as call):
            if _default(call) == ast.unparse(target):
                yield CachedValue(call, ast.unparse(target), value)
        case ast.Call(func=ast.Attribute(value=table, attr="setdefault"), args=[key, value]):
            yield CachedValue(node, f"{ast.unparse(table)}[{ast.unparse(key)}]", value)
        case _:
            return


def _default(call: ast.Call) -> str:
    """What a call asks for, with another value if it is not there: `d.get(k, v)`."""
    match call:
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, _]):
            return f"{ast.unparse(table)}[{ast.unparse(key)}]"
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=name), _]):
            return f"{ast.unparse(owner)}.{name}"
        case _:
            return ""


def _assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from [(t, value) for t in targets]
        case _:
            return


def _asks(test: ast.expr, target: ast.expr) -> bool:
    """Whether a condition asks for what is at a place: reads it, looks whether there is such a key,
    or such an attribute."""
    asked = {ast.unparse(n) for n in ast.walk(test) if isinstance(n, ast.expr)}
    match target:
        case ast.Subscript(value=table, slice=key):
            return ast.unparse(target) in asked or {ast.unparse(table), ast.unparse(key)} <= asked
        case ast.Attribute(value=owner, attr=name):
            return ast.unparse(target) in asked or {ast.unparse(owner), repr(name)} <= asked
        case ast.Name(id=name):
            return name in asked
        case _:
            return False


def _lasting(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Names that are not of one call only."""
    kinds = (ast.Global, ast.Nonlocal)
    return {name for n in ast.walk(function) if isinstance(n, kinds) for name in n.names}


def _from_arguments(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Names of the arguments, and of what is computed of their values."""
    found = {a.arg for a in function.args.args} - {*_OWNERS}
    for _ in range(3):  # Loops hand values on; nobody's chains go further back than this.
        for n in ast.walk(function):
            if isinstance(n, ast.Assign) and _values_in(n.value) & found:
                names = [m for t in n.targets for m in ast.walk(t) if isinstance(m, ast.Name)]
                found |= {m.id for m in names if isinstance(m.ctx, ast.Store)}
    return found


def _values_in(node: ast.AST) -> set[str]:
    """Names of which an expression reads more than sizes and kinds."""
    match node:
        case ast.Attribute(attr=name) if name in _SIZES:
            return set()
        case ast.Call(func=ast.Name(id="len")):
            return set()
        case ast.Call(func=ast.Attribute(attr=f)) if f.startswith(_MAKERS):
            return set()
        case ast.Name(id=name):
            return {name}
        case _:
            return {name for n in ast.iter_child_nodes(node) for name in _values_in(n)}


_SHARED = ("cls",)
"""Arguments that all calls have in common."""


def shared_at(subject: Subject) -> Place | None:
    """The last line of the forward that keeps for all calls what the backward reads, as far as the
    text tells."""
    place, source = subject.place, subject.source
    forward = function_at(place)
    if forward is None or place is None or source is None:
        return None
    read = {ast.unparse(n) for n in ast.walk(tree_of(source.text)) if isinstance(n, ast.expr)}
    lines = [line for kept, line in _names_kept(forward) if kept in read]
    return replace(place, line=max(lines)) if lines else None


def _names_kept(forward: ast.FunctionDef | ast.Lambda) -> Iterator[tuple[str, int]]:
    """What is given a value that no call owns, as the text names it, and the line."""
    nodes = list(ast.walk(forward))
    shared = {name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    own = {a.arg for n in nodes if isinstance(n, ast.arguments) for a in (*n.args, *n.kwonlyargs)}
    own = (own | set(stored)) - shared - set(_SHARED)
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in [t for e in targets for t in getattr(e, "elts", [e])]:
            base = _base(target)
            if base and base not in own and (base in shared or not isinstance(target, ast.Name)):
                text = target.value if isinstance(target, ast.Subscript) else target
                yield ast.unparse(text), target.lineno


def _base(target: ast.expr) -> str:
    """The name with which a place begins."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
