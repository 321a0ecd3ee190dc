"""Folds: what an accumulator does with the next number."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.compile.loops.expressions import Dtype
from chainrule.compile.loops.statements import Fold


def identity(fold: Fold, dtype: Dtype) -> Any:
    """The number that changes nothing when it is folded in."""
    if fold in ("maximum", "minimum"):
        if dtype.kind == "f":
            return float("-inf") if fold == "maximum" else float("inf")
        if dtype.kind == "b":
            return fold == "minimum"
        info = np.iinfo(dtype)
        return int(info.min if fold == "maximum" else info.max)
    return {"add": 0, "mul": 1, "logical_or": False, "logical_and": True}[fold]
