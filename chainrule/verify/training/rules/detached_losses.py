"""Cut: a loss that has no graph at all, and the line at which it lost it.

Values that leave their graph (`detach()`, `.data`, `item()`, anything under `no_grad`) are followed
until one of them is the loss. That a backward pass fails then is the script's error, and stays it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import IdentityTable
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.user_frames import here, placed

_LEAVES = {
    "detach": "detach()", "detach_": "detach_()", "data": ".data", "item": "item()",
    "numpy": "numpy()", "tolist": "tolist()", "__float__": "float()", "__array__": "numpy()",
    "argmax": "argmax()",
}  # fmt: skip
_NUMBERS = frozenset({"item", "numpy", "tolist", "__float__", "__array__"})
_NO_GRAPH = (
    "does not require grad and does not have a grad_fn",
    "does not depend on anything that requires a gradient",
)
"""What PyTorch and chainrule say of a loss without a graph."""


@dataclass(frozen=True)
class _Leaving:
    """Where a value left its graph."""

    how: str
    at: Any


class _Lost(NamedTuple):
    """A loss without a graph."""

    why: str
    at: Place | None
    leaving: _Leaving | None

    @property
    def place(self) -> Place | None:
        """Where the graph ends, as far as that is known."""
        return (placed(self.leaving.at) if self.leaving is not None else None) or self.at

    @property
    def only(self) -> str:
        """What is to be called on nothing that trains."""
        shown = self.leaving and f"{self.leaving.how} only on what is shown"
        return shown or "nothing that leaves it"


@final
class Cut(Part):
    """Finds `detached`, for losses that have no graph."""

    title = "losses without a graph"
    rows = (
        Row(
            "detached",
            lambda f: [f.lost] if f.lost is not None else [],
            "{why}",
            "keep tensors, not numbers, between the parameters and the loss; call {only}",
            "error",
            detail=lambda c: (
                f"the graph ends at {c.place}: {c.leaving.how}" if c.leaving is not None else ""
            ),
            subject="the loss",
        ),
        Row(
            "detached",
            lambda f: [f.number] if f.lost is None and f.stops_short else [],
            "there was no backward pass; a value left its graph as a number: {how}",
            "if that number was to be the loss: keep the tensor, and call backward() on it",
            "note",
            place=lambda c: placed(c.at),
            subject="the loss",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._left = IdentityTable[_Leaving](self._attend)
        self.number: _Leaving | None = None  # the last value that left as a number
        self.lost: _Lost | None = None
        self._leaf: _Lost | None = None
        self._optimized: set[int] = set()
        self._backwards = 0

    @on(events.Built)
    def _built(self, e: events.Built) -> None:
        self._optimized |= e.ids

    @on(op_events.OpRan)
    def _ran(self, e: op_events.OpRan) -> None:
        if e.linked:
            return
        leaving = self._leaving(e)
        if leaving is None:
            return
        if e.name in _NUMBERS and "float" in str(e.inputs[0].dtype):  # others are no losses
            self.number = leaving
        for y in e.outputs:
            self._left.put(y, leaving)

    def _attend(self) -> None:
        self._bus.following = len(self._left) > 0

    def _leaving(self, e: op_events.OpRan) -> _Leaving | None:
        """Where the values that an op was given have left their graph, if they have."""
        inputs = e.inputs
        for x in inputs:
            leaving = self._left.of(x)
            if leaving is not None:
                return leaving
        if any(x.requires_grad for x in inputs) and (e.outputs or e.name in _NUMBERS):
            how = _LEAVES.get(e.name, f"{e.name}, computed without a graph")
            return _Leaving(how, here())
        return None

    def _of(self, root: Any) -> _Leaving | None:
        return self._left.of(root) or self.number

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        self._backwards += 1
        root = e.roots[0]
        known = id(root) in self._optimized
        if len(e.roots) == 1 and root.requires_grad and root.is_leaf and not known:
            why = "the loss is a leaf: it was made from numbers, and no parameter is behind it"
            self._leaf = _Lost(why, e.place, self._of(root))
        else:
            self._leaf = None

    @on(events.Asked)
    def _asked(self, e: events.Asked) -> None:
        """`autograd.grad` runs a graph backwards, too."""
        self._backwards += 1

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        if e.error is not None and any(text in str(e.error) for text in _NO_GRAPH):
            why = "the loss has no graph, so that backward() fails"
            self.lost = self.lost or _Lost(why, e.begin.place, self._of(e.begin.roots[0]))

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        self.lost = self.lost or self._leaf

    @property
    def stops_short(self) -> bool:
        """Whether the program builds an optimizer and takes a number, and there is no backward
        pass."""
        return not self._backwards and bool(self._optimized) and self.number is not None
