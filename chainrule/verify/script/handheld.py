"""What the variables of a script hold, so that its code can be run again and again.

For a copy of the process: values get another precision, and what a run has changed is put back.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from chainrule.verify.arrays.members import is_object, walk


class Held:
    """What the script's variables hold, so that one run of its code says nothing to the next."""

    def __init__(self, scope: dict[str, Any]) -> None:
        things = [scope, *[x for _, x in walk(scope)]]
        self._dicts = [(d, dict(d)) for x in things if (d := _dict_of(x)) is not None]
        lists = [cast("list[Any]", x) for x in things if isinstance(x, list)]
        self._lists = [(x, list(x)) for x in lists]
        tensors = {id(x): x for x in things if isinstance(x, Tensor)}
        self._tensors = [(x, x._version, x.detach().clone()) for x in tensors.values()]

    def put_back(self) -> None:
        """As it was."""
        for now, before in self._dicts:
            if now.keys() != before.keys() or any(now[k] is not v for k, v in before.items()):
                now.clear()
                now.update(before)
        for now, before in self._lists:
            now[:] = before
        for i, (x, version, before) in enumerate(self._tensors):
            if x._version != version:
                x.data.copy_(before)
                self._tensors[i] = (x, x._version, before)


def _dict_of(x: Any) -> dict[Any, Any] | None:
    """A dict, or that of an object's attributes."""
    if isinstance(x, dict):
        return cast("dict[Any, Any]", x)
    own: dict[Any, Any] | None = getattr(x, "__dict__", None)
    return own if is_object(x) and not isinstance(x, Tensor) else None


def bytes_of(scope: Mapping[str, Any]) -> int:
    """How much memory the tensors of a scope have."""
    tensors = {id(x): x for _, x in walk(dict(scope)) if isinstance(x, Tensor)}
    return sum([x.nbytes for x in tensors.values()])


def widen(scope: Mapping[str, Any], parameters: Sequence[Tensor]) -> None:
    """Give all that the script holds the precision of differences."""
    torch.set_default_dtype(torch.float64)
    held = [x for _, x in walk(dict(scope)) if isinstance(x, Tensor)]
    for x in [*held, *parameters]:
        if x.dtype is torch.float32:
            grad, x.grad = x.grad if x.is_leaf else None, None
            x.data = x.data.double()
            x.grad = None if grad is None else grad.double()


@contextmanager
def same_draws() -> Generator[None]:
    """Within it random numbers are drawn that are drawn again next time."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
