"""What a call of an exported function of `Value`s is given: arrays of its arguments, and what the
ints among them decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.export.loop_program import Memory
from chainrule.compile.export.scalars.arguments import FLOAT, INT, VALUE, Argument, kind_of
from chainrule.compile.export.scalars.conditions import Conditions
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs
from chainrule.compile.loops.statements import Kernel, Stmt, Store
from chainrule.compile.scalars.keys import kind_of as key_of
from chainrule.compile.scalars.variants import Variant
from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.tree import Structure, flatten

F64, I64 = np.dtype(np.float64), np.dtype(np.int64)
_ABOUT = {INT: "argument", FLOAT: "argument", VALUE: "argument, a Value"}


@final
@dataclass(frozen=True, slots=True)
class Arguments:
    """A call: the leaves of its arguments, their structure, and the arrays that these are."""

    leaves: Sequence[Any]
    structure: Structure
    arguments: Sequence[Argument]

    def compare(
        self, leaves: Sequence[Any], structure: Structure, variant: Variant, what: str
    ) -> None:
        """Raise `ConfigError` if other arguments lead to another program."""
        if structure != self.structure:
            raise ConfigError(
                f"{what}: a batch has arguments {structure} where the first has {self.structure}: "
                "a file is for lists of one length; write one for each"
            )
        for x, y in zip(leaves, self.leaves, strict=True):
            if kind_of(x) != kind_of(y):
                raise ConfigError(
                    f"{what}: a batch has {x!r} where the first has {y!r}, a number of another "
                    "kind: let all be floats, or all ints"
                )
            fixed = kind_of(x) is None or (kind_of(x) is INT and variant.check is None)
            if fixed and (x != y or key_of(x) != key_of(y)):
                raise ConfigError(
                    f"{what}: a batch has {x!r} where the first has {y!r}, which is part of the "
                    "program: write a file for each"
                )
        ints = [x for x in leaves if type(x) is int]
        counts = variant.step is not None and variant.step.state.counts
        if variant.check is not None and not counts and variant.chosen(ints) is None:
            raise ConfigError(
                f"{what}: a batch has the ints {ints}, for which the function does something else "
                "than for those of the first: write a file for each"
            )


@final
class Inputs:
    """The arrays of a call's arguments that the program of `variant` reads."""

    def __init__(self, variant: Variant, given: Arguments, what: str) -> None:
        self._what, self._given = what, given
        self.read = [a for a in given.arguments if a.kind is not INT or variant.check is not None]
        self._buffers = [Buffer(a.path, a.dtype, a.shape, "input") for a in self.read]

    def memory(self) -> list[Memory]:
        """Of each the memory, with what the call gives."""
        arrays = self.arrays(self._given.leaves)
        rows = zip(self._buffers, self.read, arrays, strict=True)
        return [Memory(b, a.path, _ABOUT[a.kind], x) for b, a, x in rows]

    def arrays(self, leaves: Sequence[Any]) -> list[Array]:
        """The same of another call's arguments."""
        return [a.read(leaves, self._what) for a in self.read]

    def numbers(self, *kinds: str) -> list[tuple[Argument, Buffer]]:
        """The arguments of these kinds, in order."""
        return [(a, b) for a, b in zip(self.read, self._buffers, strict=True) if a.kind in kinds]

    def fixed(self) -> list[str]:
        """The ints that are part of the program, in words."""
        read = {i for a in self.read for i in a.leaves}
        return [
            f"{a.path} = {a.read(self._given.leaves, self._what).tolist()}"
            for a in self._given.arguments
            if a.kind is INT and a.leaves[0] not in read
        ]


@final
@dataclass(frozen=True, slots=True)
class Ints:
    """What ints decide: kernels that ask; the indices of gathers, the new counts, and the numbers
    that floats are computed from."""

    kernels: Sequence[Kernel]
    checks: Sequence[str]
    outside: Buffer | None
    indices: Buffer
    counts: Buffer
    scalars: Buffer


def decided_ints(variant: Variant, inputs: Inputs, counts: Sequence[Memory], what: str) -> Ints:
    """What the ints of a call decide, and those that the step changes, which lie in `counts`."""
    make = Exprs()
    step = variant.step
    scalars = 0 if step is None else step.scalars
    known: list[tuple[Any, str]] = []
    for a, b in inputs.numbers(INT):
        known += [(make.load(b, Affine(i)), a.element(leaf)) for i, leaf in enumerate(a.leaves)]
    known += [(make.load(c.buffer, Affine()), c.path) for c in counts]
    if variant.check is None:
        return Ints([], [], None, *_memory(0, 0, 0))
    outside = Buffer("outside", I64, (), "result")
    found = Conditions(what, variant.check, known, make, outside).decided()
    first = len(found.found) - len(counts) - scalars
    memory = _memory(first, len(counts), scalars)
    if not found.found and not found.checks:
        return Ints([], [], None, *memory)
    starts = (0, first, first + len(counts))
    stores: list[Stmt] = []
    for b, start, n in zip(memory, starts, (first, len(counts), scalars), strict=True):
        for i in range(n):
            value = make.cast(found.found[start + i], b.dtype)
            stores.append(Store(b, Affine(i), value))
    body = found.body if found.checks else found.body[1:]
    kernels = [Kernel("ints", (*body, *stores), ("ints int64[]",))]
    return Ints(kernels, found.checks, outside if found.checks else None, *memory)


def _memory(indices: int, counts: int, scalars: int) -> tuple[Buffer, Buffer, Buffer]:
    return (
        Buffer("indices", I64, (max(1, indices),), "scratch"),
        Buffer("new_counts", I64, (max(1, counts),), "scratch"),
        Buffer("numbers", F64, (max(1, scalars),), "scratch"),
    )


def given_of(args: Any, kwargs: Any) -> tuple[list[Any], Structure]:
    """Leaves and structure of a call's arguments."""
    return flatten((list(args), dict(kwargs)))
