"""Arguments that a compiled function writes into, and what else lies in their memory.

A compiled call reads its arguments first and writes into them last. Where two arguments share
memory, or two elements of one, the function itself would read what it has just written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.arrays import may_overlap_itself
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, describe

_WORK = 1 << 16
"""Steps in which it must be found out whether two arrays overlap; else they may."""


def check_writable(name: str, i: int, leaves: Sequence[Any]) -> None:
    """Raise `ConfigError` unless leaf `i` of the arguments of the function `name` can be written
    to, and shares its memory with no other leaf."""
    x = leaves[i]
    others = [j for j, y in enumerate(leaves) if j != i and _share(x, y)]
    if others:
        reason = f"it shares memory with argument {others[0]}: give a copy of one of them"
    elif isinstance(x, Tensor):
        return
    elif not isinstance(x, np.ndarray):
        reason = f"it is a {type(x).__name__}, not an array: give np.asarray(x)"
    elif not x.flags.writeable:
        reason = "it is read-only: give a copy"
    elif may_overlap_itself(cast(Any, x)):
        reason = "some of its elements share memory: give a copy"
    else:
        return
    raise ConfigError(f"jit: {name} writes into argument {i}, {describe(x)}, but {reason}")


def _share(x: Any, y: Any) -> bool:
    """Whether writing into `x` would change `y`. A tensor's array is written to by nobody else."""
    if x is y:
        return True
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return False
    share: Any = np.shares_memory
    try:
        return share(x, y, max_work=_WORK)
    except np.exceptions.TooHardError:
        return True
