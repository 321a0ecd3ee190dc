"""What runs of a step found and left, and what is known of it after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.compile.scalars.ints.symbolic import Check, Steps
from chainrule.compile.scalars.steps.numbers import Arithmetic
from chainrule.compile.scalars.steps.state import State
from chainrule.compile.scalars.tape import Tape
from chainrule.compile.trace.guards.guards import Guards
from chainrule.scalar import Value
from chainrule.tree import Structure

SLOPE, RESULT, FLOAT, INT = "slope", "result", "float", "int"
"""Kinds of inputs of an update, beside those of the state: derivatives of what `backward` is called
on, its number, and arguments."""


@final
@dataclass(slots=True)
class Outcome:
    """What a run found and left: the numbers of its state before it, by kind; the objects that are
    there after it; what it returned."""

    before: dict[Any, list[float]]
    floats: list[float]
    data: list[Any] = field(default_factory=list[Any])
    gradients: list[Any] = field(default_factory=list[Any])
    lists: list[list[Any]] = field(default_factory=list[list[Any]])
    counts: list[Any] = field(default_factory=list[Any])
    returned: Any = None
    root: Value | None = None
    nodes: Arithmetic = field(default_factory=Arithmetic)
    steps: Steps = field(default_factory=Steps)
    leaves: list[Value] = field(default_factory=list[Value])
    """Values that stand for floats among the arguments."""


@final
@dataclass(frozen=True, slots=True)
class RecordedStep:
    """What a step does. `outcomes` are those of its runs: the first one for the numbers that it was
    called with; the others are of the program as it is."""

    state: State
    tape: Tape
    outcomes: Sequence[Outcome]
    structure: Structure
    read: Guards
    check: Check | None
    fixed: frozenset[int]
