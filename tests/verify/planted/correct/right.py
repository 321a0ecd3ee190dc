"""The right code of the corpus at many points, in every dtype that its face has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import modules, points, slips
from ..case import Right
from .case import Correct, cast, own_args, torch_args

DTYPES = {
    "numpy": ("float64", "float32", "float16"),
    "own": ("float64", "float32", "float16"),
    "torch": ("float64", "float32", "bfloat16", "float16"),
}


def report(right: Right, at: str, dtype: str, seed: int) -> Any:
    """The verifier's report on right code."""
    from chainrule import verify

    made = modules.of_right(right)
    args = tuple([cast(a, dtype) for a in points.arguments(right.op, at, seed)])
    call = right.call
    try:
        if right.face == "numpy" and call.backward:
            return verify.pair(getattr(made, call.forward), getattr(made, call.backward), *args)
        if right.face == "numpy":
            one, own = modules.layer(made, call, args)
            return verify.pair(one, *own)
        convert = torch_args if right.face == "torch" else own_args
        return verify.function(getattr(made, call.forward), *convert(args, dtype))
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
        for seed in ((1, 2) if at == "generic" else (1,))
    ]
