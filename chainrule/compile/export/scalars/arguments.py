"""Arguments of a function of `Value`s as arrays: evenly nested numbers of one kind are one.

`tokens: list[int]` is one array of int64, `rows: list[list[float]]` one of float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast, final

import numpy as np

from chainrule.compile.scalars.record import is_number
from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.tree import Structure

INT, FLOAT, VALUE = "an int", "a float", "a Value"


@final
@dataclass(frozen=True, slots=True)
class Argument:
    """Numbers of one `kind` among the arguments: their name, how they are nested, and which of the
    leaves they are."""

    path: str
    kind: str
    shape: tuple[int, ...]
    leaves: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        """What an array of them has."""
        return np.dtype(np.int64 if self.kind is INT else np.float64)

    def read(self, leaves: Sequence[Any], what: str) -> Array:
        """Their array, of the leaves of a call."""
        found = [getattr(leaves[i], "data", leaves[i]) for i in self.leaves]
        if self.kind is INT and any(not -(2**63) <= x < 2**63 for x in found):
            raise ConfigError(f"{what}: {self.path} has an int of more than 64 bits")
        return np.array(found, self.dtype).reshape(self.shape)

    def element(self, leaf: int) -> str:
        """What one of them is called: `tokens[3]`."""
        at = np.unravel_index(self.leaves.index(leaf), self.shape) if self.shape else ()
        return self.path + "".join([f"[{i}]" for i in at])


def kind_of(x: Any) -> str | None:
    """What kind of number it is; None of what is part of the program."""
    if is_number(x):
        return FLOAT if type(x) is float else VALUE
    return INT if cast("type[object]", type(x)) is int else None


def arguments_of(
    names: Mapping[int, str], structure: Structure, leaves: Sequence[Any]
) -> list[Argument]:
    """All numbers among the arguments, in order. `names` are what leaves are called, by number:
    `batch.images.3` is within `batch.images`."""
    kinds, number = [kind_of(x) for x in leaves], count()
    given = [child for one in structure.children for child in one.children]
    return [a for child in given for a in _arrays(child, names, kinds, number)]


def _arrays(
    s: Structure, names: Mapping[int, str], kinds: Sequence[Any], number: Iterator[int]
) -> Iterator[Argument]:
    """The arguments that a container is made of: arrays where it is evenly nested, numbers
    elsewhere."""
    shape = _shape(s)
    if shape is None:
        for child in s.children:
            yield from _arrays(child, names, kinds, number)
        return
    size = int(np.prod(shape))
    leaves = tuple([next(number) for _ in range(size)])
    found = {kinds[i] for i in leaves}
    if len(found) == 1 and None not in found and shape:
        path = names[leaves[0]].rsplit(".", len(shape))[0]
        yield Argument(path, found.pop(), shape, leaves)
    else:
        yield from [Argument(names[i], kinds[i], (), (i,)) for i in leaves if kinds[i]]


def _shape(s: Structure) -> tuple[int, ...] | None:
    """How lists or tuples of leaves are nested; None if that is uneven, or something else."""
    if s.kind is None:
        return ()
    if s.kind not in (list, tuple) or not s.children:
        return None
    inner = {_shape(c) for c in s.children}
    first = inner.pop()
    return None if inner or first is None else (len(s.children), *first)
