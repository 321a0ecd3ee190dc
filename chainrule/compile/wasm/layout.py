"""Where everything lies in a module's memory.

    stack | state, generators | sizes, inputs | results | drawn | scratch | constants

State, sizes and inputs have values from the start. Sizes and inputs are what a call is given, and
lie together, so that one copy puts those of another call in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from chainrule.compile.export.call_data import InputInfo
from chainrule.compile.graph.sizes import size_at
from chainrule.compile.loops import memory
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.runtime.scratch import Layout
from chainrule.compile.wasm.draws import WORDS

STACK: Final = 1 << 17
"""Bytes of the stack: kernels keep few numbers on it, and none that they have many of."""
ALIGN: Final = 16
"""Bytes of a vector."""
WORD: Final = 8
"""Bytes of a size."""


@final
@dataclass(frozen=True, slots=True)
class Region:
    """Memory from `begin` to `end`."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin


@final
@dataclass(frozen=True, slots=True)
class Inputs:
    """A program's objects: what lives on, what a call is given, what it draws, what it returns."""

    state: Sequence[Buffer]
    call: Sequence[Buffer]
    drawn: Sequence[Buffer]
    results: Sequence[Buffer]

    @staticmethod
    def of(layout: Layout, given: Sequence[InputInfo], drawn: int) -> Inputs:
        """By what the inputs are; the last ones are `drawn`."""
        count = len(given)
        pairs = list(zip(layout.objects, given[: count - drawn], strict=False))
        return Inputs(
            [b for b, g in pairs if not g.each_step],
            [b for b, g in pairs if g.each_step],
            layout.objects[count - drawn : count],
            layout.objects[count:],
        )


@final
@dataclass(slots=True)
class Addresses:
    """The addresses of buffers and of sizes, and of all that belongs together."""

    buffers: dict[Buffer, int] = field(default_factory=dict[Buffer, int])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    generators: dict[Any, int] = field(default_factory=dict[Any, int])
    state: Region = field(default=Region(STACK, STACK))
    call: Region = field(default=Region(STACK, STACK))
    results: Region = field(default=Region(STACK, STACK))
    end: int = STACK


def assign_addresses(
    layout: Layout, inputs: Inputs, generators: Iterable[Any], largest: Mapping[str, int]
) -> Addresses:
    """Addresses for all memory of a program but its constants, with room for the `largest` sizes.
    The state of `generators` is a part of its own."""
    out = Addresses()
    state = _region(out, inputs.state, largest)
    for each in generators:
        out.generators.setdefault(each, out.end + len(out.generators) * WORD * WORDS)
    out.end += len(out.generators) * WORD * WORDS
    out.state = Region(state.begin, out.end)
    out.end = _align(out.end)
    sizes = out.end
    for s in layout.symbols:
        out.sizes[s] = out.end
        out.end += WORD
    called = _region(out, inputs.call, largest)
    out.call = Region(sizes, called.end)
    out.results = _region(out, inputs.results, largest)
    _region(out, inputs.drawn, largest)
    scratch = memory.plan(layout.scratch, layout.lives, largest)
    out.end = _align(out.end)
    for b, offset in zip(layout.scratch, scratch.offsets, strict=True):
        out.buffers[b] = out.end + offset
    out.end += scratch.size
    return out


def _region(out: Addresses, buffers: Iterable[Buffer], largest: Mapping[str, int]) -> Region:
    """Memory for `buffers`, one after the other; for each once."""
    begin = out.end = _align(out.end)
    for b in buffers:
        if b not in out.buffers:
            out.buffers[b] = out.end
            out.end = _align(out.end + room(b, largest))
    return Region(begin, out.end)


def room(b: Buffer, largest: Mapping[str, int]) -> int:
    """Bytes that a buffer has at most."""
    return size_at(b.size, largest) * b.dtype.itemsize


def _align(n: int) -> int:
    return -(-n // ALIGN) * ALIGN
