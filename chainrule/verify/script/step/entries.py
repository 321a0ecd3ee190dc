"""What a tape holds: calls that depend on a parameter, each tensor as the number of a slot."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from chainrule.verify.where import Frames, Line

Ref = weakref.ref[Any]
GRAD = "autograd.grad"
"""Name of an entry that differentiates."""
NUMBER = "a number"
"""Name of an entry that stands for what was done to numbers outside of the library."""
DRAWS = frozenset({"randn", "randn_like", "normal", "normal_"})
"""Calls that draw normal numbers."""


@dataclass(frozen=True)
class Slot:
    """Stands for a tensor in an entry's arguments."""

    number: int


@dataclass(eq=False)
class Entry:
    """One call that depends on a parameter."""

    name: str
    function: Callable[..., Any]
    args: Any
    kwargs: Any
    inputs: tuple[int, ...]
    connected: tuple[int, ...]
    """Those of the inputs through which a gradient could have flowed."""
    grad: bool
    """Whether autograd was on."""
    autocast: Any = None
    """The dtype of a block of autocast around it."""
    random: Any = None
    """State of the random stream before, if the call drew from it."""
    outputs: tuple[int, ...] = ()
    wrote: int | None = None
    """The group of tensors into whose memory it wrote."""
    is_live: bool = False
    """Whether autograd keeps the result connected."""
    is_float: bool = False
    whole: tuple[int, ...] = ()
    """Those of the outputs that are whole numbers or truth, of which there is no derivative."""
    eps: float = 0.0
    """Rounding of its least precise result."""
    at: Line | None = None
    """The user's line that made the call."""
    frames: Frames = ()
    """Where a call that cuts was made."""

    @property
    def cuts(self) -> bool:
        """Whether a gradient could have flowed through, and does not."""
        return bool(self.connected) and self.is_float and not self.is_live


@dataclass(frozen=True, eq=False)
class Exit:
    """A number or array that was taken out of the library."""

    how: str
    slot: int
    value: Any
    frames: Frames
    at: int
    """How many entries there were by then."""


class Calls(Protocol):
    """What is asked of a tape, whichever library's tensors are on it."""

    entries: list[Entry]
    """In the order of the calls."""
    exits: list[Exit]
    roots: dict[int, Any]
    """Slots of tensors that require a gradient and come from outside."""
    group: dict[int, int]
    """Slots that share memory have one group."""

    def slot(self, x: Any, /) -> int | None:
        """The number of a tensor that depends on a root."""
        ...

    def ident(self, x: Any, /) -> int:
        """What tells a root from others, in each step: its id, if it lives that long."""
        ...

    def anonymous(self) -> int:
        """A slot for what no tensor has: a number."""
        ...

    def is_noise(self, x: Any, /) -> bool:
        """Whether a constant was drawn from the normal distribution."""
        ...
