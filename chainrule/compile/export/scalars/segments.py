"""One array of a program in the place of another, where each access says which part it is of.

The graph's program reads all leaves from one array, the update all that it reads. Between calls
these numbers lie in arrays by kind: data, gradients, lists. Where every access of a program stays
within one of them, it reads them there, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from chainrule.compile.loops.accesses import accesses
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Var
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import Kernel

Phases = list[tuple[str, list[Kernel]]]
Ranges = Mapping[Buffer, tuple[int, int]]
"""The least and the largest number in tables that each call fills anew."""


@final
@dataclass(frozen=True, slots=True)
class Segment:
    """So many elements from `start` on, which are those from `first` on of another buffer."""

    start: int
    size: int
    buffer: Buffer
    first: int = 0


class StraddlesError(Exception):
    """An access that may be of several segments, or of none."""


@final
class Splitter:
    """Where the accesses of a buffer go."""

    def __init__(self, segments: Sequence[Segment], ranges: Ranges) -> None:
        self._segments = segments
        self._ranges = ranges

    def __call__(self, at: Affine) -> tuple[Buffer, int]:
        """The buffer that an offset is in, and what is to be subtracted from it there."""
        low, high = self._bounds(at)
        for s in self._segments:
            if s.start <= low and high < s.start + s.size:
                return s.buffer, s.start - s.first
        raise StraddlesError

    def _bounds(self, at: Affine) -> tuple[int, int]:
        low = high = _number(at.const)
        for v, c in at.terms:
            ends = [_number(c) * x for x in self._ends(v)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _ends(self, v: Var | Expr) -> tuple[int, int]:
        if isinstance(v, Var):
            return 0, max(0, _number(v.extent) - 1)
        if v.kind == "index":
            return self._bounds(v.of)
        if v.kind == "load":
            buffer, _, when = v.of
            if when is None and buffer in self._ranges:
                return self._ranges[buffer]
            if when is None and buffer.value is not None and np.size(buffer.value):
                return int(np.min(buffer.value)), int(np.max(buffer.value))
        raise StraddlesError


def _number(n: object) -> int:
    if isinstance(n, int):
        return n
    raise StraddlesError


def with_segments(
    kernels: Sequence[Kernel], buffers: Mapping[Buffer, Sequence[Segment]], ranges: Ranges
) -> list[Kernel]:
    """The kernels with each of these `buffers` replaced by others; raises `StraddlesError`."""
    splitters = {b: Splitter(s, ranges) for b, s in buffers.items()}
    return [
        Kernel(k.name, Renaming(segments=splitters).body(k.body), k.about)
        if any(x.buffer in splitters for x in accesses(k.body))
        else k
        for k in kernels
    ]


def with_buffers(kernels: Sequence[Kernel], known: Mapping[Buffer, Buffer]) -> list[Kernel]:
    """The kernels with other buffers."""
    return [Kernel(k.name, Renaming(buffers=known).body(k.body), k.about) for k in kernels]


def needed(kernels: Sequence[Kernel], wanted: Sequence[Buffer]) -> list[Kernel]:
    """The kernels that one of the `wanted` buffers depends on."""
    alive, kept = set(wanted), list[Kernel]()
    for k in reversed(kernels):
        read, written = k.buffers()
        if alive.intersection(written):
            alive.update(read)
            kept.append(k)
    return kept[::-1]


def with_unique_names(phases: Phases, taken: Sequence[Buffer]) -> Phases:
    """The phases with a name of its own for each kernel, and for each buffer but those that are
    `taken`: `entries`, `entries_2`."""
    named, called = Namer([b.name for b in taken]), Namer([])
    new: dict[Buffer, Buffer] = {}
    for _, kernels in phases:
        for b in [b for k in kernels for side in k.buffers() for b in side]:
            if b not in taken and b not in new:
                new[b] = replace(b, name=named(b.name))
    return [
        (name, [Kernel(called(k.name), k.body, k.about) for k in with_buffers(kernels, new)])
        for name, kernels in phases
    ]


@final
class Namer:
    """Gives names, each once."""

    def __init__(self, taken: Sequence[str]) -> None:
        self._taken = set(taken)

    def __call__(self, base: str) -> str:
        """A new name like `base`."""
        name, n = base, 1
        while name in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._taken.add(name)
        return name
