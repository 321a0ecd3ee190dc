"""Cut: a loss that has no graph at all, and the line at which it lost it.

Values that leave their graph (`detach()`, `.data`, `item()`, anything under `no_grad`) are followed
until one of them is the loss. That a backward pass fails then is the script's error, and stays it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.followed import Followed
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.where import here, placed

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


@final
class Cut(Part):
    """Finds `detached`, for losses that have no graph."""

    title = "losses without a graph"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._left = Followed[_Leaving](self._attend)
        self._number: _Leaving | None = None  # the last value that left as a number
        self._found: tuple[str, Place | None, _Leaving | None] | None = None
        self._leaf: tuple[str, Place | None, _Leaving | None] | None = None
        self._optimized: set[int] = set()
        self._backwards = 0

    def listens(self) -> Handlers:
        """Ops, backward passes and steps."""
        return {
            events.OpRan: self._ran,
            events.Built: self._built,
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
            events.Asked: self._asked,
            events.StepBegins: self._steps,
        }

    def _built(self, e: events.Built) -> None:
        self._optimized |= {id(p) for p in e.params}

    def _ran(self, e: events.OpRan) -> None:
        if e.linked:
            return
        leaving = self._leaving(e)
        if leaving is None:
            return
        if e.name in _NUMBERS:
            self._number = leaving
        for y in e.outputs:
            self._left.put(y, leaving)

    def _attend(self) -> None:
        self._bus.following = len(self._left) > 0

    def _leaving(self, e: events.OpRan) -> _Leaving | None:
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
        return self._left.of(root) or self._number

    def _begins(self, e: events.BackwardBegins) -> None:
        self._backwards += 1
        root = e.roots[0]
        known = id(root) in self._optimized
        if len(e.roots) == 1 and root.requires_grad and root.is_leaf and not known:
            why = "the loss is a leaf: it was made from numbers, and no parameter is behind it"
            self._leaf = (why, e.place, self._of(root))
        else:
            self._leaf = None

    def _asked(self, e: events.Asked) -> None:
        """`autograd.grad` runs a graph backwards, too."""
        self._backwards += 1

    def _ends(self, e: events.BackwardEnds) -> None:
        if e.error is not None and any(text in str(e.error) for text in _NO_GRAPH):
            why = "the loss has no graph, so that backward() fails"
            self._found = self._found or (why, e.begin.place, self._of(e.begin.roots[0]))

    def _steps(self, e: events.StepBegins) -> None:
        if self._leaf is not None and self._found is None:
            self._found = self._leaf

    def _without_backward(self) -> list[Finding]:
        """A program that builds an optimizer and stops short of a backward pass."""
        if self._backwards or not self._optimized or self._number is None:
            return []
        at = placed(self._number.at)
        why = f"there was no backward pass; a value left its graph as a number: {self._number.how}"
        advice = "if that number was to be the loss: keep the tensor, and call backward() on it"
        return [finding("note", "detached", why, advice, at, subject="the loss")]

    def found(self, ledger: Ledger) -> list[Finding]:
        """The loss without a graph, if there was one."""
        if self._found is None:
            return self._without_backward()
        why, place, leaving = self._found
        at = placed(leaving.at) if leaving is not None else None
        how = f"the graph ends at {at}: {leaving.how}" if leaving is not None else ""
        only = f"{leaving.how} only on what is shown" if leaving else "nothing that leaves it"
        advice = f"keep tensors, not numbers, between the parameters and the loss; call {only}"
        return [
            finding("error", "detached", why, advice, at or place, detail=how, subject="the loss")
        ]
