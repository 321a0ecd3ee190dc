"""Gradients that a program gives to its parameters itself, and values that a closure gives to an
optimizer: whether they are those that they are taken for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import IdentityTable, join_names
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text.hook_code import draw_line


@dataclass(eq=False)
class _Swapped:
    """Parameters that were given the derivative by another one, of derivatives from one line."""

    place: Place | None
    times: int = 0
    pairs: dict[str, str] = field(default_factory=dict[str, str])
    """Name of a parameter: the one by which what it was given is the derivative."""

    @property
    def listed(self) -> str:
        """The first of them."""
        pairs = [f"{p}.grad holds the derivative by {x}" for p, x in self.pairs.items()]
        return "; ".join(pairs[:3])


@final
class Assigned(Part):
    """Finds `wrong_input` in gradients that are given by hand, `p.grad = g` of `autograd.grad`:
    whose derivative a tensor is, is known from the call that gave it."""

    title = "gradients given by hand"
    rows = (
        Row(
            "wrong_input",
            lambda f: f.swapped.values(),
            "in {times} steps {listed}",
            "give each parameter its own: autograd.grad returns them in the order of its inputs",
            "error",
            (is_seldom,),
            subject=lambda s: join_names(s.pairs),
            kind="parameters",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._owners = IdentityTable[tuple[Any, Place | None]]()
        """Of a gradient: the tensor by which it is the derivative, and where it was taken."""
        self._steps = 0
        self.swapped: dict[Place | None, _Swapped] = {}

    def seen(self) -> Sequence[str]:
        """In how many steps there were such gradients."""
        return [f"{self._steps} steps"] if self._steps else []

    @on(events.Given)
    def _given(self, e: events.Given) -> None:
        for x, g in zip(e.inputs, e.gradients, strict=False):
            if g is not None:
                self._owners.put(g, (x, e.place))

    @on(events.StepBegins)
    def _steps_with(self, e: events.StepBegins) -> None:
        own, name = e.ids, self.history.names.param
        known = [(p, row) for p in e.params if (row := self._owners.of(p.grad)) is not None]
        self._steps += bool(known)
        swapped = [(p, x, at) for p, (x, at) in known if x is not p and id(x) in own]
        for at in {at for *_, at in swapped}:
            row = self.swapped.setdefault(at, _Swapped(at))
            row.times += 1
            row.pairs |= {name(p): name(x) for p, x, a in swapped if a == at}


@dataclass(eq=False)
class _Drawing:
    """A closure that draws random numbers at each of its calls in a step."""

    optimizer: str
    place: Place | None
    most: int = 0
    """Calls, in the step with most of them."""


def _are_few(drawing: _Drawing) -> bool:
    """Whether there were two calls at most, as are made on purpose."""
    return drawing.most < 3


@final
class Closures(Part):
    """Finds `not_deterministic`: a line search compares values of one function, and is told those
    of another one each time, since the closure draws random numbers."""

    title = "closures"
    rows = (
        Row(
            "not_deterministic",
            lambda f: f.drawing.values(),
            "{optimizer} has called its closure {most} times in one step, to compare the values, "
            "and each time it drew random numbers: these are values of different functions",
            "draw once, before the step, and use that in every call; leave dropout out",
            unless=(_are_few,),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._calls: list[events.ClosureEnds] = []
        self.drawing: dict[str, _Drawing] = {}

    @on(events.StepBegins)
    def _begins(self, e: events.StepBegins) -> None:
        self._calls = []

    @on(events.ClosureEnds)
    def _called(self, e: events.ClosureEnds) -> None:
        self._calls.append(e)

    @on(events.StepEnds)
    def _ends(self, e: events.StepEnds) -> None:
        if self._calls and all(call.drew for call in self._calls):
            code, at = self._calls[-1].code, self._calls[-1].place
            if code is not None:
                at = Place(code.co_filename, draw_line(code), code.co_qualname)
            kind = type(e.optimizer).__name__
            row = self.drawing.setdefault(str(at), _Drawing(kind, at))
            row.most = max(row.most, len(self._calls))
