"""What the cuts of a recorded step cost, which of them are mistakes, and what is said of them.

An error: something in the optimizer gets no gradient at all because of the cut. A warning: a part
of a gradient is lost inside the network, or a term of the loss trains nothing. A note: the value
goes into the loss only, as targets and weights do, or comes from a step function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chainrule.engine.source_text import source_line
from chainrule.verify.finding import Correction, Finding, Level, Name
from chainrule.verify.ledger import STEP
from chainrule.verify.place import Place
from chainrule.verify.script.remedies.cuts import switch_on
from chainrule.verify.script.remedies.rewrites import DERIVED_AGAIN, OTHER_WAY_ROUND, SCALED_NOISE
from chainrule.verify.script.step.cuts.costs import CutCost, Root
from chainrule.verify.script.step.loss_factors import Factors
from chainrule.verify.script.step.spots import Spot, spot_finding
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.trees import function_at, tree_of_file


@dataclass(eq=False)
class Step:
    """What was seen of the recorded step."""

    costs: list[CutCost] = field(default_factory=list[CutCost])
    reached: set[int] = field(default_factory=set[int])
    """Ids of the leaves that some backward pass reached."""
    fed: set[int] = field(default_factory=set[int])
    """Ids of the leaves to which some backward pass gave a gradient that is not 0."""
    flat: set[int] = field(default_factory=set[int])
    """Ids of the leaves that get 0 because of a call without a slope, whatever else is cut."""
    orphans: set[int] = field(default_factory=set[int])
    """Ids of the leaves that get no gradient because of a cut that is a finding."""
    stepped: set[int] = field(default_factory=set[int])
    """Ids of the parameters of optimizers that made a step; empty if there are no optimizers."""
    numbers: list[tuple[Place, str, float, float]] = field(
        default_factory=list[tuple[Place, str, float, float]]
    )
    """Numbers in the loss that were tensors with a graph (see `added_numbers`)."""
    idle: dict[Spot, None] = field(default_factory=dict[Spot, None])
    """Where the gradient of terms of the loss ends."""
    factors: Factors = field(default_factory=Factors)
    """Products in losses."""
    used: set[int] = field(default_factory=set[int])
    """Slots whose graph has been used by a backward pass."""
    turn: int = 0
    """Backward passes between two steps of optimizers are one turn."""
    _steps: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """By turn: ids of the parameters of the optimizers that made a step at its end."""

    def note_pass(self, leaves: set[int]) -> None:
        """Note a backward pass that reaches leaves, by their ids."""
        self.turn += self.turn in self._steps
        self.reached |= leaves

    def note_step(self, parameters: set[int]) -> None:
        """Note an optimizer's step, and the ids of its parameters."""
        self.stepped |= parameters
        self._steps.setdefault(self.turn, set()).update(parameters)

    def parameters_of(self, turn: int) -> set[int]:
        """Ids of the parameters that the losses of a turn train: a discriminator's loss does not
        train the generator. All that are trained, where that was not seen."""
        return self._steps.get(turn, self.stepped)


_EXCHANGED = ("opposed", "reversed")
"""Uses of a cut in which what is smooth and what is a step have each other's place."""
RIGHT = 0.02
"""Error at which the opened gradient agrees with differences, in the script's own precision."""


class _Kind(NamedTuple):
    """A kind of cuts."""

    words: str
    instead: str
    """What to do."""
    piece: str = ""
    """What makes the cut, if leaving it out, or another one in its place, is the correction."""
    other: str = ""
    edit: Callable[[Place], Edit | None] = lambda _: None
    """The correction as changed code, where it is more than a piece of the line."""


_KINDS = {
    "detach": _Kind(
        "`.detach()` cuts the graph", "leave `.detach()` out on this line", ".detach()"
    ),
    "data": _Kind(
        "`.data` is not connected to the graph",
        "use the tensor itself instead of its `.data`",
        ".data",
    ),
    "tensor": _Kind(
        "`torch.tensor(...)` copies the value and leaves its graph behind",
        "use the tensor itself (torch.stack for several) instead of torch.tensor(...)",
    ),
    "grad": _Kind(
        "`torch.autograd.grad` gives a derivative without a graph here",
        "take the derivative with create_graph=True",
        edit=DERIVED_AGAIN.at,
    ),
    "number": _Kind(
        "the value leaves the graph as numbers here, which come back as constants",
        "keep tensors, and compute with them what is computed with these numbers",
    ),
    "no_grad": _Kind("autograd is off here", "compute it outside of no_grad()", edit=switch_on),
    "draw": _Kind(
        "this sample is drawn without a graph",
        "draw it with rsample(), or as mean + std * randn_like(std): they keep the graph",
        ".sample(",
        ".rsample(",
        SCALED_NOISE.at,
    ),
}


def cut_findings(step: Step) -> list[Finding]:
    """Findings for cuts that cost something, and for terms of the loss that are mere numbers."""
    spots = [*[_number(*row) for row in dict.fromkeys(step.numbers)], *step.idle]
    for factor in step.factors.settle():
        known = step.parameters_of(factor.turn)
        if not (factor.roots and known) or factor.roots & known:
            spots.append(factor.spot)
    costs = [f for seen in step.costs for f in _finding(seen, step)]
    return [*costs, *map(spot_finding, spots)]


def _number(place: Place, how: str, value: float, factor: float) -> Spot:
    """A term of the loss that was made a number first."""
    word = "float(...)" if how == "__float__" else f"`.{how}()`"
    because = (
        f"{word} made a number of it, {value:.6g}, and {factor:g} times that is added to the loss: "
        "a constant, which trains nothing"
    )
    advice = f"leave {word} out on this line, so that this term of the loss keeps its graph"
    edit = _line_without(place, word.strip("`"))
    return Spot("partly_detached", place, because, advice, edit)


def _finding(seen: CutCost, step: Step) -> list[Finding]:
    """What is said of a cut: nothing if it costs no parameter that is trained enough of its
    gradient."""
    known = step.parameters_of(seen.turn)
    told = step.flat
    if seen.where in _EXCHANGED:
        told = set[int]()
    trained = [r for r in seen.roots if r.ident not in told and (not known or r.ident in known)]
    hurt = [r for r in trained if r.share > seen.allowed]
    if not hurt:
        return []
    orphans = [r for r in hurt if r.ident not in step.reached]
    if orphans == [] and seen.by & known:
        return []  # what is called first order: the derivative is a step of the parameters' own
    if seen.kind == "draw" and (orphans or seen.where != "sample"):
        return []  # drawn to be looked at, as actions and data are
    level = _level(seen, bool(orphans))
    step.orphans |= {r.ident for r in orphans if level != "note"}
    named = orphans or hurt
    rivals = [_rival(other) for other in step.costs if orphans and _is_rival(seen, other)]
    names = join_names(dict.fromkeys([r.name for r in named]))
    code = "detached" if orphans else "partly_detached"
    if seen.where in ("step", *_EXCHANGED):
        code = "sign" if seen.where == "opposed" else "straight_through"
    return [
        Finding(
            level,
            "the loss",
            STEP,
            named[0].name if len(named) == 1 else "",
            tuple(_names(code, _because(seen, orphans, hurt, bool(known)), names, step)),
            place=seen.place,
            error=max([r.share for r in named]),
            evidence=(*_evidence(seen, named), *rivals),
            correction=_correction(seen, not rivals),
        )
    ]


def _names(code: str, because: str, names: str, step: Step) -> Iterator[Name]:
    yield Name(code, because, f"parameters: {names}")
    if code == "detached" and step.reached:
        others = f"{len(step.reached)} parameters get theirs by other ways through the loss"
        apart = "whether these parameters were to be trained by this way only"
        yield Name("partly_detached", others, apart=apart)


def _is_rival(seen: CutCost, other: CutCost) -> bool:
    """Whether another loss of the same turn is cut off from the same parameters elsewhere."""
    shared = {r.ident for r in seen.roots} & {r.ident for r in other.roots}
    apart = seen.loss != other.loss and seen.place != other.place
    return seen.turn == other.turn and apart and bool(shared)


def _rival(other: CutCost) -> str:
    return f"another loss is cut off from them at {other.place}: one of the two may be meant"


def _level(seen: CutCost, orphans: bool) -> Level:
    if seen.where == "opposed":
        return "error"
    if seen.where == "step" or (seen.where == "inside" and _is_hooked(seen.place)):
        return "note"
    if orphans:
        return "warning" if seen.kind == "no_grad" else "error"
    if seen.where == "loss" or (seen.kind == "no_grad" and seen.where == "inside"):
        return "note"
    return "warning"


def _is_hooked(place: Place | None) -> bool:
    """Whether the function that cuts hooks a tensor: the gradient that is missing is given there.
    Not in a function that trains, which has hooks for other things."""
    inner = function_at(tree_of_file(place.file), place.line) if place is not None else None
    nodes = ast.walk(inner) if inner is not None else ()
    named = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    return "register_hook" in named and "backward" not in named


def _because(seen: CutCost, orphans: Sequence[Root], hurt: Sequence[Root], optimized: bool) -> str:
    said = _KINDS[seen.kind].words
    if seen.where == "opposed":
        return "the step is given the gradient of what it was made of with the other sign"
    if orphans:
        where = " in the optimizer" if optimized else ""
        some = f"a parameter{where} acts on the loss and gets"
        if len(orphans) > 1:
            some = f"{len(orphans)} parameters{where} act on the loss and get"
        return f"{said}: {some} no gradient at all"
    worst = max(hurt, key=lambda r: r.share)
    return f"{said}: {worst.share:.1%} of the gradient of {worst.name} would come this way"


def _evidence(seen: CutCost, roots: Sequence[Root]) -> list[str]:
    """The lines under a finding: the norms of what is lost, and what the place of the cut means."""
    rows = [
        f"{r.name}: gradient past the cut has norm {r.kept:.3g}, through it {r.lost:.3g}"
        for r in roots[:4]
    ]
    means = {
        "step": "a step function lies before the cut, or the value meets there what it was cut "
        "from: its gradient is made up on purpose",
        "opposed": "the cut copy is added and the value itself taken off: -1 times the gradient",
        "reversed": "what is smooth gives the value, and a step the gradient: it is meant to be "
        "the other way round",
        "added": "the value is only added to the loss: this term changes no gradient",
        "bare": "a parameter itself is cut off: this use of it trains nothing",
        "inside": "behind the cut the value meets connected ones, and parameters act on both",
        "sample": "parameters go on with the sample, and what it was drawn with gets nothing of it",
        "derivative": "the derivative goes straight into the loss, which cannot change it so",
        "wasted": "the derivative was taken with a graph of its own, which nothing uses: it was "
        "meant to be trained through",
        "state": "each turn of a recurrence cuts off what the one before has made: of all its "
        "calls only the last one trains",
        "loss": "behind the cut the value meets no connected one before the loss: so do targets, "
        "weights, and what is handed to a part that trains by itself",
    }
    return [*rows, means[seen.where]]


def _correction(seen: CutCost, known: bool) -> Correction:
    """The line without the cut; the step was run so, and its gradient compared. That tells nothing
    where it is not `known` which of several losses the parameters belong to."""
    kind = _KINDS[seen.kind]
    if seen.where == "opposed":
        changed = OTHER_WAY_ROUND.at(seen.place) or Edit("", "", seen.place)
        return Correction(_advice(seen), changed.before, changed.after, changed.place)
    edit = kind.edit(seen.place) or _line_without(seen.place, kind.piece, kind.other)
    right = bool(edit.after) and known and seen.error < RIGHT
    error = seen.error if right else None
    return Correction(
        _advice(seen), edit.before, edit.after, edit.place, rechecked=right, error=error
    )


def _line_without(place: Place, piece: str, other: str = "") -> Edit:
    """The line with another piece, if it has that piece once."""
    line = source_line(place.file, place.line)
    after = line.replace(piece, other) if piece and line.count(piece) == 1 else ""
    return Edit(line, after, place)


def _advice(seen: CutCost) -> str:
    if seen.where in _EXCHANGED:
        return "the other way round: soft + (hard - soft).detach()"
    return f"{_KINDS[seen.kind].instead}; if it is meant, nothing is to be done"
