"""One op as a subject: its value, and its own rule for the way back. No other rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import apply, variable
from chainrule.engine.op import Op
from chainrule.engine.tensors import Tensor
from chainrule.verify.own.call import Call, is_array, value_of
from chainrule.verify.place import Place
from chainrule.verify.reading import place_of
from chainrule.verify.subject import Input


def subject_of_op(op: Op, args: Sequence[Any], *, place: Place | None = None) -> Call | None:
    """The subject of `op` at `args`, used at `place`; None if no gradient flows through it."""
    inputs: list[Input] = []
    for i, x in enumerate(args):
        value = value_of(x)
        flows = is_array(value) and value.dtype.kind in INEXACT and op.reads(i) is not None
        inputs.append(Input(_letter(i, len(args)), value, bool(flows)))
    if not any(x.wanted for x in inputs):
        return None

    def applied(*xs: Any) -> list[Tensor]:
        y: Any = apply(op, *[variable(x) if isinstance(x, np.ndarray) else x for x in xs])
        outs = list(cast("tuple[Tensor, ...]", y)) if isinstance(y, tuple) else [y]
        return [o for o in outs if o.dtype.kind in INEXACT]

    at = place_of(type(op))
    return Call(op.name, tuple(inputs), applied, None, kind="op", place=place, backward_place=at)


def _letter(i: int, count: int) -> str:
    """The name that the op tables give to argument `i` of `count`."""
    return "x" if count == 1 else "abcdefgh"[i] if i < 8 else f"x{i}"
