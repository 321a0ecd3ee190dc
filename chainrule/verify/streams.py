"""Random streams: a forward that draws numbers is to draw the same ones at every run.

Which streams a function draws from is found by running it once. Only those are set back at later
runs, to where they were before the first; and put where they were afterwards, so that a program
which is verified goes on as if nothing had happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from chainrule.random import Generator as OwnGenerator
from chainrule.random import default_generator
from chainrule.verify.user_code import function_of

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Stream:
    """One stream: how its state is read and set, and where it is to start."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]
    start: Any


def stream(get: Callable[[], Any], put: Callable[[Any], Any]) -> Stream:
    """A stream that is to start where it stands now."""
    return Stream(get, put, get())


def numpy_and_python() -> list[Stream]:
    """The global streams of both."""
    numpy_get: Any = lambda: np.random.get_state(legacy=False)
    return [stream(random.getstate, random.setstate), stream(numpy_get, np.random.set_state)]


def moved_streams(some: Iterable[Stream]) -> list[Stream]:
    """Those from which something was drawn since."""
    return [s for s in some if not _same(s.get(), s.start)]


def streams(functions: Iterable[Any] = ()) -> list[Stream]:
    """The global streams, and generators that the functions reach by name, as they are now."""
    generators = [_of(g) for g in _generators(functions)]
    return [*numpy_and_python(), _of_own(default_generator), *generators]


def _of_own(generator: OwnGenerator) -> Stream:
    def put(state: Any) -> None:
        generator.state = state

    return stream(lambda: generator.state, put)


def _of(generator: Any) -> Stream:
    if isinstance(generator, OwnGenerator):
        return _of_own(generator)
    bits = generator.bit_generator

    def put(state: Any) -> None:
        bits.state = state

    return stream(lambda: bits.state, put)


def _generators(functions: Iterable[Any]) -> list[Any]:
    """Generators in the closures, defaults and used globals of functions."""
    found: dict[int, Any] = {}
    for f in functions:
        code = function_of(f)
        if code is None:
            continue
        cells = [c.cell_contents for c in code.__closure__ or () if _filled(c)]
        used = [code.__globals__.get(n) for n in code.__code__.co_names]
        for x in (*cells, *(code.__defaults__ or ()), *used):
            if isinstance(x, np.random.Generator | OwnGenerator) and x is not default_generator:
                found[id(x)] = x
    return list(found.values())


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that has no value yet
        return False


def streams_drawn(
    run: Callable[[], _T], functions: Iterable[Any] = ()
) -> tuple[_T, tuple[Stream, ...]]:
    """What `run` gives, and the streams that it drew from; they are put back."""
    known = streams(functions)
    try:
        result = run()
    finally:
        drawn_from = moved_streams(known)
        for s in drawn_from:
            s.set(s.start)
    return result, tuple(drawn_from)


def _same(a: Any, b: Any) -> bool:
    """Whether two states are equal; they are nested dicts, tuples, arrays and numbers."""
    if isinstance(a, dict):
        return all(_same(a[k], b[k]) for k in a)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))  # pyright: ignore[reportUnknownArgumentType]
    return bool(a == b)


@contextmanager
def replay(some: Iterable[Stream]) -> Generator[None]:
    """Within it, streams start where they started at first; then they are where they were."""
    before = [(s, s.get()) for s in some]
    for s, _ in before:
        s.set(s.start)
    try:
        yield
    finally:
        for s, state in before:
            s.set(state)
