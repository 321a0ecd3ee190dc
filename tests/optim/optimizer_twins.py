"""The same parameters here and in PyTorch, given the same gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from tests.optim.optimizers import ROWS

torch = pytest.importorskip("torch")

SHAPES = [(3, 4), (5,), (), (2, 1, 3)]


class Lion(torch.optim.Optimizer):
    """PyTorch has none: the published program (Chen et al. 2023, program 1) on its tensors."""

    def __init__(self, params: Any, lr: float, betas: Any = (0.9, 0.99), weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in [p for p in group["params"] if p.grad is not None]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = torch.sign(m * beta1 + p.grad * (1 - beta1))
                self.state[p]["exp_avg"] = m * beta2 + p.grad * (1 - beta2)
                p -= lr * (update + decay * p)


def pair(name: str, ours: list[Any], theirs: list[Any], **more: Any) -> tuple[Any, Any]:
    """The optimizer of a row, here and in PyTorch."""
    cls, settings = ROWS[name]
    settings = {**settings, **more}
    other = Lion if cls == "Lion" else getattr(torch.optim, cls)
    return getattr(optim, cls)(ours, **settings), other(theirs, **settings)


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch keeps some numbers in its default dtype, and Muon computes in bfloat16."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x.clone())
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Twins:
    """The same parameters, here and in PyTorch, given the same random gradients."""

    def __init__(self, shapes: Sequence[tuple[int, ...]] = SHAPES, dtype: Any = np.float64) -> None:
        self.rng = np.random.default_rng(3)
        start = [np.asarray(self.rng.normal(size=s), dtype) for s in shapes]
        self.ours = [cr.tensor(x, requires_grad=True) for x in start]
        self.theirs = [torch.from_numpy(x.copy()).requires_grad_() for x in start]

    def gradients(self, *, skip: tuple[int, ...] = ()) -> None:
        for i, (a, b) in enumerate(zip(self.ours, self.theirs, strict=True)):
            if i in skip:
                a.grad = b.grad = None
                continue
            g = self.rng.normal(size=a.shape) * 10.0 ** self.rng.integers(-3, 2)
            g = np.asarray(g, a.dtype)
            a.grad, b.grad = cr.tensor(g), torch.from_numpy(g)

    def compare(self, tolerance: float = 1e-12) -> None:
        for a, b in zip(self.ours, self.theirs, strict=True):
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance
            )


def leaf(*shape: int) -> cr.Tensor:
    return cr.zeros(shape).requires_grad_()


def one_step(optimizer: optim.Optimizer, p: cr.Tensor) -> None:
    p.grad = cr.ones(p.shape)
    optimizer.step()
