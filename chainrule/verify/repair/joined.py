"""Backwards that derive their gradients by running code: where they take a value off its graph.

A backward may compute the forward again and let the engine derive it. A value that is detached
there, or was kept as a number, is a constant to the engine: what comes back through it is lost.
To put it back on the graph changes no value, so that it may be done in what the forward calls, too.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from chainrule.verify.patches import Patches
from chainrule.verify.reading import source_of
from chainrule.verify.repair.draft import Draft, Edit, UnreadableError, plain_function
from chainrule.verify.repair.fit import replaced
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.rules.anew import body_alone
from chainrule.verify.repair.search import Version, applied
from chainrule.verify.repair.wording import called_by, forward_texts
from chainrule.verify.subject import Source, Subject
from chainrule.verify.trees import tree_of

_DERIVING = re.compile(r"\b(vjp|jvp|grad|jacobian|enable_grad|backward|pullback)\s*\(")
"""What a backward calls that lets the engine derive something."""
_CUTTING = ("detach", "item")
_KEPT, _TAKEN_OFF = 0.8, 0.7
"""How unlikely it is that a value was kept for this, and that one was taken off its graph."""


def deriving(posed: Problem) -> list[Source]:
    """The backward's code and that of the functions it calls, if it lets the engine derive what
    they compute: none if not."""
    own = posed.source
    body = own.text.partition("\n")[2]  # Behind its first line, or its decorator.
    if not _DERIVING.search(re.sub(r"\bdef\s+\w+", "", body)):
        return []
    try:
        called = list(called_by(own))
    except UnreadableError:
        return [own]
    helpers = [_helper(own, f) for f in called]
    return [own, *[h for h in helpers if h is not None]]


def _helper(own: Source, f: FunctionType) -> Source | None:
    """A function of the module, changed while the backward runs; the forward gives the same."""

    def changed(function: Callable[..., Any]) -> Subject:
        @functools.wraps(own.function)
        def backward(*args: Any, **settings: Any) -> Any:
            patches = Patches()
            patches.put(_Module(f.__globals__), f.__name__, lambda _: function)
            try:
                return own.function(*args, **settings)
            finally:
                patches.undo()

        return own.replaced(backward)

    return source_of(f, changed)


class _Module:
    """The names of a module, as attributes."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


def joined(problem: Problem, first: Draft) -> Iterator[Version]:
    """Versions that are right, in which a value stays on its graph."""
    at = problem.targets[0]
    errors = problem.errors(plain_function(problem.source.function), at)
    start = Version(first, (), errors)
    for edit in sorted(_edits(first), key=lambda e: e.cost):
        found = None if problem.over else applied(problem, at, start, edit)
        if found is not None and found.right:
            yield found


def _edits(draft: Draft) -> Iterator[Edit]:
    for node in draft.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _CUTTING:
                pass
            case ast.Attribute(value=inner, attr="data", ctx=ast.Load()):
                pass
            case ast.With(items=[ast.withitem(context_expr=how)], body=body) if (
                "no_grad" in draft.src(how)
            ):
                start, end = draft.span(node)
                text, says = body_alone(draft, node, body), "it is computed with its graph"
                yield Edit(start, end, text, "partly_detached", _TAKEN_OFF, says)
                continue
            case _:
                continue
        yield replaced(draft, node, draft.src(inner), "partly_detached", _TAKEN_OFF)
    yield from _computed_anew(draft)


def _computed_anew(draft: Draft) -> Iterator[Edit]:
    """In what the engine derives: how a value was computed, in place of what was kept of it."""
    made = _made(draft.source)
    for node in draft.nodes:
        kept = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        if kept and _is_derived(draft, node):
            for text in dict.fromkeys(made.get(draft.src(node), [])):
                yield replaced(draft, node, text, "partly_detached", _KEPT)


def _made(source: Source) -> dict[str, list[str]]:
    """What the forward, or the code itself, computes under each name, or keeps under it."""
    found = dict[str, list[str]]()
    for text in (*forward_texts(source), source.text):
        for node in ast.walk(tree_of(text)):
            match node:
                case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                    names = found.get(ast.unparse(value), [])
                    texts = names or [ast.unparse(value)]
                    found.setdefault(ast.unparse(target), []).extend(texts)
                case _:
                    continue
    return found


def _is_derived(draft: Draft, node: ast.AST) -> bool:
    """Whether a node is in a function within the backward, or where it records a graph."""
    while node in draft.parents:
        node = draft.parents[node]
        match node:
            case ast.FunctionDef() | ast.Lambda() if node is not draft.root:
                return True
            case ast.With(items=items):
                if any("enable_grad" in draft.src(i.context_expr) for i in items):
                    return True
            case _:
                continue
    return False
