"""Values that a closure gives to an optimizer: whether they are of one function."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import CodeType
from typing import final

from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.trees import function_at, last_word, tree_of_file

_RANDOM = frozenset(
    {"rand", "randn", "randint", "randperm", "normal", "uniform", "bernoulli", "dropout"}
    | {"multinomial", "exponential", "poisson", "sample", "rsample", "random"}
)


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
                at = Place(code.co_filename, _draw_line(code), code.co_qualname)
            kind = type(e.optimizer).__name__
            row = self.drawing.setdefault(str(at), _Drawing(kind, at))
            row.most = max(row.most, len(self._calls))


def _draw_line(code: CodeType) -> int:
    """The first line of a closure that calls what draws random numbers, as far as its name tells;
    else its own."""
    first = code.co_firstlineno
    closure = function_at(tree_of_file(code.co_filename), first)
    calls = [n for n in ast.walk(closure) if isinstance(n, ast.Call)] if closure else []
    words = [(last_word(n.func).rstrip("_").removesuffix("_like"), n.lineno) for n in calls]
    return min([line for word, line in words if word in _RANDOM], default=first)
