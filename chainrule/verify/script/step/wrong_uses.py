"""Values that are used as they should not be, as the record of a step shows: rows, each a function
of what a loss depends on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from chainrule.verify.script.step.adaptation import same_data
from chainrule.verify.script.step.axes import ROWS as AXES
from chainrule.verify.script.step.links import SCALES, Links, is_product
from chainrule.verify.script.step.loss_factors import FITS, SQUARES, heads, meets_data
from chainrule.verify.script.step.masks import ROWS as MASKS
from chainrule.verify.script.step.record.tape import Entry, Slot
from chainrule.verify.script.step.repeated_values import ROWS as REPEATED
from chainrule.verify.script.step.returns import endless_sums, reversed_returns
from chainrule.verify.script.step.spots import Spot, spots_at
from chainrule.verify.script.step.terms import SCALING
from chainrule.verify.training.text import edits
from chainrule.verify.user_frames import placed

_TURNED = {"t", "T", "mT", "transpose", "permute"}
_PASS_ZEROS = {
    "linear", "matmul", "__matmul__", "mm", "bmm", "mul", "__mul__", "div", "dropout", "view",
    "reshape", "embedding", "__getitem__", *_TURNED,
}  # fmt: skip


def other_spread(links: Links) -> Iterator[Spot]:
    """Noise times `exp(v)`, where the loss takes `exp(v)` for a variance: its divergence from a
    standard normal has `1 + v - exp(v)`, which is least at a variance of 1."""
    powers: dict[int, list[Entry]] = {}
    for entry in links.entries:
        if entry.name == "exp" and entry.is_live:
            powers.setdefault(entry.inputs[0], []).append(entry)
    for logarithm, some in powers.items():
        noisy = [e for e in some if any(map(links.is_noisy, links.users.get(e.outputs[0], [])))]
        meets = [e for e in some if links.is_taken_off(e.outputs[0], logarithm)]
        if noisy and meets:
            says = "noise is multiplied with the exponential of what the loss takes for the "
            says += "logarithm of a variance: that is the variance, and no standard deviation"
            yield from spots_at("wrong_value", noisy[0], says, "exp(0.5 * log_variance)")


def own_likeness(links: Links) -> Iterator[Spot]:
    """Products of all rows with all rows, whose diagonal takes part in a choice of one."""
    for entry in links.entries:
        if entry.name not in ("cross_entropy", "log_softmax", "softmax") or not entry.connected:
            continue
        made = links.made_by(entry.connected[0], SCALES)
        if made is None or made.name not in ("matmul", "mm", "__matmul__"):
            continue
        if not entry.is_live or len(made.connected) != 2:
            continue
        one, other = made.connected
        turned = links.maker.get(other)
        is_own = turned is not None and turned.name in _TURNED and turned.inputs[0] == one
        labels = [x for x in entry.args if isinstance(x, Tensor) and x.dim() == 1]
        shape = links.shape(made.outputs[0])
        if is_own and len(shape) == 2 and entry.name == "cross_entropy" and labels:
            says = f"each of the {shape[0]} rows is compared with itself as well: the diagonal of "
            says += "the product is the largest, and never the right one"
            advice = "take it out before the softmax: fill_diagonal_(float('-inf')) or masked_fill"
            edit = edits.use_behind(placed(made.at), '{name}.fill_diagonal_(float("-inf"))')
            for spot in spots_at("self_compared", made, says, advice):
                yield spot._replace(edit=edit)


def repeated_rows(links: Links) -> Iterator[Spot]:
    """`x[index] += y` where an index stands there more than once."""
    for entry in links.entries:
        if entry.name != "__setitem__" or len(entry.args) < 3:
            continue
        index, value = entry.args[1], entry.args[2]
        added = links.maker.get(value.number) if isinstance(value, Slot) else None
        if added is None or added.name not in ("add_", "sub_", "add", "sub"):
            continue
        if added.at == entry.at and isinstance(index, Tensor) and _has_repeats(index):
            says = "the index has some elements more than once, and `x[index] += y` keeps the last "
            says += "of what is added to each: the others, and their gradients, are lost"
            yield from spots_at("overwritten", entry, says, "x.index_add(0, index, y) adds up all")


def _has_repeats(index: Tensor) -> bool:
    whole = not index.is_floating_point() and index.dtype is not torch.bool
    rows = np.asarray(index.detach().cpu()) if whole else np.empty(0)
    return rows.size > np.unique(rows).size


_OF_NORMAL = 0.5 + 0.5 * math.log(2 * math.pi)


def falling_entropy(links: Links) -> Iterator[Spot]:
    """The entropy of a policy that is trained by its samples' log_prob, made small by training."""
    places = [placed(e.at) for e in links.entries]
    if not any(".log_prob(" in place.text for place in places if place is not None):
        return
    signs = links.signs()
    rewarded = {signs[s] for e in links.entries if _is_weighed(e) for s in e.outputs if s in signs}
    better = rewarded.pop() if len(rewarded) == 1 else -1  # what is optimized may be made large
    for slot, sign in signs.items():
        made = links.maker.get(slot)
        if made is not None and sign != better and made.is_live and _is_entropy(links, made):
            says = "the entropy has another sign than what is rewarded, so that training makes it "
            says += "small: samples soon are all alike, and there is nothing left to explore"
            at = _added_at(links, slot) or made
            advice = "give a bonus for entropy the sign of log_prob times advantage"
            yield from spots_at("sign", at, says, advice)


def _is_weighed(entry: Entry) -> bool:
    """Whether a value with a graph is multiplied by values without one, such as advantages."""
    values = [x for x in entry.args if not isinstance(x, int | float)]
    return entry.name in ("mul", "__mul__") and len(values) == 2 and len(entry.connected) == 1


def _is_entropy(links: Links, entry: Entry) -> bool:
    """Whether a call ends what `entropy()` of a normal or a categorical distribution computes."""
    if entry.name == "add":
        return any(isinstance(x, float) and abs(x - _OF_NORMAL) < 1e-9 for x in entry.args)
    summed = links.maker.get(entry.inputs[0]) if entry.name == "neg" else None
    product = links.maker.get(summed.inputs[0]) if summed and summed.name == "sum" else None
    if product is None or product.name != "mul":
        return False
    made = [links.maker.get(s) for s in product.inputs]
    return any(e is not None and e.name == "clamp" and _is_open(e) for e in made)


def _is_open(clamp: Entry) -> bool:
    least: Any = clamp.kwargs.get("min")
    return isinstance(least, float) and least < -1e30


def _added_at(links: Links, slot: int) -> Entry | None:
    """The call that adds a value to others."""
    users = links.users.get(slot, [])
    while len(users) == 1 and (len(users[0].connected) == 1 or users[0].name in ("stack", "cat")):
        users = links.users.get(users[0].outputs[0], [])
    return users[0] if users else None


def sums_of_all(links: Links) -> Iterator[Spot]:
    """A sum over all examples that is added to what each of them has."""
    for entry in links.entries:
        if entry.name not in ("add", "sub", "__add__", "__sub__") or len(entry.connected) != 2:
            continue
        for one, other in (entry.connected, entry.connected[::-1]):
            made, shape = links.maker.get(one), links.shape(other)
            if made is None or made.name != "sum" or links.shape(one) or len(shape) != 1:
                continue
            wide = links.shape(made.inputs[0])
            if shape[0] > 1 and wide[:1] == shape and made.inputs[0] not in links.part.tape.roots:
                says = f"a sum over all {shape[0]} examples is added to the number of each of them"
                yield from spots_at("axes_mixed", made, says, "sum over the other axes: dim=1")


def stuck_at_zero(links: Links) -> Iterator[Spot]:
    """Two factors that are both 0: neither gets a gradient, however long the training."""
    roots = links.part.tape.roots
    none = {s for s, t in roots.items() if t.is_leaf and t.numel() > 1 and not t.detach().any()}
    if len(none) < 2:
        return
    computed = set[int]()
    for entry in links.entries:
        if entry.name in _TURNED and none.issuperset(entry.inputs):
            none.update(entry.outputs)
            continue
        zero = [s for s in entry.connected if s in none or s in computed]
        if not zero or entry.name not in _PASS_ZEROS or not _stays_zero(entry, none):
            continue
        factors = [s for s in entry.connected if s in none and s in zero]
        others = [s for s in zero if s in computed]
        if factors and others and (is_product(entry) or entry.name in ("mul", "__mul__")):
            says = "both factors of this product are 0: each one's gradient is a multiple of the "
            says += "other, so that both stay 0, however long the training"
            advice = "give one of the two other values at first, and leave the other one at 0"
            yield from spots_at("no_gradient", entry, says, advice)
        computed.update(entry.outputs)


def _stays_zero(entry: Entry, none: set[int]) -> bool:
    """Whether a call has no other value in it that would make it something else than 0."""
    if entry.name == "linear":
        bias: Any = entry.args[2] if len(entry.args) > 2 else entry.kwargs.get("bias")
        return bias is None or (isinstance(bias, Slot) and bias.number in none)
    return True


def trained_targets(links: Links) -> Iterator[Spot]:
    """Values that are fitted to data and a share of what the same network gives elsewhere, with a
    graph: both are moved towards each other."""
    for entry in links.entries:
        if len(entry.connected) != 2 or not _is_compared(links, entry):
            continue
        for target, value in (entry.connected, entry.connected[::-1]):
            if not _is_bootstrap(links, target) or meets_data(links.part, value):
                continue
            same = links.part.live_roots_of(target) == links.part.live_roots_of(value)
            if same and not heads(links.part, target) & heads(links.part, value):
                says = "one side is data, and a share of what the same parameters give for other "
                says += "inputs: it is a target, and has a graph, so that it is trained as well"
                yield from spots_at(
                    "target_trained", links.maker[target], says, "detach the target"
                )
                break


def _is_compared(links: Links, entry: Entry) -> bool:
    """Whether a call makes two values alike: a loss of both, or a difference that is squared."""
    if entry.name in FITS:
        return True
    users = links.users.get(entry.outputs[0], []) if entry.name in ("sub", "__sub__") else []
    return any(e.name in SQUARES or e.name in FITS for e in users)


def _is_bootstrap(links: Links, slot: int) -> bool:
    """Whether a value is data plus a multiple by data, or by a number below 1."""
    added = links.maker.get(slot)
    if added is None or added.name not in ("add", "__add__", "__radd__"):
        return False
    if len(added.connected) != 1 or not any(isinstance(x, Tensor) for x in added.args):
        return False
    entry, shares = links.maker.get(added.connected[0]), 0
    while entry is not None and entry.name in SCALING and len(entry.connected) == 1:
        shares += any(isinstance(x, Tensor) or (isinstance(x, float) and 0 < x < 1)
                      for x in cast("Sequence[Any]", entry.args))  # fmt: skip
        entry = links.maker.get(entry.connected[0])
    return shares > 0


ROWS: Sequence[Callable[[Links], Iterator[Spot]]] = (
    *AXES, *MASKS, *REPEATED, other_spread, own_likeness, repeated_rows, falling_entropy,
    sums_of_all, stuck_at_zero, trained_targets, reversed_returns, endless_sums, same_data,
)  # fmt: skip
