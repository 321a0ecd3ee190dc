"""Sums of later rewards that meet the choices of other times, since they stand in reversed order.

Choices are made one after the other, so the calls that made them tell their order. The rewards are
numbers that the program has when its loss runs back. What each choice is weighed with is its own
reward and a share of the next weight; where it is a share of the one before, the order is reversed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, permutations
from typing import Any, cast

import numpy as np
from torch import Tensor

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.script.step.links import SCALES, Links
from chainrule.verify.script.step.record.tape import Entry, Slot, things_in
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.training.text import edits
from chainrule.verify.trees import tree_of_file, users_trees
from chainrule.verify.user_frames import placed, user_frame, with_callers

_LEAST = 4
"""So many choices at least; more where weights were shifted and scaled, which are two unknowns."""
_MOST = 10_000
_FRAMES = 6
"""Frames in which rewards are looked for."""
_EXACT = 1e-4
_ENDS = 2
"""Episodes that end within what was collected, at least."""
_ROWS = 7
"""Rows of numbers of one length that are tried."""
_SAME_ORDER = {"neg", "squeeze", "unsqueeze", "view", "reshape", "mul", "__mul__"}


def reversed_returns(links: Links) -> Iterator[Spot]:
    """`(torch.stack(log_probs) * returns).sum()`, of returns that begin with the last one."""
    rows: Iterable[tuple[Entry, Array]] = [*_whole(links), *_singly(links)]
    rewards = list(_rewards({len(w) for _, w in rows})) if rows else []
    for entry, weights in rows:
        if any(_is_reversed(weights, r) for r in rewards if len(r) == len(weights)):
            at = _collected() or placed(entry.at)
            says = (
                f"the {len(weights)} weights are each a reward and a share of the weight before, "
            )
            says += "with the rewards from the last one to the first: they meet the choices in the "
            says += "order of time, and so the first choice gets what followed the last one"
            advice = "turn them round: returns.insert(0, R) in the loop from the end, or [::-1]"
            yield Spot("wrong_value", at, says, advice, edits.change_line(at, _in_front))


def endless_sums(links: Links) -> Iterator[Spot]:
    """Advantages whose running sum goes on over the ends of episodes."""
    for entry in links.entries:
        numbers = [_row(x) for x in entry.args if isinstance(x, Tensor)]
        others = numbers or entry.inputs[1:]  # which parameters have made as well, without a graph
        if entry.name not in SCALES or len(entry.connected) != 1 or len(others) != 1:
            continue
        weights = numbers[0] if numbers else np.empty(0)
        if len(links.shape(entry.outputs[0])) != 1 or (numbers and np.ptp(weights) == 0):
            continue
        if any(_runs_over(a, *rest) for a, *rest in _collections(weights)):
            at = _running_sum() or placed(entry.at)
            says = "each advantage is a step's own and a share of the next one, even where an "
            says += "episode ends between the two: what follows is that of another episode, while "
            says += "the value of the next state is left out there"
            advice = "take the share times (1 - done) as well"
            yield Spot("wrong_value", at, says, advice, edits.change_line(at, _ended(at)))
            return


def _collections(weights: Array) -> Iterator[tuple[Array, ...]]:
    """Of rows of one length that the user's running functions have: one that has all weights,
    rewards, values, and 1 where an episode ends."""
    rows = defaultdict[int, list[Array]](list)
    for frame in islice(with_callers(user_frame()), _FRAMES):
        for x in frame.f_locals.values():
            row = _row_of(x, None)
            if row is not None and len(row) >= 2 * _LEAST:
                rows[len(row)].append(row)
    for some in rows.values():
        ends = [r for r in some if set(np.unique(r)) == {0.0, 1.0} and r[:-1].sum() >= _ENDS]
        others = [r for r in some[:_ROWS] if len(np.unique(r)) > 2]
        for a in [r for r in others if np.isin(weights, r).all()]:
            for r, v in permutations([x for x in others if x is not a], 2):
                yield from [(a, r, v, d) for d in ends]


def _runs_over(a: Array, r: Array, v: Array, ends: Array) -> bool:
    """Whether `a = r + share * (1 - ends) * next v - v + share * next a`, shifted and scaled; it is
    the ends that tell this, since it is not so of the next values as they are."""
    now, known = a[:-1], np.stack([r[:-1], v[:-1], a[1:], np.ones(len(a) - 1)], 1)
    fits: list[bool] = []
    for later in (v[1:] * (1 - ends[:-1]), v[1:]):
        sides = np.concatenate([known, later[:, None]], 1)
        found = np.linalg.lstsq(sides, now, rcond=None)[0]
        scale, less, share, _, discount = found
        exact = np.abs(sides @ found - now).max() < _EXACT * 10 * np.abs(a).max()
        usual = scale > 0 and abs(scale + less) < 0.01 * scale and 0 < discount <= 1.01 * scale
        fits.append(bool(exact and usual and 0 < share <= 1 + _EXACT))
    return fits == [True, False]


def _running_sum() -> Place | None:
    """The only line that gives a name a share of itself, in a loop that goes from the end."""
    found: dict[Place, None] = {}
    for file, tree in users_trees("reversed(", "[::-1]", ", -1, -1)"):
        loops = [n for n in ast.walk(tree) if isinstance(n, ast.For) and _is_backwards(n.iter)]
        inside = [n for loop in loops for n in ast.walk(loop) if isinstance(n, ast.Assign)]
        found |= {Place(file, n.lineno): None for n in inside if _shares(n)}
    return next(iter(found)) if len(found) == 1 else None


def _shares(node: ast.Assign) -> list[ast.Name]:
    """Where what a statement gives a value stands in a product."""
    names = {n.id for n in node.targets if isinstance(n, ast.Name)}
    products = [n for n in ast.walk(node.value) if isinstance(n, ast.BinOp)]
    sides = [n.right for n in products if isinstance(n.op, ast.Mult)]
    return [n for n in sides if isinstance(n, ast.Name) and n.id in names]


def _ended(at: Place | None) -> Callable[[ast.stmt], bool]:
    """`gae = delta + share * gae` as `gae = delta + share * (left * gae)`, for the name that is 1
    less what tells the ends."""
    loops = [n for n in ast.walk(tree_of_file(at.file)) if isinstance(n, ast.For)] if at else []
    inside = [n for loop in loops if at and loop.lineno < at.line <= (loop.end_lineno or 0)
              for n in loop.body if isinstance(n, ast.Assign)]  # fmt: skip
    left = [n.targets[0] for n in inside if ast.unparse(n.value).startswith(("1 - ", "1.0 - "))]

    def change(statement: ast.stmt) -> bool:
        if not isinstance(statement, ast.Assign) or len(left) != 1:
            return False
        shares = _shares(statement)
        for name in shares:
            name.id = f"({ast.unparse(left[0])} * {name.id})"
        return len(shares) == 1

    return change


def _whole(links: Links) -> Iterator[tuple[Entry, Array]]:
    """Products of a row of numbers with as many values, put together in the order of time."""
    for entry in links.entries:
        numbers = [x for x in entry.args if isinstance(x, Tensor)]
        if entry.name not in SCALES or len(entry.connected) != 1 or len(numbers) != 1:
            continue
        made = links.made_by(entry.connected[0], _SAME_ORDER)
        if made is None or made.name not in ("stack", "cat") or not _fits(numbers[0].numel()):
            continue
        slots = [x.number for x in things_in(made.args) if isinstance(x, Slot)]
        if slots == sorted(slots) and len(slots) == numbers[0].numel():
            yield entry, _row(numbers[0])


def _singly(links: Links) -> Iterator[tuple[Entry, Array]]:
    """The same, value by value, on one line."""
    found = defaultdict[Any, list[tuple[Entry, int, float]]](list)
    for entry in links.entries:
        others = [x for x in entry.args if not isinstance(x, Slot)]
        if entry.name not in SCALES or len(entry.connected) != 1 or len(others) != 1:
            continue
        made = links.made_by(entry.connected[0], _SAME_ORDER - SCALES)
        number = _number(others[0])
        if made is not None and number is not None:
            found[entry.at].append((entry, made.outputs[0], number))
    for rows in found.values():
        slots = [slot for _, slot, _ in rows]
        if _fits(len(rows)) and slots == sorted(slots) and len(set(slots)) == len(slots):
            yield rows[0][0], np.array([number for *_, number in rows])


def _fits(count: int) -> bool:
    return _LEAST <= count <= _MOST


def _row(x: Tensor) -> Array:
    return np.asarray(x.detach().double().cpu().numpy(), np.float64).reshape(-1)


def _number(x: Any) -> float | None:
    if isinstance(x, Tensor):
        return float(x.detach()) if x.numel() == 1 and x.dtype.is_floating_point else None
    return float(x) if isinstance(x, float | int) and not isinstance(x, bool) else None


def _rewards(lengths: set[int]) -> Iterator[Array]:
    """Rows of numbers that the user's running functions have, several of them not 0."""
    for frame in islice(with_callers(user_frame()), _FRAMES):
        own: dict[str, Any] = getattr(frame.f_locals.get("self"), "__dict__", {})
        for x in [*frame.f_locals.values(), *own.values()]:
            row = _row_of(x, lengths)
            if row is not None and np.count_nonzero(row) > 1:
                yield row


def _row_of(x: Any, lengths: set[int] | None) -> Array | None:
    """Numbers in a row, of some lengths or of any."""
    if isinstance(x, Tensor) and x.ndim == 1 and (lengths is None or len(x) in lengths):
        return _row(x) if x.dtype.is_floating_point else None
    if not isinstance(x, list | tuple) or len(cast("Sequence[Any]", x)) > _MOST:
        return None
    if lengths is not None and len(cast("Sequence[Any]", x)) not in lengths:
        return None
    numbers = [_number(each) for each in cast("Sequence[Any]", x)]
    return None if None in numbers else np.array(numbers, np.float64)


def _is_reversed(weights: Array, rewards: Array) -> bool:
    """Whether weights are sums of later rewards, from the last one on, and not in their order."""
    back = rewards[::-1]
    return _follows(weights, back) and not _follows(weights[::-1], back)


def _follows(w: Array, r: Array) -> bool:
    """Whether `w[k] = r[k] + share * w[k - 1]`, for a share of at most 1; or w is that, shifted and
    scaled, of rewards that differ."""
    before, after = w[:-1], w[1:]
    size = float(np.abs(w).max()) * _EXACT
    if abs(w[0] - r[0]) <= size and before.any():
        share = float(before @ (after - r[1:])) / float(before @ before)
        return 0 < share <= 1 + _EXACT and bool(np.abs(r[1:] + share * before - after).max() < size)
    if len(w) < 2 * _LEAST or not r.any():
        return False
    if np.ptp(r) == 0:  # scaled, rewards that are all alike cannot be told
        return w[0] != r[0] and bool(np.ptp(w)) and _follows(w - w[0] + r[0], r)
    known = np.stack([r[1:], before, np.ones(len(before))], 1)
    (scale, share, left), *_ = np.linalg.lstsq(known, after, rcond=None)
    if not 0 < share < 1 - _EXACT or scale <= 0:
        return False
    first = scale * r[0] + left / (1 - share)
    error = np.abs(known @ np.array([scale, share, left]) - after).max()
    return bool(max(error, abs(first - w[0])) < size)


def _collected() -> Place | None:
    """The only line that puts a sum behind others, in a loop that goes from the end."""
    found: list[Place] = []
    for file, tree in users_trees("append"):
        loops = [n for n in ast.walk(tree) if isinstance(n, ast.For) and _is_backwards(n.iter)]
        inside = [n for loop in loops for n in ast.walk(loop) if isinstance(n, ast.stmt)]
        found += [Place(file, n.lineno) for n in inside if _appends(n)]
    return found[0] if len(found) == 1 else None


def _is_backwards(over: ast.expr) -> bool:
    text = ast.unparse(over)
    return "reversed(" in text or "[::-1]" in text or ", -1, -1)" in text


def _appends(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[_])):
            return True
        case _:
            return False


def _in_front(statement: ast.stmt) -> bool:
    """`returns.append(R)` as `returns.insert(0, R)`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append") as f, args=[_]) as call):
            f.attr = "insert"
            call.args.insert(0, ast.Constant(0))
            return True
        case _:
            return False
