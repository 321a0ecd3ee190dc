"""PyTorch's losses as references."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


def tensors(*arrays: Any) -> list[torch.Tensor]:
    """In double precision; integers stay so."""
    return [torch.tensor(np.asarray(x)) for x in arrays]


def by_torch(loss: Callable[..., torch.Tensor], **options: Any) -> Callable[..., Iterator[Any]]:
    """A loss of the first two arguments, of each, as a mean and as a sum."""

    def reference(x: Any, y: Any, *_: Any) -> Iterator[Any]:
        for how in ("none", "mean", "sum"):
            yield loss(*tensors(x, y), reduction=how, **options).numpy()

    return reference
