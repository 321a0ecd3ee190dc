"""What a function can reach, read off its code without running it.

A function of single numbers runs so many instructions that following each takes far longer than the
function itself. So everything that its code names counts as read. These are variables of its module
and of enclosing functions, what these hold, and the functions and classes among them in turn.
"""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, final

from chainrule.compile.trace.guards.cells import content
from chainrule.compile.trace.guards.contents import contents
from chainrule.compile.trace.guards.followed_code import is_followed, is_followed_file
from chainrule.compile.trace.guards.lookup import bound_objects, instance_dict, names_of
from chainrule.compile.trace.guards.notes import Notes
from chainrule.compile.trace.guards.places import ABSENT
from chainrule.compile.trace.guards.values import is_atom, is_value
from chainrule.errors import TraceError


def all_readings(roots: Iterable[Any]) -> Notes:
    """Notes of all that functions among `roots` can read, as it is now; `finish` them afterwards.

    Raises `TraceError` for an iterator, whose place no later call would find again.
    """
    walk = _Walk(Notes(lambda x: False))
    for root in roots:
        for part in bound_objects(root):
            walk.notes.add(part, getattr(part, "__name__", type(part).__name__))
            walk.to(part)
    walk.run()
    return walk.notes


@final
class _Walk:
    """A walk from object to object; each is looked at once."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self._todo: list[Any] = []
        self._seen: set[int] = set()

    def to(self, x: Any) -> None:
        """Look at x later, if it was not looked at."""
        if not is_value(x) and not is_atom(x) and id(x) not in self._seen:
            self._seen.add(id(x))
            self._todo.append(x)

    def run(self) -> None:
        """Look at everything."""
        while self._todo:
            x = self._todo.pop()
            for part in self._look(x):
                self.to(part)

    def _look(self, x: Any) -> Iterable[Any]:
        """Note what is read of x; the objects to look at next."""
        if isinstance(x, FunctionType):
            return self._function(x) if is_followed(x.__code__, x.__globals__) else ()
        if isinstance(x, MethodType):
            return x.__self__, x.__func__
        if isinstance(x, partial):
            return x.func, *x.args, *x.keywords.values()
        if isinstance(x, type):
            return self._class(x)
        if isinstance(x, ModuleType):
            return ()
        if isinstance(x, list | tuple | set | frozenset | dict):
            contents(self.notes, x, deep=True)
            return list(x.values() if isinstance(x, dict) else x)
        if hasattr(type(x), "__next__") and not isinstance(type(x).__next__, FunctionType):
            raise TraceError(
                f"a compiled function can take from {self.notes.text(x)}, an iterator "
                f"({type(x).__name__}): that would happen while it is traced, and never again. "
                "Give what it yields as an argument"
            )
        contents(self.notes, x, deep=True)
        return [*(instance_dict(x) or {}).values(), type(x)]

    def _function(self, f: FunctionType) -> Iterator[Any]:
        """What a function can reach at once: its cells, its globals, its defaults."""
        code, notes = f.__code__, self.notes
        notes.functions.append(f)
        notes.at = code, 0
        for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
            notes.cell(cell, name, content(cell))
            if content(cell) is not ABSENT:
                yield content(cell)
        names = set(names_in(code))
        for name in sorted(names & f.__globals__.keys()):
            notes.entry(f.__globals__, name, name)
            value = f.__globals__[name]
            yield value
            if isinstance(value, ModuleType) and is_followed_file(value):
                yield from self._module(value, names)
        for value in [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]:
            notes.add(value, f"a default of {f.__name__}")
            yield value

    def _module(self, module: ModuleType, names: set[str]) -> Iterator[Any]:
        """Attributes of a module that the code names."""
        for name in sorted(names & vars(module).keys()):
            self.notes.entry(vars(module), name, f"{module.__name__}.{name}")
            yield vars(module)[name]

    def _class(self, cls: type) -> Iterator[Any]:
        """What a class of the user's and its bases have."""
        for base in cls.__mro__:
            if (names := names_of(base)) is None or not _is_users(base):
                continue
            for name, value in list(names.items()):
                if not (name.startswith("__") and name.endswith("__")):
                    self.notes.entry(names, name, f"{base.__name__}.{name}")
                yield getattr(value, "__func__", value)


def names_in(code: CodeType) -> Iterator[str]:
    """The names in code, and in the functions that it makes."""
    yield from code.co_names
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from names_in(x)


def _is_users(cls: type) -> bool:
    functions = [f for f in vars(cls).values() if isinstance(f, FunctionType)]
    return all(is_followed(f.__code__, f.__globals__) for f in functions[:1])
