"""The graph of a PyTorch loss, as it is before it runs back.

Nodes carry serial numbers in the order in which they were made (`_sequence_nr`), so that a graph
that reaches into an earlier step is seen without remembering any node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

from chainrule.verify.training.record.events import Graph
from chainrule.verify.training.record.scale import Nodes, Scale, Share, Way, counts_of

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
_NAMES = {f"{name.capitalize()}Backward0": name for name in ("add", "sub", "neg", "mul", "div")}


@final
class TorchNodes(Nodes):
    """Nodes of PyTorch's."""

    def name(self, node: Any) -> str:
        """That of its op."""
        return _NAMES.get(node.name(), "")

    def below(self, node: Any) -> list[Any]:
        """All that it leads to."""
        return [n for n, _ in node.next_functions if n is not None]

    def number(self, node: Any) -> float | None:
        """A number that it keeps."""
        for name in ("_saved_other", "_saved_self"):
            kept = getattr(node, name, None)
            if kept is not None and kept.numel() == 1 and not kept.requires_grad:
                return float(kept)
        return None

    def reduced(self, node: Any, way: Way) -> Scale:
        """By its name, or by what it keeps of a loss of PyTorch's."""
        name: str = node.name()
        reduction = _PLAIN.get(name, _REDUCTIONS.get(getattr(node, "_saved_reduction", 0), ""))
        share, counts = _share(node, name, reduction, way.first), _counts(node, reduction)
        return Scale(abs(way.divisor), reduction, way.divided, counts=counts, share=share)


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
