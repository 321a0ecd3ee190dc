"""PyTorch's numbers: moved by a mode where they leave (see `numbers`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from chainrule.verify import modes
from chainrule.verify.pytorch.door import unseen
from chainrule.verify.script.numbers import Left, Library, Moved, Trial, Values
from chainrule.verify.script.tape import EXITS, Tape


@final
class Torch(Library):
    """PyTorch's tensors."""

    def has(self, x: Any) -> bool:
        """A tensor of floats."""
        return isinstance(x, Tensor) and x.dtype.is_floating_point

    def values(self, x: Any) -> Values:
        """In float64."""
        return x.detach().double().numpy().copy()

    def linear(
        self, x: Any, slope: Values, left: Sequence[Left], share: float
    ) -> tuple[Callable[..., Tensor], float]:
        """In the constant's own dtype."""
        value = torch.as_tensor(x).detach()
        way = torch.as_tensor(share * slope, dtype=value.dtype)

        def number(*now: Tensor) -> Tensor:
            pairs = zip(now, left, strict=True)
            moved = [
                ((n - torch.as_tensor(row.x)) * torch.as_tensor(row.way)).sum() for n, row in pairs
            ]
            return value + way * sum(moved, torch.zeros(())).to(value.dtype)

        return number, torch.finfo(value.dtype).eps


@final
class _Moves(TorchFunctionMode):
    """Moves what leaves."""

    def __init__(self, moved: Moved) -> None:
        super().__init__()
        self._moved = moved

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The call; what leaves as a number, moved."""
        y = func(*args, **(kwargs or {}))
        leaves = getattr(func, "__name__", "") in EXITS and args
        if not leaves or not isinstance(args[0], Tensor):
            return y
        with unseen():
            return self._moved.leaves(args[0], y)


def moved(tape: Tape, trial: Trial) -> Moved:
    """What moves numbers from now on, in this copy of the process, if the trial says so."""
    made = Moved(tape, trial, Torch())
    if trial.site:
        modes.push(_Moves(made))
    return made
