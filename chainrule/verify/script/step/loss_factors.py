"""Products in the loss, and values that are compared with themselves: what a factor is for is known
from what else is done with it in the step.

A weight of single samples must meet their single losses: a mean that was taken first leaves only
the mean of the weights. A value that another term fits to data (`critic`) only weighs the other
factor of a product (`log_prob`); if it has a graph there, the product trains it as well. What the
same parameters make of the same values once more is no older version of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from chainrule.verify.place import Place
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import Entry, Tape, things_in
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.script.step.terms import SCALING, is_linear, terms_of_sum
from chainrule.verify.user_frames import placed

_PRODUCTS = {"mul", "__mul__", "__rmul__", "mul_"}
FITS = {"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"}
SQUARES = {"pow", "__pow__", "square"}
_BOUNDS = {"clamp", "clip", "clamp_", "clip_"}


@dataclass(frozen=True)
class Factor:
    """A product in the loss that is not what it seems."""

    code: str
    place: Place
    count: int = 0
    """Elements of a weight that act only by their mean."""
    roots: frozenset[int] = frozenset()
    """Ids of the parameters that only the weight has, which it trains."""
    turn: int = 0

    @property
    def spot(self) -> Spot:
        """It in words."""
        because, advice = _WORDS[self.code]
        return Spot(self.code, self.place, because.format(n=self.count), advice)


_Weight: TypeAlias = tuple[Factor, frozenset[int], frozenset[int]]


@dataclass
class Factors:
    """Collected over the backward passes of one step."""

    found: dict[Factor, None] = field(default_factory=dict[Factor, None])
    _weights: list[_Weight] = field(default_factory=list[_Weight])
    """Products of two values with a graph: what is told of them, the heads of the weight, and all
    entries before it, by their ids."""
    _used: list[_Weight] = field(default_factory=list[_Weight])
    """Those with whose gradients an optimizer has stepped."""
    _fits: list[tuple[int, frozenset[int]]] = field(
        default_factory=list[tuple[int, frozenset[int]]]
    )
    """Calls that fit values to data, by their ids, and the heads of these values."""

    def look(self, part: Slice, turn: int) -> None:
        """What one loss is made of."""
        if not any(e.at for e in part.entries):
            return  # no line is known
        for entry in _products(part):
            if (place := placed(entry.at)) is None:
                continue
            if count := _reduced_first(part, entry):
                self.found[Factor("reduced_first", place, count)] = None
            self._weights += _weights(part, entry, place, turn)
        self._fits += [(id(e), found) for e in part.entries if (found := _fitted(part, e))]
        for entry in part.entries:
            if entry.is_same and _is_ratio_of_old(part, entry):
                place = placed(_older(part, entry).at)
                if place is not None:
                    self.found[Factor("self_compared", place)] = None

    def reset(self, leaves: frozenset[int]) -> None:
        """Gradients of these were dropped: what a product gave them is gone."""
        self._weights = [row for row in self._weights if not row[0].roots <= leaves]

    def note_step(self, parameters: set[int]) -> None:
        """An optimizer has stepped with what products gave its parameters."""
        self._used += [row for row in self._weights if row[0].roots & parameters]
        self._weights = [row for row in self._weights if row not in self._used]

    def settle(self) -> list[Factor]:
        """When the step is over: which weights are fitted to data elsewhere?"""
        for factor, own, before in (*self._used, *self._weights):
            if any(own & fitted and fit not in before for fit, fitted in self._fits):
                self.found[factor] = None
        self._weights.clear()
        return list(self.found)


def _products(part: Slice) -> Iterator[Entry]:
    """Products that are added up to the loss."""
    added = part.back({part.loss}, terms_of_sum)
    return (e for e in added if e.name in _PRODUCTS and e.is_live)


# --- a mean before the weights


def _reduced_first(part: Slice, entry: Entry) -> int:
    """How many weights meet one number that a mean or a sum over as many has made; 0 if none do."""
    tape = part.tape
    size = _size(tape, entry.outputs[0])
    means = [n for x in entry.args if (n := tape.mean_of(x)) > 1] if size == 1 else []
    counts = [size] if size > 1 else means
    for slot in entry.connected:
        if _size(tape, slot) == 1 and slot not in tape.roots:
            shapes = _reduced_shapes(part, slot)
            for n in counts:
                if any(n in (*shape, math.prod(shape)) for shape in shapes):
                    return n
    return 0


def _reduced_shapes(part: Slice, slot: int) -> list[tuple[int, ...]]:
    """Shapes of what one number was reduced from."""
    for entry in part.back({slot}, lambda e: e.connected):
        shapes = [part.tape.shapes.get(s, ()) for s in entry.connected]
        wide = [shape for shape in shapes if math.prod(shape) > 1]
        if wide:
            touches = not set(entry.connected).isdisjoint(part.tape.roots)
            return [] if touches else wide
        if not (is_linear(entry) or entry.name in SCALING):
            return []
    return []


def _size(tape: Tape, slot: int) -> int:
    return math.prod(tape.shapes.get(slot, ()))


# --- a weight that is trained


def _weights(part: Slice, entry: Entry, place: Place, turn: int) -> list[_Weight]:
    """Each factor of a product, as a weight of the other one."""
    if len(entry.connected) != 2 or len(entry.inputs) != 2:
        return []
    rows: list[_Weight] = []
    for weight, other in (entry.connected, entry.connected[::-1]):
        own_heads, others = heads(part, weight), heads(part, other)
        if own_heads and others and not own_heads & others and meets_data(part, weight):
            tape = part.tape
            ids = [
                frozenset([tape.identity(tape.roots[r]) for r in part.live_roots_of(s)])
                for s in (weight, other)
            ]
            own = Factor("weight_trained", place, 0, ids[0] - ids[1], turn)
            before = frozenset([id(e) for e in part.upstream({weight, other})])
            if own.roots:
                rows.append((own, own_heads, before))
    return rows


def heads(part: Slice, slot: int) -> frozenset[int]:
    """The last results of parameters that a value with a graph comes from."""
    return frozenset([s for e, takes in _down_to_heads(part, slot) if takes for s in e.outputs])


def _down_to_heads(part: Slice, slot: int) -> Iterator[tuple[Entry, bool]]:
    """Calls that made a value with a graph, down to those that take parameters; whether they do."""
    roots = part.tape.roots.keys()

    def way(e: Entry) -> Sequence[int]:
        return e.connected if e.is_live and roots.isdisjoint(e.connected) else ()

    made = part.back({slot}, way)
    return ((e, not roots.isdisjoint(e.connected)) for e in made if e.is_live)


def meets_data(part: Slice, slot: int) -> bool:
    """Whether a value is added to data, as an advantage is to rewards."""
    made = _down_to_heads(part, slot)
    return any(is_linear(e) and _has_data(e) for e, takes in made if not takes)


def _has_data(entry: Entry) -> bool:
    numbers = [x for x in entry.args if isinstance(x, float) and x not in (0.0, 1.0)]
    inner = len(entry.inputs) > len(entry.connected)
    return inner or bool(numbers) or any(t.is_floating_point() for t in _constants(entry))


def _constants(entry: Entry) -> list[Any]:
    """Tensors among the arguments of a call, which depend on nothing."""
    return [x for x in things_in((entry.args, entry.kwargs)) if hasattr(x, "is_floating_point")]


def _fitted(part: Slice, entry: Entry) -> frozenset[int]:
    """The heads of what a call fits to data: by a loss of two values, or the square of a
    difference."""
    if not entry.is_live or not entry.connected:
        return frozenset()
    slot = entry.connected[0]
    if entry.name in FITS and _has_data(entry):
        return heads(part, slot)
    if entry.name in SQUARES and meets_data(part, slot):
        return heads(part, slot)
    return frozenset()


# --- a value and itself


def _is_ratio_of_old(part: Slice, entry: Entry) -> bool:
    """Whether a difference that is 0 is bounded as the ratio of a new version and an old one, and
    both were made of values that are older than the last update."""
    reached = part.forth(entry.outputs)
    bounds = any(e.name in _BOUNDS and reached.intersection(e.inputs) for e in part.entries)
    return bounds and all(_is_reused(part, slot) for slot in entry.connected)


def _older(part: Slice, entry: Entry) -> Entry:
    """The call that made the side without a graph, which stands for the old version."""
    olds = {s for s in entry.inputs if s not in entry.connected}
    made = [e for e in part.entries if olds.intersection(e.outputs)]
    return made[-1] if made else entry


def _is_reused(part: Slice, slot: int) -> bool:
    """Whether a value was made of parameters and constants that are older than the step, alone:
    of no sample that was drawn, or choice that was made, with the parameters as they are now."""
    constants = 0
    for entry in part.back({slot}):
        given = _constants(entry)
        constants += len(given)
        if (entry.connected and not entry.is_live) or any(map(part.tape.is_fresh, given)):
            return False
    return constants > 0


_WORDS = {
    "reduced_first": (
        "{n} weights are multiplied with one number, which was reduced from as many losses before: "
        "only the mean of the weights acts, the same for all samples",
        "keep the losses apart until they are weighted: reduction='none', times the weights, then "
        "the mean",
    ),
    "weight_trained": (
        "both factors of this product have a graph: the factor that another term fits to data is "
        "meant as a weight here, and the product trains its parameters as well",
        "take the weight off the graph in the product: `.detach()`",
    ),
    "self_compared": (
        "both sides were made by the parameters as they are now, of values that are older than the "
        "last update: they are equal in each step, so that the bounds of their ratio never act",
        "compute the old version once, before the updates, and keep it",
    ),
}
