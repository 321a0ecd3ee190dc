"""Compiled code on disk: a second process that wants the same program compiles nothing.

An entry's name is a digest of all that the code depends on: the source of this compiler, LLVM,
Python, NumPy, the processor, and the simplified program. (Ops with their parameters, shapes,
dtypes, constants, which input is updated with what.) What is in an entry was made of exactly that,
so it is never out of date; it can only be superfluous, and goes when the folder has grown too
large.

The folder is $CHAINRULE_CACHE_DIR, else `chainrule` in $XDG_CACHE_HOME or ~/.cache; where the first
of these is set to nothing, there is no cache. An entry is data and an object file (see
`entry.py`), signed with a key that only this user can read (see `folder.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from types import EllipsisType
from typing import Any, final

import numpy as np

from chainrule.compile.graph.terms import Program, in_order
from chainrule.compile.runtime.cache import entry
from chainrule.compile.runtime.cache.checked_json import MalformedError
from chainrule.compile.runtime.cache.entry import UnwritableError
from chainrule.compile.runtime.cache.folder import folder
from chainrule.compile.runtime.cache.surroundings import digest_of, surroundings
from chainrule.compile.runtime.scratch import Made
from chainrule.compile.target import Target
from chainrule.engine.op import Op

# --- what code depends on, in words --------------------------------------------------------------


@final
class NamelessError(Exception):
    """Something in a program of which another process could not tell that it is the same."""


def word(x: Any) -> str:
    """`x` in a word that differs wherever anything that matters to compiled code differs.

    Raises NamelessError for functions and other things without a value.
    """
    kind, of = type(x).__name__, x  # `x` stays Any where `of` is narrowed
    match of:
        case None | bool() | int() | float() | complex() | str() | bytes() | EllipsisType():
            return f"{kind}:{x!r}"
        case np.dtype():
            return f"dtype:{x.name}{x.str}"
        case np.ndarray() | np.generic():
            return f"{kind}:{word(x.dtype)}{x.shape}{blake2b(x.tobytes()).hexdigest()}"
        case slice():
            return f"slice{word((x.start, x.stop, x.step))}"
        case tuple() | list():
            return f"{kind}({','.join([word(v) for v in x])})"
        case set() | frozenset():
            return f"{kind}({','.join(sorted([word(v) for v in x]))})"
        case dict():
            return f"{kind}({','.join(sorted([word(v) for v in x.items()]))})"
        case type():
            return f"class:{x.__module__}.{x.__qualname__}"
        case Op():
            make, given = x.__reduce__()
            return f"op:{make.__module__}.{make.__qualname__}{word(given)}"
        case Program():
            return f"program({';'.join(_program(x))})"
        case _ if is_dataclass(x):
            # by the custom of this house, what begins with _ is worked out from the others
            values = [getattr(x, f.name) for f in fields(x) if not f.name.startswith("_")]
            return f"{word(type(x))}{word(values)}"
        case _:
            raise NamelessError(f"a {kind}")


def _program(program: Program) -> Iterator[str]:
    """A program term by term, in which terms are numbers."""
    order = in_order(program.roots)
    number = {t: i for i, t in enumerate(order)}
    for t in order:
        of = word(t.op) if t.op is not None else f"{t.index}={word(t.value)}"
        yield f"{of}{[number[a] for a in t.args]}{word((t.shape, t.dtype))}"
    yield word([(t.index, t.shape, t.dtype) for t in program.inputs])
    yield f"{[number[t] for t in program.results]}"
    yield f"{[(i, number[t]) for i, t in program.updates]}"


def name_of(program: Program, target: Target) -> str | None:
    """The name of a program's entry here; None for one that another process cannot recognize."""
    return _name(program, surroundings(target))


def _name(program: Program, around: str) -> str | None:
    try:
        text = f"{around}\n{word(program)}"
    except NamelessError:
        return None
    return blake2b(text.encode(), digest_size=20).hexdigest()


# --- a program's entry ---------------------------------------------------------------------------


@final
class Entry:
    """Where what was made of a program is kept."""

    def __init__(self, program: Program, target: Target) -> None:
        self._program, self._folder = program, folder()
        self.name, self._label = None, ("", "")
        if self._folder is not None:
            around = surroundings(target)
            self.name = _name(program, around)
            self._label = str(self.name), digest_of(around)

    def get(self) -> Made | None:
        """What is kept, None if nothing is."""
        if self._folder is None or self.name is None:
            return None
        body = self._folder.get(self.name)
        try:
            return None if body is None else entry.read(body, self._program, self._label)
        except MalformedError:
            return None

    def put(self, made: Made) -> None:
        """Keep `made`, if it can be kept."""
        if self._folder is None or self.name is None:
            return
        try:
            body = entry.write(made, self._program, self._label)
        except UnwritableError:
            return  # an op that the schedule brought in
        self._folder.put(self.name, body)
