"""The words by which a function reads something outside of it: globals, what objects among them
hold, cells of closures.

Nothing of the user's runs to read it: what a property computes is not asked for.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MemberDescriptorType, ModuleType
from typing import Any, cast

import torch
from torch.autograd import Function

from chainrule.verify.pytorch.sources import backward_of, states
from chainrule.verify.reading import function_of, text_of
from chainrule.verify.trees import tree_of

MISSING: Any = object()
"""What is read where nothing is."""


@dataclass(frozen=True)
class Step:
    """From an object to what it holds: by the name of an attribute, or by an index."""

    key: str | int
    is_item: bool

    def taken(self, held: Any) -> Any:
        """What is held, `MISSING` if nothing is, or if code of the user's would have to say."""
        if self.is_item:
            plain = type(held) in (dict, list, tuple)
            try:
                return held[self.key] if plain else MISSING
            except (LookupError, TypeError):
                return MISSING
        name = str(self.key)
        for part in _parts(held):
            if name in part:
                return part[name]
        found = inspect.getattr_static(held, name, MISSING)
        if isinstance(found, MemberDescriptorType):  # a slot
            return getattr(held, name, MISSING)
        return MISSING if hasattr(cast(object, type(found)), "__get__") else found

    def put(self, held: Any, value: Any) -> None:
        """Let something else be held there; the user's code does not hear of it."""
        if self.is_item:
            held[self.key] = value
            return
        name = str(self.key)
        for part in _parts(held):
            if name in part:
                part[name] = value
                return
        owner = _owner(held, name)
        put = setattr if isinstance(owner, type | ModuleType) else object.__setattr__
        put(owner, name, value)


def _parts(held: Any) -> list[dict[str, Any]]:
    """Where a module has what it was given as buffers, parameters and modules."""
    if not isinstance(held, torch.nn.Module):
        return []
    names = ("_buffers", "_parameters", "_modules")
    return [cast("dict[str, Any]", vars(held).get(name, {})) for name in names]


def _owner(held: Any, name: str) -> Any:
    """Whose attribute it is: the object's own, or that of a class."""
    classes = held.__mro__ if isinstance(held, type) else type(held).__mro__
    for owner in (held, *classes):
        found = getattr(owner, "__dict__", {}).get(name, MISSING)
        if found is not MISSING:
            return held if isinstance(found, MemberDescriptorType) else owner
    return held


@dataclass(frozen=True)
class Outer:
    """Something outside of a function, by the words that read it: `schedule.value`."""

    text: str
    root: str
    steps: tuple[Step, ...]

    def read(self, f: Any) -> Any:
        """What a function would read there now."""
        found = _named(f, self.root)
        for step in self.steps:
            found = step.taken(found)
        return found

    def write(self, f: Any, value: Any) -> None:
        """Let the function read another value there."""
        if self.steps:
            way = replace(self, steps=self.steps[:-1])
            self.steps[-1].put(way.read(f), value)
        elif self.root in f.__code__.co_freevars:
            f.__closure__[f.__code__.co_freevars.index(self.root)].cell_contents = value
        else:
            f.__globals__[self.root] = value


def backward_code(function: type[Function]) -> Any:
    """The function that a user wrote as the backward."""
    return function_of(getattr(function, backward_of(function)))


@lru_cache(maxsize=256)
def outers(function: type[Function]) -> tuple[Outer, ...]:
    """What both the backward and the forward of a Function read outside, by the same words."""
    kept = [m for m in ("forward", "setup_context") if states(function, m)]
    there = {o for m in kept for o in _read_by(getattr(function, m))}
    return tuple([o for o in _read_by(getattr(function, backward_of(function))) if o in there])


def _read_by(f: Callable[..., Any]) -> Sequence[Outer]:
    function = function_of(f)
    text = text_of(f)
    if text is None or function is None:
        return ()
    nodes = [n for n in ast.walk(tree_of(text[0])) if isinstance(n, ast.expr)]
    found = [o for n in nodes if (o := _outer(function, n)) is not None]
    return list(dict.fromkeys(found))


def _outer(f: Any, node: ast.expr) -> Outer | None:
    """What an expression reads outside of a function; None if it computes, or is of the inside."""
    steps, root = list[Step](), node
    while not isinstance(root, ast.Name):
        match root:
            case ast.Attribute(value=inner, attr=name):
                steps.insert(0, Step(name, False))
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                steps.insert(0, Step(key, True))
            case _:
                return None
        root = inner
    inside = {*f.__code__.co_varnames, *f.__code__.co_cellvars}
    outside = root.id in f.__code__.co_freevars or root.id in f.__globals__
    if root.id in inside or not outside:
        return None
    return Outer(ast.unparse(node), root.id, tuple(steps))


def _named(f: Any, name: str) -> Any:
    """What a function finds outside by a name; a cell may be empty so far."""
    if name not in f.__code__.co_freevars:
        return f.__globals__.get(name, MISSING)
    try:
        return f.__closure__[f.__code__.co_freevars.index(name)].cell_contents
    except ValueError:
        return MISSING
