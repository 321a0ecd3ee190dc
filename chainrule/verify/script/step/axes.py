"""Axes that are mixed up, as the record of a step shows: rows, each a function of what a loss
depends on.

Sizes and what is done with an axis before and behind a call tell, not names: scores that are made
and used head by head are not normalized over the heads, and what a recurrent layer takes for
examples is not picked out one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from chainrule.verify.script.step.links import SAME_AXES, Links, dim_of, is_product
from chainrule.verify.script.step.record.tape import GRAD, Entry, Slot
from chainrule.verify.script.step.spots import Spot, spots_at

_VIEWS = {"view", "reshape", "_unsafe_view"}
_FLATTEN = {*_VIEWS, "flatten"}
_RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
_NORMS = {"norm", "vector_norm", "linalg_vector_norm", "linalg_norm", "frobenius_norm"}


_spots = partial(spots_at, "axes_mixed")


def reshaped_axes(links: Links) -> Iterator[Spot]:
    """A reshape after which an axis is one of the same size that is another one: it cuts rows into
    pieces, and moves no axis."""
    for entry in links.entries:
        if entry.name not in _VIEWS or not entry.is_live:
            continue
        old, new = links.shape(entry.inputs[0]), links.shape(entry.outputs[0])
        moved = _moved_sizes(old, new)
        if moved:
            says = f"{entry.name} makes shape {list(new)} of {list(old)}: the size "
            says += f"{' and '.join(map(str, moved))} changes its place, and the elements stay in "
            says += "their order, so that rows are cut into pieces"
            yield from _spots(entry, says, "transpose or permute moves an axis")


def _moved_sizes(old: Sequence[int], new: Sequence[int]) -> list[int]:
    """Sizes that stand once before and once behind a reshape, and are not of the same axis: between
    two places at which both shapes have as many elements to their left, nothing is split evenly."""
    left, right = [n for n in old if n > 1], [n for n in new if n > 1]
    while left and right:
        first, second = [left.pop(0)], [right.pop(0)]
        while math.prod(first) != math.prod(second):
            short, rest = (first, left) if math.prod(first) < math.prod(second) else (second, right)
            if not rest:
                return []
            short.append(rest.pop(0))
        same = [n for n in first if first.count(n) == second.count(n) == 1]
        shifted = len(first) == len(second) == 2 and abs(first[0] - first[1]) == 1
        if len(first) > 1 < len(second) and same and not shifted:  # as for relative positions
            return same
    return []


_LOSSES = {"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
           "binary_cross_entropy_with_logits", "binary_cross_entropy"}  # fmt: skip


def flattened_apart(links: Links) -> Iterator[Spot]:
    """Outputs and targets as single rows, in which the first two axes have other orders."""
    for entry in links.entries:
        made = links.maker.get(entry.inputs[0]) if entry.inputs else None
        if entry.name not in _LOSSES or made is None or made.name not in _FLATTEN:
            continue
        target: Any = entry.args[1] if len(entry.args) > 1 else entry.kwargs.get("target")
        source = links.part.tape.constant_of(target)
        if source is None or source.name not in _FLATTEN:
            continue
        ours, theirs = links.shape(made.inputs[0]), tuple(source.args[0].shape)
        both = ours[:2], theirs[:2]
        if both[0] != both[1][::-1] or ours[2 : len(theirs)] != theirs[2:] or both[0] == both[1]:
            continue
        if links.shape(made.outputs[0])[0] == math.prod(both[0]) == target.shape[0]:
            says = f"outputs of shape {list(ours)} and targets of shape {list(theirs)} are put in "
            says += "rows and compared one by one: the first two axes have other orders in them"
            stacked = links.maker.get(made.inputs[0])
            at = stacked if stacked is not None and stacked.name == "stack" else made
            yield from _spots(at, says, "the same order of axes: stack(..., dim=1), or transpose")


def normalized_batch(links: Links) -> Iterator[Spot]:
    """A softmax over an axis along which scores are made and used one by one."""
    for entry in links.entries:
        if entry.name != "softmax" or not entry.is_live:
            continue
        slot = entry.outputs[0]
        axis = dim_of(entry, len(links.shape(slot)))
        made = links.made_by(entry.inputs[0], SAME_AXES)
        if axis is None or made is None or not is_product(made):
            continue
        uses = [links.kind_of_axis(e, s, a) for e, s, a in links.products(slot, axis)]
        if uses and set(uses) == {"keep"} and _is_of_values(links, made):
            says = f"softmax along axis {axis} of {list(links.shape(slot))}, which is kept: the "
            says += "next product sums along another axis, along which the shares are no shares"
            yield from _spots(entry, says, "softmax along the axis that the next product sums over")
        if uses and set(uses) == {"batch"} and _is_batch_of(links, made, axis):
            says = f"softmax along axis {axis} of {list(links.shape(slot))}, which the products "
            says += "before and behind it go through one by one; another axis is summed over"
            yield from _spots(entry, says, "softmax along the axis that the next product sums over")


def _is_of_values(links: Links, product: Entry) -> bool:
    """Whether a product is one of two computed values, as scores of queries and keys are."""
    roots = links.part.tape.roots
    computed = [s for s in product.connected if s not in roots]
    return product.name not in ("linear", "einsum") and len(computed) == len(product.inputs) == 2


def _is_batch_of(links: Links, product: Entry, axis: int) -> bool:
    """Whether an axis of a product's result is one along which it is many products."""
    if product.name == "einsum":
        text = product.args[0]
        if not isinstance(text, str) or "->" not in text:
            return False
        left, out = text.replace(" ", "").split("->")
        return axis < len(out) and all(out[axis] in row for row in left.split(","))
    return product.name != "linear" and axis < len(links.shape(product.outputs[0])) - 2


def normalized_across(links: Links) -> Iterator[Spot]:
    """Vectors of length 1 along one axis, whose products run along another one."""
    for entry in links.entries:
        if entry.name != "normalize" or not entry.is_live:
            continue
        slot = entry.outputs[0]
        axis = dim_of(entry, len(links.shape(slot)), 1)
        uses = list(links.products(slot, axis)) if axis is not None else []
        both = [u for u in uses if _are_unit(links, u[0])]
        if both and all(links.kind_of_axis(e, s, a) != "sum" for e, s, a in uses):
            says = f"normalize along axis {axis} of {list(links.shape(slot))}, and products along "
            says += "another one: they are no cosines, and each row depends on all others"
            yield from _spots(entry, says, "normalize along the axis that the product sums over")


def _are_unit(links: Links, product: Entry) -> bool:
    """Whether all that is multiplied was made to have length 1."""
    through = {*SAME_AXES, "t", "T", "mT", "transpose", "permute"}
    made = [links.made_by(s, through) for s in product.connected]
    return bool(made) and all(e is not None and e.name == "normalize" for e in made)


def picked_example(links: Links) -> Iterator[Spot]:
    """One index of the axis that a recurrent layer takes for the examples, where a step of its
    time was meant."""
    for entry in links.entries:
        if entry.name not in _RECURRENT or len(entry.args) < 9:
            continue
        first = 0 if entry.args[-1] is True else 1
        whole, *states = entry.outputs
        shape, uses = links.shape(whole), links.users.get(whole, [])
        axes = [_picked(e, len(shape)) for e in uses]
        if len(shape) != 3 or shape[first] < 2 or any(links.users.get(s) for s in states):
            continue
        if axes and set(axes) == {first}:
            says = f"{entry.name} takes axis {first} of its input for the examples "
            says += f"(batch_first={entry.args[-1]}), and only one of these is used"
            yield from _spots(uses[0], says, f"batch_first={not entry.args[-1]}, or the other axis")


def _picked(entry: Entry, rank: int) -> int | None:
    """The axis of which a call takes one index."""
    if entry.name == "select":
        return dim_of(entry, rank)
    index: Any = entry.args[1] if entry.name == "__getitem__" else None
    rows = cast("Sequence[Any]", index if isinstance(index, tuple) else (index,))
    if any(x is Ellipsis or x is None for x in rows):
        return rank - 1 if len(rows) == 2 and rows[0] is Ellipsis else None
    axes = [i for i, x in enumerate(rows) if isinstance(x, int)]
    return axes[0] if len(axes) == 1 else None


def other_count(links: Links) -> Iterator[Spot]:
    """A mean of exponentials whose count is that of another axis than was summed over."""
    for entry in links.entries:
        if entry.name != "logsumexp" or not entry.is_live:
            continue
        shape = links.shape(entry.inputs[0])
        axis = dim_of(entry, len(shape))
        for use in links.users.get(entry.outputs[0], []) if axis is not None else []:
            numbers = [x for x in use.args if isinstance(x, float)] if use.name == "sub" else []
            counts = [math.exp(x) for x in numbers if 0 < x < 30]
            others = [n for i, n in enumerate(shape) if i != axis and n > 1]
            wrong = [n for c in counts for n in others if abs(c - n) < 1e-6 * n]
            if wrong and shape[axis or 0] not in wrong:
                says = f"logsumexp over the {shape[axis or 0]} elements of axis {axis}, less the "
                says += f"logarithm of {wrong[0]}, which is the size of another axis"
                at = shape.index(wrong[0])
                yield from _spots(entry, says, f"dim={at}, if the mean over axis {at} is meant")


def one_norm(links: Links) -> Iterator[Spot]:
    """One norm of the derivatives by all examples, compared with a number that each should have."""
    through = {"view", "reshape", "flatten", "__getitem__"}
    for entry in links.entries:
        if entry.name not in _NORMS or not entry.is_live or links.shape(entry.outputs[0]):
            continue
        shape = links.shape(entry.inputs[0])
        made = links.made_by(entry.inputs[0], through)
        less = [e for e in links.users.get(entry.outputs[0], []) if e.name in ("sub", "__sub__")]
        if made is None or made.name != GRAD or _is_by_parameters(links, made):
            continue
        if less and len(shape) > 1 and shape[0] > 1:
            says = f"one norm of the derivatives by all {shape[0]} examples is compared with a "
            says += "number; the norm of each example is what should be near it"
            yield from _spots(entry, says, "the norm of each: dim=1, after flattening the rest")


def _is_by_parameters(links: Links, grad: Entry) -> bool:
    """Whether a derivative is one by leaves that the script made to be trained."""
    asked: Any = grad.args[1]
    some = [asked] if isinstance(asked, Slot) else cast("Sequence[Any]", asked)
    roots = [links.part.tape.roots.get(x.number) for x in some if isinstance(x, Slot)]
    return any(type(r).__name__ == "Parameter" for r in roots)


ROWS: Sequence[Callable[[Links], Iterator[Spot]]] = (
    reshaped_axes, flattened_apart, normalized_batch, normalized_across, picked_example,
    other_count, one_norm,
)  # fmt: skip
