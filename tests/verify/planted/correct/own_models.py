"""Models of ours, some with Functions of their own in them; all of it is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import nn

from .case import Correct


class Swish(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = cr.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))


class Activated(nn.Module):
    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.a, self.b, self.act = nn.Linear(4, 6), nn.Linear(6, 3), act

    def forward(self, x: Any) -> Any:
        return self.b(self.act(self.a(x)))


class Deep(nn.Module):
    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.layers = [nn.Linear(5, 5) for _ in range(4)]
        self.norm, self.head, self.act = nn.LayerNorm(5), nn.Linear(5, 2), act

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + self.act(layer(self.norm(x)))
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        self.embed, self.cell, self.head = nn.Embedding(9, 5), nn.Linear(11, 6), nn.Linear(6, 4)

    def forward(self, ids: Any) -> Any:
        h = cr.zeros((ids.shape[0], 6), dtype=cr.float32)
        for t in range(ids.shape[1]):
            h = cr.tanh(self.cell(cr.concat([self.embed(ids[:, t]), h], axis=1)))
        return self.head(h)


def _floats(*shape: int) -> Any:
    return cr.tensor(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def _ids(n: int, *shape: int) -> Any:
    return cr.tensor(np.random.default_rng(n).integers(0, n, size=shape))


MODELS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "swish": lambda: (Activated(Swish.apply), (_floats(5, 4), _floats(5, 3)), cr.mse_loss),
    "relu": lambda: (Activated(cr.relu), (_floats(5, 4), _floats(5, 3)), cr.mse_loss),
    "gelu": lambda: (Activated(cr.gelu), (_floats(5, 4), _ids(3, 5)), cr.cross_entropy),
    "residual": lambda: (Deep(cr.silu), (_floats(4, 5), _floats(4, 2)), cr.mse_loss),
    "residual swish": lambda: (Deep(Swish.apply), (_floats(4, 5), _ids(2, 4)), cr.cross_entropy),
    "recurrent": lambda: (Recurrent(), (_ids(9, 3, 4), _ids(4, 3)), cr.cross_entropy),
    "sequential": lambda: (
        nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)),
        (_floats(6, 4), _ids(3, 6)),
        cr.cross_entropy,
    ),
    "checkpointed": lambda: (
        Activated(lambda x: cr.checkpoint(cr.gelu)(x)),
        (_floats(5, 4), _floats(5, 3)),
        cr.mse_loss,
    ),
}


def _report(name: str, seed: int) -> Any:
    from chainrule import verify

    cr.manual_seed(seed)
    model, batch, loss = MODELS[name]()
    return verify.model(model, batch, loss=loss)


def cases() -> list[Correct]:
    """Every model, at three seeds of its parameters."""
    return [
        Correct(f"own model/{n}/{s}", lambda n=n, s=s: _report(n, s))
        for n in MODELS
        for s in (0, 1, 2)
    ]
