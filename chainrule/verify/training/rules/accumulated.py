"""Rules for backward passes that are added up for one step: their divisor, resets, clipping.

Passes are taken for one accumulation only if they come from the same line, each with a forward pass
of its own: two losses, or one loss for each head, are none. A loss that is a sum needs no division.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chainrule.source_text import source_line
from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.record.scale import Scale
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.rules.means import Weighed, mean_of_means
from chainrule.verify.training.text import division, edits
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import Frames


class UnreadError(Exception):
    """How the losses were scaled cannot be told."""


@dataclass(frozen=True)
class Micro:
    """One backward pass, as one optimizer sees it."""

    site: Frames
    place: Place | None
    scale: Scale | None
    touched: frozenset[int]
    alone: bool
    """Whether its forward pass is its own, and not kept for another one."""
    first: bool
    """Whether the gradients were empty before it."""
    chained: bool
    """Whether its forward pass read a value that the one before had made, cut from its graph: a
    sequence goes on, whose losses are added up rightly."""
    single: bool
    """Whether what the model was given is one example."""


@dataclass(eq=False)
class Row:
    """What is known of the passes for one optimizer."""

    optimizer: Any
    group: list[Micro] = field(default_factory=list[Micro])
    groups: list[tuple[Micro, ...]] = field(default_factory=list[tuple[Micro, ...]])
    weighed: Weighed = field(default_factory=Weighed)
    looks: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """How its gradients looked after the last event that may change them, by id."""
    clips: set[int] = field(default_factory=set[int])
    """After how many passes of this group gradients were clipped."""
    often: list[bool] = field(default_factory=list[bool])
    """For each group whether that was after each of its passes, all on what was added up."""
    clipped_at: Place | None = None
    changed: bool = False
    """Whether the program changed gradients by itself."""
    zeroed_at: Place | None = None
    dropped_at: set[Place | None] = field(default_factory=set[Place | None])
    """Where groups were reset before their step."""
    stepped_at: Place | None = None


def judged(row: Row) -> list[Finding]:
    """What is wrong with the groups of passes of an optimizer, which is one thing at most;
    `UnreadError` if that cannot be told."""
    if not _is_accumulation(row.groups):
        return []
    if all(row.often):
        return [_clipped_often(row)]
    if any(m.scale is None for group in row.groups for m in group):
        raise UnreadError("how the loss was scaled cannot be read from its graph")
    finding = _dropped(row) or mean_of_means(row) or _wrong(row)
    return [] if finding is None else [finding]


def _is_accumulation(groups: list[tuple[Micro, ...]]) -> bool:
    every = [m for group in groups for m in group]
    first = every[0]
    several = sum([len(group) > 1 for group in groups]) >= 2
    return several and all(
        m.alone and m.site == first.site and m.touched == first.touched for m in every
    )


def _since_reset(group: tuple[Micro, ...]) -> tuple[Micro, ...]:
    """What the step has used: the passes since the gradients were empty."""
    starts = [i for i, m in enumerate(group) if m.first]
    return group[starts[-1] :] if starts else group


def _divisors(groups: list[tuple[Micro, ...]]) -> list[tuple[int, float]]:
    """Size and divisor of each group; -1 where the divisor differs within one."""
    rows: list[tuple[int, float]] = []
    for group in groups:
        found = {round(m.scale.divisor, 6) for m in group if m.scale is not None}
        rows.append((len(group), found.pop() if len(found) == 1 else -1.0))
    return rows


def _dropped(row: Row) -> Finding | None:
    """A reset in front of every backward pass, though several are meant for one step."""
    groups = row.groups
    if not all(m.first for group in groups for m in group):
        return None
    k, d = Counter(_divisors(groups)).most_common(1)[0][0]
    certain = abs(d - k) < 1e-6
    because = (
        f"{k} backward passes go before each step, and the gradients are reset in front of each of "
        f"them: {k - 1} of {k} gradients are dropped"
    )
    detail = f"the loss is divided by {d:g}, as if all {k} counted" if certain else ""
    return finding(
        "error" if certain else "warning",
        "reset_misplaced",
        because,
        "reset once for every step: behind optimizer.step(), not in front of each backward pass",
        row.zeroed_at or groups[0][0].place,
        detail=detail,
        edit=edits.moved_behind(row.zeroed_at, row.stepped_at),
    )


def _clipped_often(row: Row) -> Finding:
    """Clipped after each pass, the first ones count less the more there are."""
    k = Counter([len(group) for group in row.groups]).most_common(1)[0][0]
    because = (
        f"{k} backward passes go before each step, and what they have added up so far is clipped "
        "after each of them: each clipping shrinks the passes before it once more"
    )
    correction = "clip once for every step, behind the last backward pass"
    return finding("warning", "accumulation", because, correction, row.clipped_at)


def _wrong(row: Row) -> Finding | None:
    groups = row.groups
    rows = _divisors([_since_reset(group) for group in groups])
    sizes = [k for k, _ in rows]
    usual = Counter(sizes).most_common(1)[0][0]
    divisors = {d for _, d in rows}
    scale = groups[0][0].scale
    if scale is None or -1.0 in divisors:
        return None
    if all(abs(d - k) < 1e-6 for k, d in rows):
        return _left(row, sizes, usual)
    place = groups[0][0].place
    if len(divisors) > 1 or usual < 2:
        return None
    d = divisors.pop()
    if abs(d - usual) < 1e-6:
        if is_early(sizes, usual):
            return early(sizes, usual, row.stepped_at)
        return uneven(sizes, usual, place)
    own = _is_own_mean(groups, d)
    if not (scale.reduction == "mean" or own) or _is_sum(groups, d) or _is_sequence(groups):
        return None
    d = 1.0 if own else d
    certain = scale.by_division and d >= 2 and abs(d - round(d)) < 1e-6 and round(d) % usual != 0
    by = "not divided" if abs(d - 1) < 1e-6 else f"divided by {d:g}"
    because = (
        f"{usual} backward passes are added up for each step, each of a mean over its batch; the "
        f"loss is {by}: the gradient is {usual / d:.4g} times the mean's"
    )
    once = abs(d - 1) < 1e-6
    edit = division.divided(place, usual) if once else division.redivided(place, d, usual)
    return finding(
        "error" if certain else "warning",
        "accumulation",
        because,
        f"divide the loss by the number of backward passes: (loss / {usual}).backward()",
        place if edit is None else edit.place,
        detail=f"the divisor is {d:g}, the number of backward passes {usual}",
        edit=edit,
    )


def _left(row: Row, sizes: list[int], usual: int) -> Finding | None:
    """Passes that were dropped between whole groups."""
    if usual < 2 or len(set(sizes)) > 1 or len(row.dropped_at) != 1:
        return None
    starts = [[i for i, m in enumerate(group) if m.first] for group in row.groups]
    dropped = [b - a for some in starts for a, b in pairwise(some)]
    (reset,) = row.dropped_at
    return leftover(dropped, usual, reset, row.groups[0][0].place)


def _is_own_mean(groups: list[tuple[Micro, ...]], divisor: float) -> bool:
    """Whether each loss is a sum that is divided by the number of its own examples."""
    scales = [m.scale for group in groups for m in group]
    return all(s is not None and s.reduction == "sum" and divisor in s.counts for s in scales)


def _is_sum(groups: list[tuple[Micro, ...]], divisor: float) -> bool:
    """Whether each loss is a sum over the steps of a sequence, or the mean over them."""
    terms = {m.scale.terms for group in groups for m in group if m.scale is not None}
    return min(terms) > 1 and any(divisor in (1.0, n) for n in terms)


def _is_sequence(groups: list[tuple[Micro, ...]]) -> bool:
    """Whether the passes for a step are pieces of one sequence (truncated backpropagation)."""
    return all(m.chained for group in groups for m in group[1:])


def is_early(sizes: Sequence[int], usual: int) -> bool:
    """Whether the first of at least three steps had one backward pass, and the next ones all."""
    return len(sizes) >= 3 and sizes[0] == 1 < usual and all(k == usual for k in sizes[1:3])


def early(sizes: Sequence[int], usual: int, stepped_at: Place | None) -> Finding:
    """The finding, on the line that decides when to step."""
    because = (
        f"backward passes for each step: {', '.join(map(str, sizes))}; all divided by {usual}: the "
        f"first step comes after one of {usual}, and what is left at the end of an epoch is lost"
    )
    place, edit = _decided(stepped_at)
    words = f"step after every {usual} backward passes: `if (i + 1) % {usual} == 0`"
    return finding("warning", "accumulation", because, words, place, edit=edit)


def _decided(at: Place | None) -> tuple[Place | None, Edit | None]:
    """The `if i % n == 0:` around a line, and the same for `i + 1`; the line itself without one."""
    for n in ast.walk(tree_of_file(at.file)) if at is not None else ():
        match n:
            case ast.If(test=ast.Compare(left=ast.BinOp(left=count, op=ast.Mod()), ops=[ast.Eq()])):
                inside = n.lineno <= at.line <= (n.end_lineno or n.lineno) if at else False
            case _:
                continue
        if inside and at is not None and count.lineno == count.end_lineno:
            place = Place(at.file, count.lineno, at.function)
            text = source_line(at.file, count.lineno)
            first, last = count.col_offset, count.end_col_offset or 0
            return place, Edit(text, f"{text[:first]}({text[first:last]} + 1){text[last:]}", place)
    return at, None


_LOOPS = (ast.For, ast.While, ast.AsyncFor)


def leftover(
    dropped: Sequence[int], usual: int, reset: Place | None, passes: Place | None
) -> Finding | None:
    """The finding; None if the reset could be meant for the batch itself.

    Args:
        dropped: How many passes each reset has dropped.
        usual: How many passes there are for a step.
        reset: Where they were dropped.
        passes: Where the backward passes are.
    """
    if not dropped or not all(n < usual for n in dropped) or not _is_outside(reset, passes):
        return None
    some = ", ".join(map(str, dropped))
    because = (
        f"{usual} backward passes go into each step, and at the end of an epoch {some} are left "
        "over, which a reset drops: these batches train nothing"
    )
    words = (
        "step for the last, shorter group of an epoch, too, and divide it by its own size, if they "
        "are not dropped on purpose"
    )
    return finding("note", "accumulation", because, words, reset)


def uneven(sizes: list[int], usual: int, place: Place | None) -> Finding | None:
    """Groups that are larger (gradients were left over) or smaller (the last of an epoch)."""
    larger = [k for k in sizes if k > usual]
    because = f"backward passes for each step: {', '.join(map(str, sizes))}; all divided by {usual}"
    if larger:
        detail = (
            f"a step has used {larger[0]} of them: what was left over was neither used nor reset"
        )
        correction = "step (or reset) at the end of the epoch, too, so that nothing is left over"
        return finding("warning", "accumulation", because, correction, place, detail=detail)
    detail = (
        f"a group of {min(sizes)} is divided by {usual}: its step is {min(sizes)}/{usual} as long"
    )
    correction = "divide the last group of an epoch by its own size"
    return finding("note", "accumulation", because, correction, place, detail=detail)


def _is_outside(reset: Place | None, passes: Place | None) -> bool:
    """Whether the loop around the reset is one around the loop of the passes."""
    if reset is None or passes is None:
        return False
    if reset.file != passes.file or reset.function != passes.function:
        return False
    outer, inner = _loops(reset), _loops(passes)
    return bool(outer) and len(outer) < len(inner) and inner[: len(outer)] == outer


def _loops(at: Place) -> list[int]:
    """Lines of the loops around a line, the outermost first."""
    loops = [n for n in ast.walk(tree_of_file(at.file)) if isinstance(n, _LOOPS)]
    return sorted([n.lineno for n in loops if n.lineno < at.line <= (n.end_lineno or 0)])
