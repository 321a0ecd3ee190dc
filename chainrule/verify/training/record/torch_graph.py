"""What the graph of a PyTorch loss tells before it runs back: ages of nodes, the loss's scale.

Nodes carry serial numbers in the order in which they were made (`_sequence_nr`), so that a graph
that reaches into an earlier step is seen without remembering any node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from chainrule.verify.training.record.events import Graph
from chainrule.verify.training.record.scale import Scale, Share, common_scale, counts_of

MOST = 20_000
"""Nodes that are visited at most."""
_LEAF = 1 << 63
"""Leaves have serial numbers from here on."""


def graph_of(roots: Sequence[Any]) -> Graph:
    """The nodes that the roots (tensors) reach."""
    stack: list[Any] = [root.grad_fn for root in roots if getattr(root, "grad_fn", None)]
    seen: set[Any] = set(stack)
    serials: list[int] = []
    leaves: list[Any] = []
    while stack and len(seen) < MOST:
        node = stack.pop()
        serial: int = node._sequence_nr()
        if serial < _LEAF:
            serials.append(serial)
        elif hasattr(node, "variable"):
            leaves.append(node.variable)
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                stack.append(below)
    return Graph(tuple(sorted(serials)), tuple(leaves), bool(stack))


_TURNED = ("TBackward0", "TransposeBackward0", "PermuteBackward0")


def leaf_of(x: Any) -> Any:
    """The leaf with a gradient that a tensor is, or is the transpose of; None if it is neither."""
    if not x.requires_grad:
        return None
    node = x.grad_fn
    if node is None:
        return x
    return getattr(node.next_functions[0][0], "variable", None) if node.name() in _TURNED else None


_REDUCTIONS = {1: "mean", 2: "sum"}
_PLAIN: dict[str, str] = {"MeanBackward0": "mean", "MeanBackward1": "mean", "SumBackward0": "sum"}


def scale_of(root: Any, scaler: float | None, readable: bool) -> Scale | None:
    """How a loss was scaled after it was reduced, or None if its terms differ in that.

    `scaler`: the factor that a gradient scaler multiplied it by, which does not count. `readable`:
    whether kept numbers may be looked at (hooks on them could run the user's code).
    """
    node = getattr(root, "grad_fn", None)
    if node is None or not readable:
        return None
    found: list[Scale] = []
    _descend(node, _Way(), scaler, found.append, 0)
    return common_scale(found)


class _Way(NamedTuple):
    """What was done to a loss, from its end back to what was reduced."""

    divisor: float = 1.0
    divided: bool = False
    first: float = 0.0
    """What was reduced was divided by this at once; 0 if it was not."""


def _descend(
    node: Any, way: _Way, scaler: float | None, note: Callable[[Scale], None], depth: int
) -> None:
    """Go through constant factors and sums of terms to what was reduced."""
    name: str = node.name()
    below = [n for n, _ in node.next_functions if n is not None]
    if depth < 12 and name in ("AddBackward0", "SubBackward0", "NegBackward0") and below:
        for n in below:
            _descend(n, way._replace(first=0.0), scaler, note, depth + 1)
        return
    number = _number(node) if name in ("MulBackward0", "DivBackward0") and len(below) == 1 else None
    if depth < 12 and number:
        if name == "DivBackward0":
            way = _Way(way.divisor * number, True, number)
        elif scaler is not None and abs(number - scaler) <= 1e-6 * scaler:
            scaler = None
        else:
            way = _Way(way.divisor / number, way.divided)
        _descend(below[0], way, scaler, note, depth + 1)
        return
    reduction = _PLAIN.get(name, _REDUCTIONS.get(getattr(node, "_saved_reduction", 0), ""))
    share = _share(node, name, reduction, way.first)
    counts = _counts(node, reduction)
    note(Scale(abs(way.divisor), reduction, way.divided, counts=counts, share=share))


def _share(node: Any, name: str, reduction: str, first: float) -> Share | None:
    """Of what a mean is one: what `ignore_index` leaves of the targets; or a number of the elements
    that were added up, by which their sum was divided."""
    if name.startswith("NllLoss") and reduction == "mean" and node._saved_weight is None:
        return Share(float(node._saved_total_weight), node._saved_target.numel())
    sizes = getattr(node, "_saved_self_sym_sizes", ()) if name in _PLAIN else ()
    whole = abs(first - round(first)) < 1e-6 and 0 < first <= math.prod(sizes)
    return Share(first, math.prod(sizes)) if reduction == "sum" and whole else None


def _counts(node: Any, reduction: str) -> frozenset[float]:
    """What a sum is divided by to be a mean; nothing for what is one, or is neither."""
    if reduction != "sum":
        return frozenset()
    sizes = getattr(node, "_saved_self_sym_sizes", None)
    kept = getattr(node, "_saved_self", None) if sizes is None else None
    return counts_of(tuple(sizes) if sizes is not None else getattr(kept, "shape", ()))


def _number(node: Any) -> float | None:
    """The constant that the one argument was multiplied or divided by, None if it is no number."""
    for name in ("_saved_other", "_saved_self"):
        kept = getattr(node, name, None)
        if kept is not None and kept.numel() == 1 and not kept.requires_grad:
            return float(kept)
    return None
