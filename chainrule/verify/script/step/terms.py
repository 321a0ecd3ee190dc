"""Terms of the loss that train nothing, or too much, because of how they were added up.

Numbers that left their graph and come back as terms of the loss are known by their values. Of a
loss that its loop makes anew each time (`=` where `+=` belongs), only the last one is kept.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, cast

from chainrule.verify.place import Place
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import Entry, Tape
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import statement_at
from chainrule.verify.user_frames import placed, users_line


def added_numbers(part: Slice) -> list[tuple[Place, str, float, float]]:
    """Numbers that left and are added to the loss: where, how, value, factor."""
    constants = [x for e in part.entries if e.name in AFFINE for x in _numbers(e.args)]
    found: list[tuple[Place, str, float, float]] = []
    for place, how, value in _exits_by_line(part.tape):
        factors = [k for x in constants if (k := _factor(x, value)) is not None]
        if factors and _is_only_added(part, value):
            found.append((place, how, value, factors[0]))
    return found


def _is_only_added(part: Slice, value: float) -> bool:
    """Whether all calls that were given the number, times a factor, just add it to the loss."""
    given = [
        e for e in part.entries if any(_factor(x, value) is not None for x in _numbers(e.args))
    ]
    reached = part.below(given)
    after = [*given, *[e for e in part.entries if reached.intersection(e.inputs)]]
    return bool(given) and all(e.name in AFFINE for e in after)


def _exits_by_line(tape: Tape) -> list[tuple[Place, str, float]]:
    """Numbers that left by a line of the user's: each one, and the sum of a line's."""
    by: dict[tuple[str, str], tuple[Place, list[float]]] = {}
    for exit_ in tape.exits:
        place = users_line(exit_.frames)
        if isinstance(exit_.value, float) and place is not None:
            by.setdefault((str(place), exit_.how), (place, []))[1].append(exit_.value)
    found: list[tuple[Place, str, float]] = []
    for (_, how), (place, numbers) in by.items():
        found += [(place, how, n) for n in dict.fromkeys([*numbers, sum(numbers)])]
    return found


def _numbers(args: Any) -> list[float]:
    """Floats among the arguments of a call."""
    items = cast("Sequence[Any]", args)
    return [x for x in items if isinstance(x, float) and math.isfinite(x) and x]


def _factor(x: float, value: float) -> float | None:
    """The number of few digits by which `value` must be multiplied to give x; None if none."""
    if not value or not math.isfinite(value) or _short(value) == value:
        return None  # a number of few digits is met by chance
    factor = x / value
    return _short(factor) if math.isclose(factor, _short(factor), rel_tol=1e-14) else None


def _short(x: float) -> float:
    return float(f"{x:.4g}")


AFFINE = {
    "add", "sub", "neg", "sum", "mean", "__radd__", "__rsub__", "__add__", "__sub__", "add_",
    "sub_", "reshape", "view", "squeeze", "unsqueeze", "stack", "cat", "to", "float", "double",
    "clone", "detach", "data", "concat", "astype", "permute_dims", "broadcast_to", "sum_to",
}  # fmt: skip
"""Calls that add their arguments, or pass them on."""
ELEMENTWISE = AFFINE - {"sum", "mean", "stack", "cat", "concat", "sum_to", "detach", "data"}
"""Those of them that keep each element to itself."""
SCALING = {"mul", "div", "__rmul__", "__mul__", "__truediv__", "mul_", "div_", "true_divide"}
"""Calls that multiply or divide."""


def is_linear(entry: Entry, sums: Set[str] = AFFINE) -> bool:
    """Whether a call is one of `sums`, or multiplies one value by a constant."""
    return entry.name in sums or (entry.name in SCALING and len(entry.inputs) == 1)


def terms_of_sum(entry: Entry) -> Iterable[int]:
    """Inputs with a graph of a call that adds up its arguments, passes them on, or multiplies one
    by a constant."""
    return entry.connected if is_linear(entry) else ()


def adding_calls(part: Slice) -> Iterator[Entry]:
    """Calls that only add, or multiply by constants, on the way to the loss; the last one first."""
    return filter(is_linear, part.back({part.loss}, terms_of_sum))


_PASSES_ON = ELEMENTWISE | SCALING


def overwritten_losses(part: Slice, since: int, is_alive: Callable[[int], bool]) -> list[Spot]:
    """Losses that went nowhere, like one that is a term of this loss.

    Args:
        part: What the loss depends on.
        since: How many entries there were at the last backward pass.
        is_alive: Whether somebody still has the tensor of a slot.
    """
    terms = {(e.name, e.at): placed(e.at) for e in _terms(part)}
    recent = part.tape.entries[since:]
    alike = [e for e in recent if e.is_live and e.connected and (e.name, e.at) in terms]
    if len(alike) < 2:
        return []
    read = {s for e in recent for s in e.inputs} | {x.slot for x in part.tape.exits} | {part.loss}
    gone = [e for e in alike if not any(s in read or is_alive(s) for s in e.outputs)]
    counts = Counter([(e.name, e.at) for e in gone])
    rows = [(terms[key], key[0], count) for key, count in counts.items()]
    return [_overwritten(place, name, count) for place, name, count in rows if place is not None]


def _terms(part: Slice) -> list[Entry]:
    """The call that made the loss; if that only adds or scales numbers, those that made these."""
    return list(part.back({part.loss}, lambda e: e.connected if e.name in _PASSES_ON else ()))


def _overwritten(place: Place, name: str, count: int) -> Spot:
    """So many losses that a call of that name made on a line."""
    some = "one loss" if count == 1 else f"{count} losses"
    because = (
        f"{some} that `{name}` made on this line in the step were replaced by the next one and "
        "never read: only the last one trains"
    )
    advice = "add them up: `+=` on this line, from 0 before the loop"
    return Spot("overwritten", place, because, advice, as_sum(place))


def as_sum(place: Place) -> Edit | None:
    """The assignment on the line as a sum; None if nothing was assigned to its name before."""
    match statement_at(place):
        case source, ast.Assign(targets=[ast.Name() as name], value=value) as statement:
            if source.made(name) is name:
                return None
            text = f"{name.id} = {name.id} + {source.text(value)}"
            return source.with_pieces([(statement, text)])
        case _:
            return None
