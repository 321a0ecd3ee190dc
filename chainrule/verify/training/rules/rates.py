"""Settings of parameter groups that do not reach what they are for: a function that gives a rate
where a factor of one is meant, a schedule that reaches one of several groups only, and a group
without parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.script.sandbox.fork import LostError, in_confined_copy
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.trees import users_trees

_SMALL, _USUAL, _TINY = 0.02, 0.1, 3e-4
"""A factor at its peak, a rate of an optimizer, and their product, at most."""
_STEPS = (*range(2048), *[2**k for k in range(11, 17)])
"""Steps of which a function is asked."""
_LEAST = 3
"""Rates of a schedule by hand that were seen."""


class _Rate(NamedTuple):
    """A function whose values are as small as the rate that they are multiplied with."""

    most: float
    base: float
    place: Place

    @property
    def product(self) -> float:
        """Of both."""
        return self.most * self.base


class _First(NamedTuple):
    """A line that sets the rate of the first group, where no line sets that of others."""

    place: Place
    kind: str
    groups: int


class _Empty(NamedTuple):
    """A group without parameters, the only one with a decay."""

    place: Place | None
    kind: str
    decay: float
    groups: int


@dataclass(eq=False)
class _Groups:
    """Rates of an optimizer's groups, in its steps."""

    kind: str
    rates: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])

    @property
    def is_first_alone(self) -> bool:
        """Whether that of the first group has changed step by step, and no other one."""
        first, *others = [set(rates) for rates in zip(*self.rates, strict=True)]
        return len(first) > _LEAST and all(len(s) == 1 for s in others)


@final
class Rates(Part):
    """Finds `wrong_rate` where a function, or the program itself, makes the rates."""

    title = "learning rates that the program makes"
    rows = (
        Row(
            "wrong_rate",
            lambda f: f.doubled(),
            "what this function gives is a factor of the optimizer's rate, {base:.3g}; it is "
            "{most:.3g} at most, as a rate would be: the rate is {product:.2g} at most",
            "give the optimizer lr=1.0, or let the function give 1 at its peak",
        ),
        Row(
            "wrong_rate",
            lambda f: f.first(),
            "this sets the rate of the first group of {kind} alone, step by step; its other groups "
            "({groups} in all) keep the rate that they began with",
            "for every group: for group, rate in zip(optimizer.param_groups, rates): "
            "group['lr'] = rate * factor",
        ),
        Row(
            "wrong_rate",
            lambda f: f.empty(),
            "of {groups} groups of {kind} the only one with a decay ({decay:g}) has no parameters: "
            "nothing decays",
            "look at the condition that sorts parameters into groups: it is true of all",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._schedules: dict[int, Any] = {}
        self._groups: dict[int, _Groups] = {}
        self._empty: list[_Empty] = []

    @on(events.ScheduleBuilt)
    def _built(self, e: events.ScheduleBuilt) -> None:
        self._schedules[id(e.scheduler)] = e.scheduler

    @on(events.Built)
    def _optimizer(self, e: events.Built) -> None:
        groups: list[dict[str, Any]] = getattr(e.optimizer, "param_groups", [])
        decays = {group.get("weight_decay", 0.0) for group in groups if group["params"]}
        for group in [group for group in groups if not group["params"]]:
            decay = group.get("weight_decay", 0.0)
            if decays == {0.0} and decay:
                kind = type(e.optimizer).__name__
                self._empty.append(_Empty(e.place, kind, decay, len(groups)))

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        groups: list[dict[str, Any]] = getattr(e.optimizer, "param_groups", [])
        if len(groups) > 1:
            row = self._groups.setdefault(id(e.optimizer), _Groups(type(e.optimizer).__name__))
            rates = tuple([float(group.get("lr", 0.0)) for group in groups])
            if not row.rates or len(row.rates[-1]) == len(rates):
                row.rates.append(rates)

    def empty(self) -> list[_Empty]:
        """Groups of those that were made."""
        return self._empty

    def doubled(self) -> Iterator[_Rate]:
        """Functions that give a rate where a factor is meant."""
        for schedule in self._schedules.values():
            if (rate := _doubled_rate(schedule)) is not None:
                yield rate

    def first(self) -> Iterator[_First]:
        """Schedules by hand that reach the first group only."""
        for row in self._groups.values():
            if row.is_first_alone and (at := _first_group_line()) is not None:
                yield _First(at, row.kind, len(row.rates[-1]))


def _doubled_rate(schedule: Any) -> _Rate | None:
    """The largest factor of a schedule that is a function, whatever the step, if it is small."""
    functions = getattr(schedule, "lr_lambdas", None)
    base = max(getattr(schedule, "base_lrs", None) or [1.0])
    if not functions or base > _USUAL or not all(hasattr(f, "__code__") for f in functions):
        return None
    try:  # in a copy: they may count their calls, or fail at other steps
        most = in_confined_copy(lambda: max(float(f(n)) for f in functions for n in _STEPS))
    except LostError:
        return None
    if not 0 < most <= _SMALL or most * base > _TINY:
        return None
    code = functions[0].__code__
    last = max([line for *_, line in code.co_lines() if line], default=code.co_firstlineno)
    return _Rate(most, base, Place(code.co_filename, last, code.co_qualname))


def _first_group_line() -> Place | None:
    """The line that sets the rate of the first group by its number, if no other line of the
    program sets that of a group."""
    found: list[tuple[Place, ast.expr]] = []
    for file, tree in users_trees("param_groups", '"lr"', "'lr'"):
        for n in [n for n in ast.walk(tree) if isinstance(n, ast.Assign | ast.AugAssign)]:
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            sets = [x for x in targets if isinstance(x, ast.Subscript)]
            rates = [x.value for x in sets if ast.unparse(x.slice) == "'lr'"]
            found += [(Place(file, n.lineno), of) for of in rates]
    lines = [at for at, of in found if ast.unparse(of).endswith(".param_groups[0]")]
    return lines[0] if len(found) == len(lines) == 1 else None
