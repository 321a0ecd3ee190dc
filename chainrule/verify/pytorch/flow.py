"""The forward of a subject as a graph of PyTorch's own ops, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from chainrule.verify.pytorch.agreement import agrees
from chainrule.verify.pytorch.convert import Array, to_numpy, to_torch
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.pytorch.seeds import gradients
from chainrule.verify.pytorch.tapped import Tapped
from chainrule.verify.pytorch.widened import wide
from chainrule.verify.subject import Flow, Subject


class TorchFlow(Flow):
    """A recorded forward: `pull` runs PyTorch's backward with the edges' weights."""

    def __init__(
        self,
        run: Callable[[Sequence[Any]], Sequence[Tensor]],
        args: Sequence[Any],
        wanted: Sequence[bool],
        replay: Replay,
    ) -> None:
        """`run`: outputs of the forward from `args`, tensors of float64 among them."""
        self._leaves = [
            x.requires_grad_() if w and isinstance(x, Tensor) else None
            for x, w in zip(args, wanted, strict=True)
        ]
        given = [x.clone() if isinstance(x, Tensor) else x for x in args]
        inputs = [
            g if leaf is not None else None for g, leaf in zip(given, self._leaves, strict=True)
        ]
        self._tapped = Tapped(inputs)
        with replay.running(args), torch.enable_grad(), _kept_apart(), self._tapped:
            self._ys = [y for y in run(given) if y.is_floating_point() or y.is_complex()]
        self.edges = tuple(self._tapped.edges)

    def pull(
        self, gs: Sequence[Array], weights: Mapping[int, float] | None = None
    ) -> tuple[Array | None, ...]:
        """x_bars in float64, one for each input."""
        given = [to_torch(np.asarray(g)).to(y.dtype) for y, g in zip(self._ys, gs, strict=True)]
        wrt = [x for x in self._leaves if x is not None]
        with self._tapped.weighted(dict(weights or {})):
            found = iter(gradients(self._ys, given, wrt, retain_graph=True))
        return tuple([None if x is None else _or_zero(next(found), x) for x in self._leaves])


def traced(
    subject: Subject,
    run: Callable[[Sequence[Any]], Sequence[Tensor]],
    args: Sequence[Any],
    replay: Replay,
) -> Flow | None:
    """The flow of `run` at `args`, or None if what it says is not the derivative of `subject`."""
    args = [wide(x) if isinstance(x, Tensor) else x for x in args]
    values = [to_numpy(x) if isinstance(x, Tensor) else x for x in args]
    try:
        flow = TorchFlow(run, args, [x.wanted for x in subject.inputs], replay)
        return flow if agrees(subject, flow.pull, values) else None
    except Exception:  # the forward does what a graph of ops cannot hold
        return None


def _kept_apart() -> saved_tensors_hooks:
    """Inside, what a backward will need is copied: a forward may write over its own values."""
    return saved_tensors_hooks(lambda x: x.clone(), lambda x: x)


def _or_zero(x: Tensor | None, like: Tensor) -> Array:
    return to_numpy(torch.zeros_like(like) if x is None else x)
