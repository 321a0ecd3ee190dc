"""A training step with Adam of any loss, in JAX and in PyTorch, for several benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch


def by_jax(
    loss: Callable[..., Any], weights: Sequence[Any], batch: Sequence[Any], rate: float
) -> Callable[[], Any]:
    """A step on `batch`, from `weights` on: it returns `loss(weights, *batch)` once it is there."""

    def step(state: Any, *batch: Any) -> Any:
        ws, m, v, t = state
        value, g = jax.value_and_grad(loss)(ws, *batch)
        t = t + 1
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g, strict=True)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g, strict=True)]
        by, scale = rate / (1 - 0.9**t), 1 / (1 - 0.999**t)
        both = zip(ws, m, v, strict=True)
        ws = [w - by * a / (jnp.sqrt(b * scale) + 1e-8) for w, a, b in both]
        return (ws, m, v, t), value

    go = jax.jit(step, donate_argnums=0)
    zeros = [[np.zeros_like(w) for w in weights] for _ in range(2)]
    state: Any = ([jnp.asarray(w) for w in weights], *zeros, jnp.float32(0))
    arrays = [jnp.asarray(x) for x in batch]

    def run() -> Any:
        nonlocal state
        state, value = go(state, *arrays)
        return jax.block_until_ready(value)

    return run


def by_torch(
    loss: Callable[..., Any], weights: Sequence[Any], batch: Sequence[Any], rate: float
) -> Callable[[], Any]:
    """The same in PyTorch's eager mode, with its fused Adam."""
    ws = [torch.nn.Parameter(torch.tensor(w)) for w in weights]
    adam = torch.optim.Adam(ws, lr=rate, fused=True)
    tensors = [torch.tensor(x) for x in batch]

    def run() -> Any:
        value = loss(ws, *tensors)
        adam.zero_grad()
        value.backward()
        adam.step()
        return value.detach()

    return run
