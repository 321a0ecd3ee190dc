"""Ops whose gradient is, by their documentation, not the derivative of what they compute.

They are run as what they mean: an embedding's padding row is a constant, its rows are neither
rescaled in passing nor weighted by how often they occur. And an op that does not look whether its
labels exist is looked after: a run at other sizes must not damage the program's memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor

from chainrule.verify.pytorch.call_observers import Seen

_EMBEDDINGS: frozenset[Any] = frozenset([fn.embedding, fn.embedding_bag])
_LEFT_OUT: dict[str, Any] = {"max_norm": None, "scale_grad_by_freq": False}


class IntendedGradients(Seen):
    """While active, such ops are replaced; `used` says whether there were any."""

    def __init__(self) -> None:
        super().__init__()
        self.used = False

    def called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The call, as what it means."""
        if func is fn.ctc_loss:
            self.used = True
            _check_labels(*args[:2], **kwargs)
        if func not in _EMBEDDINGS:
            return func(*args, **kwargs)
        given = inspect.signature(func).bind(*args, **kwargs).arguments
        special = {k: v for k, v in _LEFT_OUT.items() if given.get(k)}
        padding = given.get("padding_idx")
        if special or padding is not None:
            self.used = True
            given = {**given, **special, "weight": _constant(given["weight"], padding)}
        return func(**given)


def _check_labels(log_probs: Tensor, targets: Tensor, **_: Any) -> None:
    """At other sizes there may be fewer classes; PyTorch would write where nothing is."""
    if targets.numel() and int(targets.max()) >= log_probs.shape[-1]:
        raise IndexError(f"label {int(targets.max())} of {log_probs.shape[-1]} classes")


def _constant(weight: Tensor, row: int | None) -> Tensor:
    """weight with zeros in this row, whatever is there."""
    if row is None:
        return weight
    kept = torch.ones(weight.shape[0], 1, dtype=torch.bool)
    kept[row] = False
    return torch.where(kept, weight, torch.zeros_like(weight))


@contextmanager
def steady(module: torch.nn.Module) -> Generator[None]:
    """Inside, spectral norms use the vectors that they have: the gradient takes them as constants,
    while a step of their iteration would make them depend on the weight."""
    every: list[Any] = [m for m in module.modules() if type(m).__name__ == "_SpectralNorm"]
    running = [m for m in every if m.training]
    for m in running:
        m.training = False
    try:
        yield
    finally:
        for m in running:
            m.training = True
