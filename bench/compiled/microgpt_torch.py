"""microgpt in PyTorch: op by op, and with `torch.compile`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from bench.compiled.documents import BETAS, EPS, HEADS, Run, padded


class Model(torch.nn.Module):
    """microgpt with PyTorch's own functions; its loss, targets of -100 not counted."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        for name, value in run.weights.items():
            self.register_parameter(name, torch.nn.Parameter(torch.tensor(value)))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        T = tokens.shape[0]
        x = F.rms_norm(self.wte[tokens] + self.wpe[:T], (16,), eps=1e-5)
        h = F.rms_norm(x, (16,), eps=1e-5)
        q, k, v = (h @ self.qkv.T).reshape(T, 3, HEADS, -1).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(0, 1).reshape(T, -1) @ self.proj.T
        h = F.rms_norm(x, (16,), eps=1e-5)
        x = x + F.relu(h @ self.fc1.T) @ self.fc2.T
        return F.cross_entropy(x @ self.head.T, targets)


class Training:
    """A run: model, Adam, and how a loss is computed from the model."""

    def __init__(self, run: Run, wrap: Callable[[Model], Any], pad: bool, fused: bool) -> None:
        self.run = run
        self.model = Model(run)
        self.loss = wrap(self.model)
        self.adam = torch.optim.Adam(
            self.model.parameters(), lr=0.01, betas=BETAS, eps=EPS, fused=fused or None
        )
        self.batches = list(padded_batches(run) if pad else batches(run))

    def reset(self) -> None:
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(torch.from_numpy(self.run.weights[name]))
        self.adam.state.clear()

    def step(self, tokens: Any, targets: Any, rate: float) -> Any:
        self.adam.param_groups[0]["lr"] = rate
        loss = self.loss(tokens, targets)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss.detach()

    def __call__(self) -> list[float]:
        return [float(x) for x in [self.step(*b) for b in self.batches]]


def batches(run: Run) -> Any:
    for d, rate in zip(run.documents, run.rates, strict=True):
        t = torch.from_numpy(d)
        yield t[:-1].clone(), t[1:].clone(), rate


def padded_batches(run: Run) -> Any:
    tokens, targets, mask = (torch.from_numpy(x) for x in padded(run))
    targets = torch.where(mask > 0, targets, -100).long()
    yield from zip(tokens.long(), targets, run.rates, strict=True)


def eager(run: Run) -> Training:
    return Training(run, lambda model: model, pad=False, fused=True)


def compiled(run: Run, *, dynamic: bool) -> Training | None:
    """Forward and backward compiled, Adam fused: any length, or padded to 16. None without g++."""
    if shutil.which("g++") is None:
        return None
    return Training(
        run, lambda model: torch.compile(model, dynamic=dynamic), pad=not dynamic, fused=True
    )
