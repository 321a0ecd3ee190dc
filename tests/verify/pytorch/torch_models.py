"""Models as people write them, for the tests of whole models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Attention(torch.autograd.Function):
    """Causal attention with its backward by hand."""

    @staticmethod
    def forward(ctx, q, k, v):
        T, d = q.shape[-2:]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d)
        mask = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
        p = torch.softmax(scores.masked_fill(mask, float("-inf")), -1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, p = ctx.saved_tensors
        gp = g @ v.transpose(-2, -1)
        gs = p * (gp - (gp * p).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
        return gs @ k, gs.transpose(-2, -1) @ q, p.transpose(-2, -1) @ g


class WrongAttention(Attention):
    """The same without the sum that softmax's backward has."""

    @staticmethod
    def backward(ctx, g):
        q, k, v, p = ctx.saved_tensors
        gp = g @ v.transpose(-2, -1)
        gs = p * gp / math.sqrt(q.shape[-1])
        return gs @ k, gs.transpose(-2, -1) @ q, p.transpose(-2, -1) @ g


class Block(nn.Module):
    def __init__(self, C: int, heads: int, attention: Any, dropout: float):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(C, -1)
        q, k, v = [z.view(B, T, self.heads, -1).transpose(1, 2) for z in (q, k, v)]
        a = self.attention.apply(q, k, v) if self.attention else _native(q, k, v)
        x = x + self.dropout(self.out(a.transpose(1, 2).reshape(B, T, C)))
        return x + self.down(fn.gelu(self.up(self.norm2(x))))


def _native(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return fn.scaled_dot_product_attention(q, k, v, is_causal=True)


class GPT(nn.Module):
    """Embeddings, blocks, a head tied to the embedding of tokens."""

    def __init__(
        self,
        V: int = 11,
        T: int = 6,
        C: int = 8,
        layers: int = 2,
        heads: int = 2,
        attention: Any = None,
        dropout: float = 0.0,
        checkpointed: bool = False,
    ):
        super().__init__()
        self.checkpointed = checkpointed
        self.tokens, self.places = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.ModuleList([Block(C, heads, attention, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, idx: Tensor) -> Tensor:
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x))


class Residual(nn.Module):
    def __init__(self, C: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(C, C, 3, padding=1, bias=False), nn.BatchNorm2d(C)
        self.conv2, self.bn2 = nn.Conv2d(C, C, 3, padding=1, bias=False), nn.BatchNorm2d(C)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


class ResNet(nn.Module):
    """Batch norm, activations in place, pooling: torchvision's in small."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(True))
        self.pool = nn.MaxPool2d(2)
        self.blocks = nn.Sequential(Residual(4), Residual(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.pool(self.stem(x)))
        return self.head(fn.adaptive_avg_pool2d(x, 1).flatten(1))


class Tagger(nn.Module):
    """Embedding, LSTM, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 5, padding_idx=0)
        self.lstm = nn.LSTM(5, 4, batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, 3)

    def forward(self, idx: Tensor) -> Tensor:
        return self.head(self.lstm(self.embedding(idx))[0])


class Spectral(nn.Module):
    """Complex parameters between two Fourier transforms."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=x.shape[-1])


class Mixed(nn.Module):
    """Part of it under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = torch.relu(self.one(x))
        return self.two(h.float())


class Flipped(nn.Module):
    """A module that somebody gave a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 5)
        self.inner.register_full_backward_hook(lambda m, gi, go: tuple(-g for g in gi))
        self.first = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(torch.tanh(self.first(x)))


def by_tokens(out: Tensor, target: Tensor) -> Tensor:
    return fn.cross_entropy(out.flatten(0, -2), target.flatten())


def _tokens(V: int, *shape: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, V, shape), torch.randint(0, V, shape)


def _ready(model: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    return model


CORRECT: dict[str, Callable[[], tuple[nn.Module, Any, Any]]] = {
    "gpt": lambda: (GPT(), _tokens(11, 3, 6), by_tokens),
    "gpt, attention by hand": lambda: (GPT(attention=Attention), _tokens(11, 3, 6), by_tokens),
    "gpt, dropout": lambda: (GPT(dropout=0.3), _tokens(11, 3, 6), by_tokens),
    "gpt, checkpointed": lambda: (
        GPT(attention=Attention, checkpointed=True, dropout=0.2),
        _tokens(11, 3, 6),
        by_tokens,
    ),
    "resnet": lambda: (
        ResNet(),
        (torch.randn(4, 2, 6, 6), torch.tensor([0, 1, 2, 1])),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])),
    ),
    "resnet, evaluated": lambda: (
        ResNet().eval(),
        (torch.randn(4, 2, 6, 6), torch.tensor([0, 1, 2, 1])),
        nn.CrossEntropyLoss(),
    ),
    "lstm": lambda: (
        Tagger(),
        (torch.randint(0, 9, (2, 5)), torch.randint(0, 3, (2, 5))),
        by_tokens,
    ),
    "complex": lambda: (Spectral(), (torch.randn(3, 6), torch.randn(3, 6)), nn.MSELoss()),
    "autocast": lambda: (Mixed(), torch.randn(5, 4), lambda out: out.square().mean()),
    "own loss": lambda: (
        nn.Sequential(nn.Linear(3, 4), nn.Tanh()),
        {"x": torch.randn(5, 3), "y": torch.randn(5, 4)},
        lambda model, batch: (model(batch["x"]) - batch["y"]).abs().mean(),
    ),
    "no loss": lambda: (nn.Bilinear(2, 3, 4), (torch.randn(5, 2), torch.randn(5, 3)), None),
}
