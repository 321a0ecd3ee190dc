"""Entries of lists that are chosen by an argument: nodes of the graph, chosen anew in each call.

A row that is chosen from a list of rows is a row of such nodes. All that can be chosen has to be
alike: Values, or lists of them of one shape. From a list of ints an int is chosen.
"""

# A user's lists may hold anything; nodes are made of what Value keeps to itself.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.compile.scalars.ints.symbolic import Steps, SymbolicInt, plain
from chainrule.scalar import Value
from chainrule.scalar.rules import Made

GATHER = "gather"
"""What is said to have made such a node."""


def item(container: Any, index: Any) -> Any:
    """`container[index]`."""
    if type(index) is not SymbolicInt:
        return container[index]
    n = len(container) if type(container) in (list, tuple) else 0
    if not -n <= index.value < n:
        return container[plain(index)]
    if all(type(x) is int or type(x) is SymbolicInt for x in container):
        return _int_of(container, index, n)
    if n > 1 and _shape(container) is not None:
        return _chosen(container, index, n)
    return container[plain(index)]


def is_gathered(v: Value) -> bool:
    """Whether a node is one of these. Its children are what can be chosen, `_a` what was, `_b` the
    number of the index and `_at` that of the gather."""
    made: Any = v._made
    return made.mark is GATHER and made.children is not None


def _bounded(index: SymbolicInt, n: int) -> str:
    """The index from the start of what has n entries."""
    steps = index.steps
    if index.value >= 0:
        steps.require(f"0 <= {index.name} < {n}")
        return index.name
    steps.require(f"-{n} <= {index.name} < 0")
    return steps.define(f"({index.name} + {n})")


def _int_of(container: Sequence[Any], index: SymbolicInt, n: int) -> SymbolicInt:
    steps = index.steps
    at = _bounded(index, n)
    x = container[index.value]
    if any(type(y) is SymbolicInt for y in container):
        entries = ", ".join([y.name if type(y) is SymbolicInt else repr(y) for y in container])
        name = steps.define(f"({entries},)[{at}]")
    else:
        name = steps.define(f"{steps.table(container)}[{at}]")
    return SymbolicInt(steps, name, x.value if type(x) is SymbolicInt else x)


def _shape(x: Any) -> Any:
    """How lists of Values are nested, None if they hold anything else or are not alike."""
    if isinstance(x, Value):
        return ()
    if type(x) not in (list, tuple) or not x:
        return None
    first = _shape(x[0])
    if first is None:
        return None
    if first == ():
        alike = all(isinstance(y, Value) for y in x)
    else:
        alike = all(type(y) is type(x[0]) and _shape(y) == first for y in x)
    return (type(x), len(x), first) if alike else None


def _chosen(container: Sequence[Any], index: SymbolicInt, n: int) -> Any:
    steps = index.steps
    number = steps.index(_bounded(index, n))
    steps.calls += 1
    return _stand_in(container, index.value % n, number, steps)


def _stand_in(choices: Sequence[Any], at: int, number: int, steps: Steps) -> Any:
    """Nodes for what was chosen of these."""
    first = choices[0]
    if not isinstance(first, Value):
        columns = zip(*choices, strict=True)
        return type(first)([_stand_in(c, at, number, steps) for c in columns])
    v = Value(choices[at].data)
    v._made = Made(GATHER, children=tuple(choices))
    v._a, v._d_a, v._b, v._at = choices[at], 1.0, number, steps.calls
    return v
