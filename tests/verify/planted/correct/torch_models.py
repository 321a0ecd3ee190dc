"""Models in PyTorch written by hand, with Functions of their own in them; all of it is right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from .case import Correct


class Swish(torch.autograd.Function):
    """Recomputes the sigmoid rather than keeping it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * (s + x * s * (1 - s))


class InPlaceReLU(torch.autograd.Function):
    """Writes into its argument, and says so."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.clamp_(min=0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x > 0)


class DropPath(torch.autograd.Function):
    """Random, with its mask saved."""

    @staticmethod
    def forward(ctx: Any, x: Any, p: float) -> Any:
        ctx.mask = (torch.rand(x.shape[0], *[1] * (x.dim() - 1)) > p).to(x.dtype) / (1 - p)
        return x * ctx.mask

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.mask, None


class Residual(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.norm2 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += x
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(Residual(4), nn.MaxPool2d(2), Residual(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(F.relu(self.stem(x))).mean(dim=(2, 3)))


class Block(nn.Module):
    def __init__(self, d: int, heads: int, act: Callable[[Any], Any], drop: float) -> None:
        super().__init__()
        self.heads, self.act = heads, act
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Any) -> Any:
        B, T, C = x.shape
        parts = self.qkv(self.norm1(x)).split(C, dim=2)
        q, k, v = [p.view(B, T, self.heads, -1).transpose(1, 2) for p in parts]
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        mask = torch.ones(T, T, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.drop(self.out((weights @ v).transpose(1, 2).reshape(B, T, C)))
        return x + self.down(self.act(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, act: Any = F.gelu, drop: float = 0.0, kept: bool = True) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([Block(8, 2, act, drop) for _ in range(2)])
        self.norm, self.head, self.kept = nn.LayerNorm(8), nn.Linear(8, 11, bias=False), kept
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x) if self.kept else checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(9, 5), nn.LSTM(5, 6, batch_first=True)
        self.head = nn.Linear(6, 4)

    def forward(self, ids: Any) -> Any:
        return self.head(self.rnn(self.embed(ids))[0])


class LSTMByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates, self.head = nn.Linear(3 + 4, 16), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        h = c = x.new_zeros(x.shape[0], 4)
        for step in x.unbind(1):
            i, f, o, u = self.gates(torch.cat([step, h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)


class Custom(nn.Module):
    def __init__(self, act: Callable[[Any], Any]) -> None:
        super().__init__()
        self.a, self.b, self.act = nn.Linear(4, 6), nn.Linear(6, 3), act

    def forward(self, x: Any) -> Any:
        return self.b(self.act(self.a(x)))


def token_loss(y: Any, t: Any) -> Any:
    return F.cross_entropy(y.flatten(0, -2), t.flatten())


def _ids(n: int, *shape: int) -> Any:
    return torch.randint(0, n, shape)


MODELS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "resnet": lambda: (ResNet(), (torch.randn(4, 3, 8, 8), _ids(3, 4)), F.cross_entropy),
    "gpt": lambda: (GPT(), (_ids(11, 2, 6), _ids(11, 2, 6)), token_loss),
    "gpt dropout": lambda: (GPT(drop=0.2), (_ids(11, 2, 6), _ids(11, 2, 6)), token_loss),
    "gpt checkpointed": lambda: (GPT(kept=False), (_ids(11, 2, 6), _ids(11, 2, 6)), token_loss),
    "gpt swish": lambda: (GPT(Swish.apply), (_ids(11, 2, 6), _ids(11, 2, 6)), token_loss),
    "lstm": lambda: (Tagger(), (_ids(9, 3, 5), _ids(4, 3, 5)), token_loss),
    "lstm by hand": lambda: (LSTMByHand(), (torch.randn(3, 5, 3), torch.randn(3, 2)), F.mse_loss),
    "swish": lambda: (Custom(Swish.apply), (torch.randn(5, 4), torch.randn(5, 3)), F.mse_loss),
    "relu in place": lambda: (
        Custom(InPlaceReLU.apply),
        (torch.randn(5, 4), torch.randn(5, 3)),
        F.l1_loss,
    ),
    "drop path": lambda: (
        Custom(lambda x: DropPath.apply(x, 0.3)),
        (torch.randn(5, 4), torch.randn(5, 3)),
        F.mse_loss,
    ),
    "batch norm in eval": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).eval(),
        (torch.randn(5, 4), torch.randn(5, 2)),
        F.mse_loss,
    ),
    "frozen half": lambda: (
        _frozen(Custom(torch.tanh)),
        (torch.randn(5, 4), torch.randn(5, 3)),
        F.mse_loss,
    ),
}


def _frozen(model: Any) -> Any:
    model.a.requires_grad_(False)
    return model


def _report(name: str, dtype: Any, seed: int) -> Any:
    from chainrule import verify

    torch.manual_seed(seed)
    model, batch, loss = MODELS[name]()
    batch = tuple([b.to(dtype) if b.is_floating_point() else b for b in batch])
    return verify.model(model.to(dtype), batch, loss=loss)


def cases() -> list[Correct]:
    """Every model in float64 and float32, at two seeds."""
    return [
        Correct(f"torch model/{n}/{d}/{s}", lambda n=n, d=d, s=s: _report(n, getattr(torch, d), s))
        for n in MODELS
        for d in ("float64", "float32")
        for s in (0, 1)
    ]
