"""What a backward reads outside, and its forward has read as well, is it still what it was?

A Function's backward runs later than its forward. Between the two a temperature may be annealed, a
mask be drawn anew; on ctx the old one would have been kept. So plain numbers and tensors that both
read by the same words (globals, what objects among them hold, cells of closures) are noted when a
forward has run, and again when PyTorch is about to run its backward. Nothing of the user's runs to
read them: what a property computes is not asked for.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MemberDescriptorType, ModuleType
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch.autograd import Function

from chainrule.verify.pytorch.door import unseen
from chainrule.verify.pytorch.nested_tensors import tensors_in
from chainrule.verify.pytorch.sources import backward_of, states
from chainrule.verify.trees import tree_of
from chainrule.verify.user_code import function_of, text_of

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


_LARGEST = 1 << 18
"""Elements of a tensor that is copied at each call."""
_CALLS = 64
"""Calls of one class that are looked at."""


@dataclass(frozen=True, eq=False)
class Noted:
    """A value at some time: a plain number, or a copy of the tensor `of`."""

    value: Any
    of: Tensor | None = None

    @classmethod
    def at(cls, value: Any) -> Noted | None:
        """None for anything else, and for a tensor that is too large."""
        if isinstance(value, bool | int | float | complex):
            return cls(value)
        if not isinstance(value, Tensor) or value.numel() > _LARGEST or value.is_meta:
            return None
        return cls(value.detach().clone(), value)

    def is_now(self, value: Any) -> bool:
        """Whether it is the same still."""
        if self.of is None or not isinstance(value, Tensor):
            return self.of is None and _alike(self.value, value)
        return value.shape == self.value.shape and bool(_same(value.detach(), self.value))

    @property
    def is_rewritten(self) -> bool:
        """Whether it is a tensor that has been written to since."""
        return self.of is not None and not self.is_now(self.of)


Notes: TypeAlias = Mapping[Outer, Noted]


@dataclass(frozen=True, eq=False)
class Changed:
    """What a backward read outside when it had another value than for its forward."""

    function: type[Function]
    outer: Outer
    then: Noted
    now: Noted

    @contextmanager
    def being(self, noted: Noted) -> Generator[None]:
        """Inside, the function reads one of both values."""
        f = backward_code(self.function)
        before = self.outer.read(f)
        self.outer.write(f, noted.value)
        try:
            yield
        finally:
            self.outer.write(f, before)


class Outside:
    """Notes what forwards read outside, and compares when their backwards run."""

    def __init__(self) -> None:
        self.changed: dict[tuple[type[Function], Outer], Changed] = {}
        self._calls: dict[type[Function], int] = {}
        self._hooks: list[Any] = []

    def begins(self, function: type[Function]) -> Notes:
        """Note what a call that is about to be made will read."""
        count = self._calls.get(function, 0)
        found = outers(function) if torch.is_grad_enabled() and count < _CALLS else ()
        if not found:
            return {}
        f = backward_code(function)
        with unseen():
            notes = {o: n for o in found if (n := Noted.at(o.read(f))) is not None}
        self._calls[function] = count + bool(notes)
        return notes

    def ended(self, function: type[Function], notes: Notes, out: Any) -> None:
        """The call has been made. What it changed by itself, nobody else has changed."""
        if not notes:
            return
        f = backward_code(function)
        with unseen():
            notes = {o: n for o, n in notes.items() if n.is_now(o.read(f))}
            for node in {t.grad_fn: None for t in tensors_in(out)}:
                if getattr(type(node), "_forward_cls", None) is function:
                    hook = partial(self._runs, function, f, notes)
                    self._hooks.append(cast("Any", node).register_prehook(hook))

    def stop(self) -> None:
        """Compare no more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _runs(self, function: type[Function], f: Any, notes: Notes, *_: Any) -> None:
        """PyTorch is about to run a backward; our failure is not the program's."""
        with suppress(Exception), unseen():
            for outer, then in notes.items():
                value = outer.read(f)
                now = None if then.is_now(value) else Noted.at(value)
                if now is not None:
                    row = Changed(function, outer, then, now)
                    self.changed.setdefault((function, outer), row)


def _alike(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _same(a: Tensor, b: Tensor) -> Tensor:
    return ((a == b) | ((a != a) & (b != b))).all()
