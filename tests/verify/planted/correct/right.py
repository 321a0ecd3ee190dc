"""The right code of the corpus at many points, in every dtype that its face has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import modules, points, slips
from ..case import Right
from ..judge import report_of
from .case import Correct, cast, torch_args

DTYPES = {
    "numpy": ("float64", "float32", "float16"),
    "own": ("float64", "float32", "float16"),
    "torch": ("float64", "float32", "bfloat16", "float16"),
}


def report(right: Right, at: str, dtype: str, seed: int) -> Any:
    """The verifier's report on right code."""
    made = modules.of_right(right)
    args = tuple([cast(a, dtype) for a in points.arguments(right.op, at, seed)])
    try:
        if right.face == "torch" and dtype == "bfloat16":
            from chainrule import verify

            return verify.function(getattr(made, right.call.forward), *torch_args(args, dtype))
        return report_of(right, made, args)
    finally:
        modules.forget(made)


def _one(right: Right, at: str, dtype: str, seed: int) -> Correct:
    make: Callable[[], Any] = lambda: report(right, at, dtype, seed)
    return Correct(f"right/{right.name}/{at}/{dtype}/{seed}", make)


def cases(face: str) -> list[Correct]:
    """Each op at all of its points, the first one with two seeds."""
    return [
        _one(right, at, dtype, seed)
        for right in slips.rights(face)
        for at in points.POINTS[right.op].sizes
        for dtype in DTYPES[face]
        if not right.call.how or dtype in ("float64", "float32")
        for seed in ((1, 2) if at == "generic" else (1,))
    ]
