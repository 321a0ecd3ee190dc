"""The record of one step: calls that depend on a parameter, each tensor as the number of a slot.

PyTorch's calls (`torch_tape`) and chainrule's ops (`native_tape`) are recorded alike. All that
looks for cuts, lost terms and changes reads this record. What is asked where it is run again is in
`tensors`.
"""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar, cast, final

from chainrule.verify.user_frames import Frames, Line, frames

_T = TypeVar("_T")

Ref = weakref.ref[Any]
GRAD = "autograd.grad"
"""Name of an entry that differentiates."""
NUMBER = "a number"
"""Name of an entry that stands for what was done to numbers outside of the library."""
DRAWS = frozenset({"randn", "randn_like", "normal", "normal_"})
"""Calls that draw normal numbers."""
MOST = 1 << 31
"""Bytes of tensors that are held for a tape."""
_COARSE = 0.125
"""Rounding of what has less than 16 bits."""


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
    is_step: bool = False
    """Whether a Function of the user's gave whole numbers: its slope is made up."""
    is_same: bool = False
    """Whether it is a difference that is 0, or a quotient that is 1, in all elements."""
    is_zero: bool = False
    """Whether it is the smallest or largest along an axis, which is 0 in all rows."""
    eps: float = 0.0
    """Rounding of its least precise result."""
    at: Line | None = None
    """The user's line that made the call."""
    frames: Frames = ()
    """Where a call that cuts was made."""

    def grade(self, slot: int, eps: float | None) -> None:
        """Note how coarse the numbers of a result are: their rounding `eps`, 0 if that is not
        known; None of whole ones, which have no derivative."""
        if eps is None:
            self.whole += (slot,)
        else:
            self.is_float, self.eps = True, max(self.eps, eps or _COARSE)

    @property
    def cuts(self) -> bool:
        """Whether a gradient could have flowed through, and does not."""
        return bool(self.connected) and self.is_float and not self.is_live


def things_in(x: Any) -> Iterator[Any]:
    """What nested tuples, lists and dicts hold."""
    if isinstance(x, dict):
        x = list(cast("dict[Any, Any]", x).values())
    if isinstance(x, tuple | list):
        for part in cast("Sequence[Any]", x):
            yield from things_in(part)
    else:
        yield x


def with_things(x: Any, change: Callable[[Any], Any]) -> Any:
    """Nested tuples, lists and dicts, all that they hold changed."""
    if isinstance(x, tuple | list):
        items = [with_things(part, change) for part in cast("Sequence[Any]", x)]
        return items if isinstance(x, list) else tuple(items)
    if isinstance(x, dict):
        return {k: with_things(v, change) for k, v in cast("dict[Any, Any]", x).items()}
    return change(x)


Way = Callable[[Entry], Iterable[int]]
"""Which of a call's inputs it is gone on with."""


def every_input(entry: Entry) -> Iterable[int]:
    """All of them."""
    return entry.inputs


def live_inputs(entry: Entry) -> Iterable[int]:
    """Those with a graph, of a call whose result has one."""
    return entry.connected if entry.is_live else ()


def back(entries: Sequence[Entry], need: set[int], way: Way = every_input) -> Iterator[Entry]:
    """Calls that slots come from, the last one first; `need` grows by those of their inputs that
    `way` gives."""
    for entry in reversed(entries):
        if not need.isdisjoint(entry.outputs):
            need.update(way(entry))
            yield entry


def forth(
    entries: Sequence[Entry], slots: Iterable[int], through: Callable[[Entry], bool] = bool
) -> set[int]:
    """Slots, and those that are made of them by calls it may go `through`."""
    found = set(slots)
    for entry in entries:
        if not found.isdisjoint(entry.inputs) and through(entry):
            found.update(entry.outputs)
    return found


@dataclass(frozen=True, eq=False)
class Constant:
    """How a constant was made, where that is kept."""

    name: str
    args: Sequence[Any]
    at: Line | None


@dataclass(frozen=True, eq=False)
class Exit:
    """A number or array that was taken out of the library."""

    how: str
    slot: int
    value: Any
    frames: Frames
    at: int
    """How many entries there were by then."""


class Tape(abc.ABC):
    """The record of a step: calls in order, tensors as slots. What a library's tensors are known
    by, and how its calls are seen, is left open here."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """In the order of the calls."""
        self.exits: list[Exit] = []
        self.roots: dict[int, Any] = {}
        """Slots of tensors that require a gradient and come from outside."""
        self.group: dict[int, int] = {}
        """Slots that share memory have one group."""
        self.consumed: set[int] = set()
        """Slots that parameters were updated with."""
        self.shapes: dict[int, tuple[int, ...]] = {}
        """Of the tensors in slots."""
        self.active = True
        """Whether calls are recorded now."""
        self.broken = ""
        """Why it recorded no further."""
        self.seconds = 0.0
        """Spent on recording."""
        self._bytes = 0

    @abc.abstractmethod
    def slot(self, x: Any, /) -> int | None:
        """The number of a tensor that depends on a root."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Let go of all tensors."""
        for rows in (self.entries, self.exits, self.roots):
            rows.clear()

    def identity(self, x: Any, /) -> int:
        """What tells a root from others, in each step: its id, if it lives that long."""
        return id(x)

    def is_noise(self, x: Any, /) -> bool:
        """Whether a constant was drawn from the normal distribution, as far as is known."""
        return False

    def is_fresh(self, x: Any, /) -> bool:
        """Whether a constant was made in this step, of nothing that is older."""
        return False

    def mean_of(self, x: Any, /) -> int:
        """Of how many elements a constant is the mean; 0 if that is not known."""
        return 0

    def constant_of(self, x: Any, /) -> Constant | None:
        """How a constant was made, if it is another view of one, or filled up to one length."""
        return None

    @final
    def anonymous(self) -> int:
        """A slot for what no tensor has: a number."""
        slot = len(self.group)
        self.group[slot] = slot
        return slot

    @final
    def leave(self, how: str, slot: int, value: Any) -> None:
        """Note that the tensor in a slot left as a number."""
        self.exits.append(Exit(how, slot, value, frames(), len(self.entries)))

    @final
    def attempt(self, work: Callable[..., _T], *args: Any) -> _T | None:
        """What `work` records. Its failure ends the record, and not the program."""
        start = perf_counter()
        try:
            return work(*args)
        except Exception as error:
            self.active, self.broken = False, f"{type(error).__name__}: {error}"
            self.clear()
            return None
        finally:
            self.seconds += perf_counter() - start

    @final
    def hold(self, size: int) -> None:
        """Count the bytes of a tensor that the record keeps alive."""
        self._bytes += size
        if self._bytes > MOST:
            raise MemoryError(f"a step holds more than {MOST >> 30} GiB of tensors")
