"""GPT-2's architecture in PyTorch's and in JAX's words, on the weights of `models.gpt.GPT`.

Weights are a dict by the names of that model's `state_dict`: so all start alike and must give the
same losses. Notation: T positions, C channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

RATE, BETAS, EPS, DECAY = 3e-4, (0.9, 0.95), 1e-8, 0.1
Weights = dict[str, Any]


def torch_loss(w: Weights, tokens: Any, targets: Any, layers: int, heads: int) -> Any:
    """Mean cross-entropy, with PyTorch's own attention."""
    B, T = tokens.shape
    x = F.embedding(tokens, w["wte.weight"]) + w["wpe.weight"][:T]
    C = x.shape[-1]

    def norm(name: str, x: Any) -> Any:
        return F.layer_norm(x, (C,), w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(name: str, x: Any) -> Any:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    for i in range(layers):
        b = f"blocks.{i}"
        qkv = linear(f"{b}.attn.qkv", norm(f"{b}.norm_1", x))
        q, k, v = qkv.reshape(B, T, 3, heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(f"{b}.attn.proj", y.transpose(1, 2).reshape(B, T, C))
        h = F.gelu(linear(f"{b}.mlp.fc1", norm(f"{b}.norm_2", x)), approximate="tanh")
        x = x + linear(f"{b}.mlp.fc2", h)
    logits = norm("final_norm", x) @ w["wte.weight"].T
    return F.cross_entropy(logits.reshape(B * T, -1), targets.reshape(-1))


def torch_step(
    weights: Weights, tokens: Any, targets: Any, layers: int, heads: int, *, compiled: bool = False
) -> Callable[[], Any]:
    """One step of AdamW, fused; with `compiled`, forward and backward go through torch.compile."""
    w = {name: torch.nn.Parameter(torch.tensor(x)) for name, x in weights.items()}
    adam = torch.optim.AdamW(
        w.values(), lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True
    )
    x, y = torch.tensor(tokens), torch.tensor(targets)

    def loss_of(w: Weights, x: Any, y: Any) -> Any:
        return torch_loss(w, x, y, layers, heads)

    f: Any = torch.compile(loss_of) if compiled else loss_of

    def step() -> Any:
        loss = f(w, x, y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach()

    return step


def jax_loss(w: Weights, tokens: Any, targets: Any, layers: int, heads: int) -> Any:
    """The same in JAX."""
    B, T = tokens.shape
    x = w["wte.weight"][tokens] + w["wpe.weight"][:T]
    C = x.shape[-1]
    hidden = jnp.triu(jnp.full((T, T), -1e30, x.dtype), 1)

    def norm(name: str, x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(name: str, x: Any) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    for i in range(layers):
        b = f"blocks.{i}"
        qkv = linear(f"{b}.attn.qkv", norm(f"{b}.norm_1", x))
        q, k, v = qkv.reshape(B, T, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        p = jax.nn.softmax(q @ k.swapaxes(-1, -2) / np.float32(q.shape[-1] ** 0.5) + hidden)
        x = x + linear(f"{b}.attn.proj", (p @ v).swapaxes(1, 2).reshape(B, T, C))
        h = jax.nn.gelu(linear(f"{b}.mlp.fc1", norm(f"{b}.norm_2", x)), approximate=True)
        x = x + linear(f"{b}.mlp.fc2", h)
    scores = jax.nn.log_softmax(norm("final_norm", x) @ w["wte.weight"].T)
    return -jnp.take_along_axis(scores, targets[..., None], -1).mean()


def jax_step(
    weights: Weights, tokens: Any, targets: Any, layers: int, heads: int
) -> Callable[[], Any]:
    """One step of AdamW (Loshchilov and Hutter 2019, algorithm 2), jitted, in place."""

    def step(state: Any, tokens: Any, targets: Any) -> Any:
        w, m, v, t = state
        value, g = jax.value_and_grad(jax_loss)(w, tokens, targets, layers, heads)
        (b1, b2), each, t = BETAS, jax.tree.map, t + 1
        m = each(lambda m, g: b1 * m + (1 - b1) * g, m, g)
        v = each(lambda v, g: b2 * v + (1 - b2) * g * g, v, g)
        a, c = RATE / (1 - b1**t), 1 / (1 - b2**t)
        keep = 1 - RATE * DECAY
        w = each(lambda w, m, v: keep * w - a * m / (jnp.sqrt(v * c) + EPS), w, m, v)
        return (w, m, v, t), value

    go = jax.jit(step, donate_argnums=0)
    zeros = [{n: jnp.zeros_like(x) for n, x in weights.items()} for _ in range(2)]
    state: Any = ({n: jnp.asarray(x) for n, x in weights.items()}, *zeros, jnp.float32(0))
    x, y = jnp.asarray(tokens), jnp.asarray(targets)

    def run() -> Any:
        nonlocal state
        state, value = go(state, x, y)
        return jax.block_until_ready(value)

    return run
