"""What workers call together, and how two calls differ.

Before workers exchange numbers they compare a digest of what each is about to do: the how many-th
call it is, which, at which line, and of what. Where digests differ, the descriptions go through the
store, and the error names the parameter, both lines and both ranks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from chainrule.engine.op import Array

Part = tuple[str, tuple[int, ...], str]
"""An array that a call is about: its name, shape and dtype."""


@final
@dataclass(frozen=True)
class Call:
    """The `number`-th call of a group: its name and settings, the user's line, its arrays."""

    number: int
    name: str
    line: str
    arrays: tuple[Part, ...] = ()
    anywhere: bool = False
    """Whether workers may do so at different lines."""

    @cached_property
    def text(self) -> str:
        """As JSON, for other workers."""
        return json.dumps(asdict(self))

    @cached_property
    def digest(self) -> Array:
        """(32,) uint8, the same for the same call wherever the program lies."""
        line = "" if self.anywhere else self.line.replace("\\", "/").rpartition("/")[2]
        same = json.dumps([self.number, self.name, line, self.arrays])
        return np.frombuffer(hashlib.sha256(same.encode()).digest(), np.uint8).copy()

    @classmethod
    def from_text(cls, text: str) -> Call:
        """The call that another worker described."""
        fields = json.loads(text)
        arrays = tuple([(n, tuple(shape), dtype) for n, shape, dtype in fields.pop("arrays")])
        return cls(**fields, arrays=arrays)


def difference(mine: Call, rank: int, theirs: Call, peer: int) -> str:
    """In a sentence, how the calls of two workers differ."""
    a, b = f"worker {rank} at {mine.line}", f"worker {peer} at {theirs.line}"
    if mine.name != theirs.name or mine.number != theirs.number:
        return (
            f"workers do not call the same: {a} is in {mine.name} (call {mine.number}), {b} in "
            f"{theirs.name} (call {theirs.number})"
        )
    for one, other in zip(mine.arrays, theirs.arrays, strict=False):
        if one != other:
            return f"{mine.name}: {_part(one)} for {a}, but {_part(other)} for {b}"
    if len(mine.arrays) != len(theirs.arrays):
        longer, whose = max((mine.arrays, a), (theirs.arrays, b), key=lambda x: len(x[0]))
        extra = longer[min(len(mine.arrays), len(theirs.arrays))]
        return (
            f"{mine.name}: {_part(extra)} only for {whose}; there are {len(mine.arrays)} for {a}, "
            f"{len(theirs.arrays)} for {b}"
        )
    return f"workers call {mine.name} at two lines: {a}, {b}"


def _part(part: Part) -> str:
    name, shape, dtype = part
    return f"{name} is {dtype} {shape}"


def describe_arrays(named: Sequence[tuple[str, Any]]) -> tuple[Part, ...]:
    """The descriptions of arrays or tensors by name."""
    return tuple([(name, tuple(x.shape), str(x.dtype)) for name, x in named])
