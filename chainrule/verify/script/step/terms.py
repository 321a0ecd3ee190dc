"""Terms of the loss that train nothing, or too much, because of how they were added up.

Numbers that left their graph and come back as terms of the loss are known by their values. Of a
loss that its loop makes anew each time (`=` where `+=` belongs), only the last one is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import Entry

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
