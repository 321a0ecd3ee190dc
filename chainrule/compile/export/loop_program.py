"""A program that is loops already, with its memory: what C and WebAssembly are written of where
there is no graph of terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, final

from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Kernel, Loops
from chainrule.engine.op import Array


@final
@dataclass(frozen=True, slots=True)
class Part:
    """Elements of an array from `start` on that have a name of their own."""

    path: str
    about: str
    start: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many elements."""
        return prod(self.shape)


@final
@dataclass(frozen=True, slots=True)
class Memory:
    """An array of a program: what the user calls it, what it is, what it holds at first, and what
    its parts are called, where it has some."""

    buffer: Buffer
    path: str
    about: str
    value: Array
    parts: tuple[Part, ...] = ()

    def named(self) -> Sequence[Part]:
        """Its parts, or itself as one."""
        shape = tuple([n for n in self.buffer.shape if isinstance(n, int)])
        return self.parts or (Part(self.path, self.about, 0, shape),)


@final
@dataclass(frozen=True, slots=True)
class LoopProgram:
    """Kernels in `phases`, each with a name, and the memory that is not theirs alone.

    `inputs` are what each call has anew, `state` lives on, `results` are what it returns. With
    `outside`, one int64, the first phase tells which of the `checks` failed: then nothing else
    runs. `notes` say what holds for this program only. `calls` are arrays for the `inputs` of each
    call.
    """

    name: str
    phases: Sequence[tuple[str, Sequence[Kernel]]]
    inputs: Sequence[Memory]
    state: Sequence[Memory]
    results: Sequence[Memory]
    outside: Buffer | None = None
    checks: Sequence[str] = ()
    notes: Sequence[str] = ()
    calls: Sequence[Sequence[Array]] = field(default_factory=list[Any])

    @property
    def objects(self) -> list[Buffer]:
        """The memory of inputs, state and results, in this order; the last one tells of checks."""
        known = [m.buffer for m in (*self.inputs, *self.state, *self.results)]
        return known if self.outside is None else [*known, self.outside]

    @property
    def loops(self) -> Loops:
        """All kernels as one program."""
        kernels = [k for _, kernels in self.phases for k in kernels]
        buffers = dict.fromkeys(self.objects)
        for k in kernels:
            read, written = k.buffers()
            buffers |= dict.fromkeys([*read, *written])
        return Loops(list(buffers), kernels)
