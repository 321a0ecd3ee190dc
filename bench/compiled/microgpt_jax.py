"""microgpt in JAX: the step jitted, documents padded to 16 positions with a mask; or one `scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.compiled.documents import BETAS, BLOCK, EPS, HEADS, Run, padded

HIDDEN = np.triu(np.full((BLOCK, BLOCK), -1e30, np.float32), 1)


def norm(x: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def loss(w: dict[str, Any], tokens: Any, targets: Any, mask: Any) -> Any:
    """Mean over the positions where the mask is 1; what is causal never sees those after."""
    x = norm(w["wte"][tokens] + w["wpe"])
    q, k, v = (norm(x) @ w["qkv"].T).reshape(BLOCK, 3, HEADS, -1).transpose(1, 2, 0, 3)
    p = jax.nn.softmax(q @ k.transpose(0, 2, 1) * 0.5 + HIDDEN)
    x = x + (p @ v).transpose(1, 0, 2).reshape(BLOCK, -1) @ w["proj"].T
    x = x + jax.nn.relu(norm(x) @ w["fc1"].T) @ w["fc2"].T
    y = jax.nn.log_softmax(x @ w["head"].T)
    return -(y[jnp.arange(BLOCK), targets] * mask).sum() / mask.sum()


def step(state: Any, batch: Any) -> Any:
    """State and batch -> state and loss. Adam, as everywhere here."""
    w, m, v, t = state
    *document, rate = batch
    value, g = jax.value_and_grad(loss)(w, *document)
    b1, b2 = BETAS
    t = t + 1
    each = jax.tree.map
    m = each(lambda m, g: b1 * m + (1 - b1) * g, m, g)
    v = each(lambda v, g: b2 * v + (1 - b2) * g * g, v, g)
    a, c = rate / (1 - b1**t), 1 / (1 - b2**t)
    w = each(lambda w, m, v: w - a * m / (jnp.sqrt(v * c) + EPS), w, m, v)
    return (w, m, v, t), value


def start(run: Run) -> Any:
    w = {k: jnp.asarray(x) for k, x in run.weights.items()}
    zeros = jax.tree.map(jnp.zeros_like, w)
    return w, zeros, jax.tree.map(jnp.zeros_like, w), jnp.float32(0)


def batches(run: Run) -> Any:
    return (*padded(run), np.array(run.rates, np.float32))


def by_step(run: Run) -> Callable[[], Any]:
    """The whole run, one call a step; losses are waited for at the end."""
    go = jax.jit(step, donate_argnums=0)
    rows = list(zip(*batches(run), strict=True))

    def steps() -> Any:
        state, losses = start(run), []
        for row in rows:
            state, value = go(state, row)
            losses.append(value)
        jax.block_until_ready(state)
        return [float(x) for x in losses]

    return steps


def at_once(run: Run) -> Callable[[], Any]:
    """The whole run as one `lax.scan`."""
    go = jax.jit(lambda state, rows: jax.lax.scan(step, state, rows))
    rows = tuple([jnp.asarray(x) for x in batches(run)])
    return lambda: np.asarray(go(start(run), rows)[1])
