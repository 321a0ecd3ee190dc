"""Functions of the user's that a backward calls: the mistake may be in one of them. And those that
a forward calls: what a backward should give is known of their values, too."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeAlias, cast

from chainrule.engine.source_text import definition
from chainrule.verify.repair.budget import HELPERS
from chainrule.verify.repair.code.draft import UnreadableError, python_function
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.subject import Source, Subject

Space: TypeAlias = dict[str, Any] | type
"""Where a function has its name: a module's names, or a class."""


def helpers(posed: Problem) -> list[Source]:
    """Functions and methods of the same file that run while the backward does, as sources: changed,
    they are changed for the backward only. So what a forward of its own calls as well is none: to
    change it is to change what is differentiated."""
    try:
        names = python_function(posed.source.function).__globals__
    except UnreadableError:
        return []
    source = posed.source
    made = [_source(source, b, source.replaced) for b in _bound(names, _ran(posed))]
    found = [s for s in made if s is not None]
    if source.separate_forward is None:  # Who calls others computes what these do not.
        found = [replace(s, of_value=_makes_value(posed, s)) for s in found]
        of_value = [s for s in found if s.of_value]
        found = [*[s for s in found if not s.of_value], *reversed(of_value)]
    return found[:HELPERS]


def _makes_value(posed: Problem, helper: Source) -> bool:
    """Whether the value depends on what a helper gives first, where one function computes that and
    its gradients: changed, it is refused."""

    @functools.wraps(helper.function)
    def other(*args: Any, **settings: Any) -> Any:
        value: object = helper.function(*args, **settings)
        if not isinstance(value, tuple) or not value:
            return _moved(value)
        held = cast("tuple[object, ...]", value)
        return (_moved(held[0]), *held[1:])

    return posed.run(helper.replaced(other), posed.targets[0]) is None


def _moved(value: Any) -> Any:
    """Other numbers of the same kinds, in what holds them too."""
    match value:
        case bool() | int() | str():
            return value
        case tuple() | list():
            held = [_moved(v) for v in cast("Iterable[Any]", value)]
            return tuple(held) if isinstance(value, tuple) else held
        case dict():
            return {k: _moved(v) for k, v in cast("dict[Any, Any]", value).items()}
        case _:
            array = plain(value)
            floats = array is not None and array.dtype.kind in "fc"
            return value * 1.01 + 0.01 if floats else value


def helpers_of_forward(subject: Subject, xs: Sequence[Any]) -> list[Source]:
    """The same of its forward, all of them: changed, they are changed for the forward."""
    source = None if subject.source is None else subject.source.forward
    if source is None:
        return []
    try:
        function = python_function(source.function)
    except UnreadableError:
        return []
    ran = dict[CodeType, None]()
    with _profiled(function.__code__.co_filename, lambda code: ran.setdefault(code)):
        subject.forward(xs)
    ran.pop(function.__code__, None)
    put = source.computed or source.replaced
    found = [_source(source, b, put) for b in _bound(function.__globals__, ran)]
    return [s for s in found if s is not None][:HELPERS]


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
    function = python_function(posed.source.function)
    found = dict[CodeType, None](), dict[CodeType, None]()
    inside = False

    def watched(*args: Any, **settings: Any) -> Any:
        nonlocal inside
        inside = True
        try:
            return posed.source.function(*args, **settings)
        finally:
            inside = False

    subject = posed.source.replaced(functools.wraps(posed.source.function)(watched))
    file = function.__code__.co_filename
    with _profiled(file, lambda code: found[inside].setdefault(code)):
        posed.run(subject, posed.targets[0])
    forward, backward = found
    own = [c for c in backward if c is not function.__code__]
    if posed.source.separate_forward is not None:
        return [c for c in own if c not in forward]
    own.reverse()  # Gradients come after values.
    return sorted(own, key=forward.__contains__)


@contextmanager
def _profiled(file: str, tell: Callable[[CodeType], object]) -> Generator[None]:
    """Within it, `tell` hears of the code of a file that is called."""

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == file:
            tell(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(before)


def _bound(names: dict[str, Any], ran: Iterable[CodeType]) -> Iterator[_Bound]:
    """The functions that have this code, under their names."""
    for code in ran:
        yield from [b for b in _functions(names) if b.function.__code__ is code][:1]


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


def _source(
    source: Source, bound: _Bound, put: Callable[[Callable[..., Any]], Subject]
) -> Source | None:
    """A helper's code; `put` makes a subject with another function in the place of its caller,
    which is `source`."""
    found = definition(bound.function)
    if found is None:
        return None
    lines, first = found

    def replaced(helper: Callable[..., Any]) -> Subject:
        @functools.wraps(source.function)
        def caller(*args: Any, **settings: Any) -> Any:
            with bound.replaced(helper):
                return source.function(*args, **settings)

        return put(caller)

    return Source(
        source.file, first, "".join(lines), bound.function, replaced, source.forward,
        rewritten=source.rewritten, handing_on=source.handing_on,
    )  # fmt: skip
