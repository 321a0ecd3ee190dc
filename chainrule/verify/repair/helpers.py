"""Functions that a backward calls: the mistake may be in one of them.

Where a backward lets the engine derive its gradients, it may be a value that was taken off its
graph: to put it back changes no value.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeAlias, cast

from chainrule.source_text import definition
from chainrule.verify.patches import Patches
from chainrule.verify.reading import source_of
from chainrule.verify.repair.dialect import called_by, forward_texts
from chainrule.verify.repair.draft import Draft, Edit, UnreadableError, plain_function
from chainrule.verify.repair.fit import replaced
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.rules.saved import body_alone
from chainrule.verify.repair.search import Version, applied
from chainrule.verify.subject import Source, Subject
from chainrule.verify.trees import tree_of

_MOST = 4

Space: TypeAlias = dict[str, Any] | type
"""Where a function has its name: a module's names, or a class."""


def helpers(posed: Problem) -> list[Source]:
    """Functions and methods of the same file that run while the backward does, as sources: changed,
    they are changed for the backward only. So what a forward of its own calls as well is none: to
    change it is to change what is differentiated."""
    try:
        names = plain_function(posed.source.function).__globals__
    except UnreadableError:
        return []
    found = list[Source]()
    for code in _ran(posed):
        bound = next((b for b in _functions(names) if b.function.__code__ is code), None)
        source = None if bound is None else _source(posed.source, bound)
        found += [] if source is None else [source]
    return found[:_MOST]


@dataclass(frozen=True, eq=False)
class _Bound:
    """A function under its name; what holds it may be a staticmethod of it."""

    space: Space
    name: str
    function: FunctionType

    def put(self, function: Any) -> None:
        """Give the name to something else."""
        if isinstance(self.space, dict):
            self.space[self.name] = function
        else:
            setattr(self.space, self.name, function)

    @contextmanager
    def replaced(self, function: Callable[..., Any]) -> Generator[None]:
        """Give the name to another function for a time."""
        held = self.space if isinstance(self.space, dict) else vars(self.space)
        before: object = held[self.name]
        self.put(staticmethod(function) if isinstance(before, staticmethod) else function)
        try:
            yield
        finally:
            self.put(before)


def _ran(posed: Problem) -> list[CodeType]:
    """Code of the backward's file that runs while it does, each once: not what runs in a forward of
    its own as well, which is last where one function does both."""
    function = plain_function(posed.source.function)
    found = dict[CodeType, None](), dict[CodeType, None]()
    inside = False

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == function.__code__.co_filename:
            found[inside][frame.f_code] = None

    def watched(*args: Any, **settings: Any) -> Any:
        nonlocal inside
        inside = True
        try:
            return posed.source.function(*args, **settings)
        finally:
            inside = False

    subject = posed.source.replaced(functools.wraps(posed.source.function)(watched))
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        posed.run(subject, posed.targets[0])
    finally:
        sys.setprofile(before)
    forward, backward = found
    own = [c for c in backward if c is not function.__code__]
    if posed.source.separate_forward is not None:
        return [c for c in own if c not in forward]
    own.reverse()  # Gradients come after values.
    return sorted(own, key=forward.__contains__)


def _functions(names: dict[str, Any]) -> Iterator[_Bound]:
    """Functions of a module, and of its classes."""
    for name, value in list(names.items()):
        if isinstance(value, FunctionType):
            yield _Bound(names, name, value)
        elif isinstance(value, type):
            for attribute, held in list(vars(cast("type[Any]", value)).items()):
                inner = held.__func__ if isinstance(held, staticmethod) else held
                if isinstance(inner, FunctionType):
                    yield _Bound(value, attribute, inner)


def _source(source: Source, bound: _Bound) -> Source | None:
    found = definition(bound.function)
    if found is None:
        return None
    lines, first = found

    def replaced(helper: Callable[..., Any]) -> Subject:
        @functools.wraps(source.function)
        def backward(*args: Any, **settings: Any) -> Any:
            with bound.replaced(helper):
                return source.function(*args, **settings)

        return source.replaced(backward)

    return Source(
        source.file, first, "".join(lines), bound.function, replaced, source.forward,
        rewritten=source.rewritten, handing_on=source.handing_on,
    )  # fmt: skip


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
