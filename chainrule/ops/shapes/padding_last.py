"""PyTorch's form of padding: the last axis first, with its names of modes, and negative widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.engine.graph import apply
from chainrule.errors import ShapeError
from chainrule.ops.shapes import padding
from chainrule.ops.shapes.slices import Slice

_NUMPYS = {"replicate": "edge", "circular": "wrap"}
"""NumPy's names of PyTorch's modes that are called something else."""


def pad(x: Any, widths: Sequence[Any], mode: str = "constant", value: float = 0) -> Any:
    """PyTorch's form of `chainrule.pad`: before and after for the last axis, the last but one, ...

    Shapes: (*s) -> (*[
          n + sum(widths[2 * (len(s) - 1 - i) : 2 * (len(s) - i)]) for i, n in enumerate(s)]).
    `mode` is PyTorch's or NumPy's ("replicate" is NumPy's "edge", "circular" its "wrap"). A width
    below 0 takes elements away.

    >>> import chainrule as cr
    >>> cr.nn.functional.pad(cr.tensor([[1, 2, 3]]), (1, -1), "replicate").tolist()
    [[1, 1, 2]]
    """
    if not all(isinstance(n, int) for n in widths) or len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise ShapeError(
            "pad: widths are numbers (before, after) of the last axis, then of the last but one, "
            f"..., at most {2 * x.ndim} for {x.shape}, not {widths}; cr.pad takes a pair for each "
            "axis"
        )
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    mode = _NUMPYS.get(mode, mode)
    more = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "wrap":  # PyTorch repeats what is left, but reflects what there was
        return padding.pad(_cut(x, pairs), more, mode=mode)
    return _cut(padding.pad(x, more, value, mode=mode), pairs)


def _cut(x: Any, pairs: padding.Widths) -> Any:
    """`x` without the elements that negative widths take away."""
    if min([n for pair in pairs for n in pair], default=0) >= 0:
        return x
    ends = [(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True)]
    if any(a > b for a, b in ends):
        raise ShapeError(f"pad: {x.shape} has fewer elements than widths {pairs} take away")
    return apply(Slice(tuple([(a, b, None) for a, b in ends])), x)
