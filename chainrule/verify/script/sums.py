"""Calls by their names: those that add, and those that scale."""

from __future__ import annotations

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
