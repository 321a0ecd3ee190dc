"""Values that meet themselves, as the record of a step shows: rows, each a function of what a loss
depends on.

Two values are made alike twice, with the same one of them off the graph. A value was computed once
more, of the same parameters as they still are. States are the next states as well, or labels are
what the model was given. What is told is measured on the values.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.script.step.links import Links
from chainrule.verify.script.step.loss_factors import FITS, SQUARES
from chainrule.verify.script.step.record.tape import Entry
from chainrule.verify.script.step.spots import Spot, spots_at
from chainrule.verify.training.text import edits
from chainrule.verify.trees import users_trees
from chainrule.verify.user_frames import placed

_COPIES = {"detach", "data", "clone"}
_LESS = {"sub", "__sub__"}
_ROWS = 8
"""So many examples at least."""


def fitted_twice(links: Links) -> Iterator[Spot]:
    """`mse(q, z.detach())` and `mse(z.detach(), q)`, where one of them was to train z."""
    found = defaultdict[tuple[str, frozenset[int]], list[tuple[Entry, int]]](list)
    for entry in links.entries:
        if len(entry.connected) == 1 and len(entry.inputs) == 2 and _is_fit(links, entry):
            pair = frozenset([_origin(links, s) for s in entry.inputs])
            found[entry.name, pair].append((entry, _origin(links, entry.connected[0])))
    for (_, pair), rows in found.items():
        trained, never = {own for _, own in rows}, pair - {own for _, own in rows}
        if len(rows) < 2 or len(trained) != 1 or not any(map(links.part.live_roots_of, never)):
            continue
        says = "the same two values are made alike here and at "
        says += f"{placed(rows[0][0].at)}, and both times the same one is off the graph"
        advice = "take the other one off the graph in one of the two"
        edit = edits.change_line(placed(rows[-1][0].at), _exchanged)
        for spot in spots_at("partly_detached", rows[-1][0], says, advice):
            yield spot._replace(edit=edit)


def _is_fit(links: Links, entry: Entry) -> bool:
    """Whether a call makes two values alike."""
    users = links.users.get(entry.outputs[0], []) if entry.name in _LESS else []
    return entry.is_live and (entry.name in FITS or any(e.name in SQUARES for e in users))


def _origin(links: Links, slot: int) -> int:
    """What a value is a copy of."""
    made = links.maker.get(slot)
    while made is not None and made.name in _COPIES and made.inputs:
        slot = made.inputs[0]
        made = links.maker.get(slot)
    return slot


def _exchanged(statement: ast.stmt) -> bool:
    """`f(x.detach(), y)` as `f(x, y.detach())`."""
    for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call) and len(n.args) > 1]:
        cut = [i for i, x in enumerate(call.args[:2]) if _is_detached(x)]
        if len(cut) == 1:
            other = call.args[1 - cut[0]]
            call.args[1 - cut[0]] = ast.Call(ast.Attribute(other, "detach", ast.Load()), [], [])
            call.args[cut[0]] = call.args[cut[0]].func.value  # pyright: ignore
            return True
    return False


def _is_detached(x: ast.expr) -> bool:
    return isinstance(x, ast.Call) and isinstance(x.func, ast.Attribute) and x.func.attr == "detach"


def computed_again(links: Links) -> Iterator[Spot]:
    """A difference that is 0: behind what has a graph the same was computed without one."""
    at = {e: i for i, e in enumerate(links.entries)}
    for entry in links.entries:
        if not entry.is_same or entry.name not in _LESS or len(entry.connected) != 1:
            continue
        own, other = entry.connected[0], {*entry.inputs} - {*entry.connected}
        with_graph = [e for e in links.part.upstream({own}) if _takes_roots(links, e)]
        again = [e for e in links.part.back(other) if _takes_roots(links, e)]
        roots = [{s for e in some for s in e.inputs if s in links.part.tape.roots}
                 for some in (with_graph, again)]  # fmt: skip
        if not again or roots[0] != roots[1] or any(e.is_live or e.grad for e in again):
            continue
        if min(at[e] for e in again) > max(at[e] for e in with_graph):
            says = "this difference is 0 in all elements: the same parameters have computed both "
            says += "sides of the same values, one with a graph and, after it, one without"
            advice = "keep a copy of the older parameters (copy.deepcopy), which is not trained"
            yield from spots_at("self_compared", entry, says, advice)


def _takes_roots(links: Links, entry: Entry) -> bool:
    return not links.part.tape.roots.keys().isdisjoint(entry.inputs)


def same_states(links: Links) -> Iterator[Spot]:
    """A target of rewards and a share of the value of the next states, which are the states."""
    for entry in links.entries:
        if len(entry.connected) != 1 or len(entry.inputs) != 2 or not _is_fit(links, entry):
            continue
        own, other = entry.connected[0], ({*entry.inputs} - {*entry.connected}).pop()
        added = links.maker.get(other)
        if added is None or added.name not in ("add", "__add__", "__radd__") or added.is_live:
            continue
        if len(added.inputs) != 1 or not any(isinstance(x, Tensor) for x in added.args):
            continue
        states, later = _given(links, own), _given(links, other)
        if any(_are_same(x, y) for x in states for y in later):
            says = "the target is data and a share of what is computed of the next states; in "
            says += "memory of their own, they are the very numbers of the states"
            advice = "copy what the environment returns when it is stored: it changes it in place"
            yield from spots_at("self_compared", added, says, advice)


def _given(links: Links, slot: int) -> list[Tensor]:
    """Constants that parameters were applied to."""
    calls = [e for e in links.part.back({slot}) if _takes_roots(links, e)]
    return [x for e in calls for x in e.args if isinstance(x, Tensor) and x.dim() > 1]


def _are_same(x: Tensor, y: Tensor) -> bool:
    """Whether two batches lie apart in memory and hold the same numbers: not one row all over,
    unless its numbers are no whole ones, as those of a state that does not change may be."""
    if x.shape != y.shape or len(x) < _ROWS or x.data_ptr() == y.data_ptr():
        return False
    return bool((x == y).all()) and bool((x != x[:1]).any() or (x != x.round()).any())


_SHARE = 0.3
"""How much of what counts one element has that stands for others."""


def known_answers(links: Links) -> Iterator[Spot]:
    """Labels that are what the model was given, where all that counts was to be covered."""
    given = [x for e in links.entries if e.name == "embedding" for x in e.args if _is_whole(x)]
    for entry in links.entries:
        labels = [x for x in entry.args if _is_whole(x)] if entry.name == "cross_entropy" else []
        ignored = entry.kwargs.get("ignore_index", -100)
        for y in labels:
            for x in given:
                if x.numel() == y.numel() and _is_cover(_flat(x), _flat(y), ignored):
                    says = "all labels that count are what the model was given at their position, "
                    says += "most often the one element that covers it: they were changed with it"
                    place = _shared() or placed(entry.at)
                    advice = "take a copy before covering: labels = ids.clone()"
                    edit = edits.change_line(place, _cloned)
                    yield Spot("unseen_change", place, says, advice, edit)
                    return


def _is_whole(x: Any) -> bool:
    return isinstance(x, Tensor) and not x.is_floating_point() and not x.is_complex()


def _flat(x: Tensor) -> Array:
    return np.asarray(x.detach().cpu()).reshape(-1)


def _is_cover(x: Array, y: Array, ignored: int) -> bool:
    """Whether what counts is the same in both, and much of it one element that is nowhere else."""
    counts = y != ignored
    if counts.all() or counts.sum() < _ROWS or (x[counts] != y[counts]).any():
        return False
    elements, times = np.unique(x[counts], return_counts=True)
    covers, others = elements[times.argmax()], np.unique(x[~counts])
    return len(others) > 1 and times.max() > _SHARE * counts.sum() and covers not in others


def _shared() -> Place | None:
    """The only line that gives a value a second name, behind which elements are written to it."""
    found: list[Place] = []
    for file, tree in users_trees("] = "):
        for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
            inside = [n for n in ast.walk(function) if isinstance(n, ast.Assign)]
            written = {
                n.targets[0].value.id: n.lineno for n in inside
                if isinstance(n.targets[0], ast.Subscript)
                and isinstance(n.targets[0].value, ast.Name)
            }  # fmt: skip
            found += [
                Place(file, n.lineno) for n in inside
                if isinstance(n.value, ast.Name) and n.lineno < written.get(n.value.id, 0)
            ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def _cloned(statement: ast.stmt) -> bool:
    """`labels = ids` as `labels = ids.clone()`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Name):
        return False
    statement.value = ast.Call(ast.Attribute(statement.value, "clone", ast.Load()), [], [])
    return True


ROWS: Sequence[Callable[[Links], Iterator[Spot]]] = (
    fitted_twice, computed_again, same_states, known_answers,
)  # fmt: skip
