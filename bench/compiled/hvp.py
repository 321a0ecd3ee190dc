"""How long does a product of the Hessian of a GPT's loss (10.8 M parameters) take, beside JAX?

The model and the batch of `gpt`; the direction is a random vector. Both must give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import chainrule as cr
from bench.compiled import ours
from bench.compiled.gpt import HEADS, LAYERS, small, weights_of
from bench.compiled.gpt_peers import jax_loss
from bench.compiled.race import Runner, race, table
from bench.pairs import Row
from chainrule.models.gpt import GPT


def by_chainrule(model: GPT, x: Any, y: Any, along: dict[str, Any]) -> Callable[[], Any]:
    """The gradient of <gradient, direction>: reverse mode twice, on the model as it stands."""
    named = dict(model.named_parameters())

    def product(x: Any, y: Any, along: dict[str, Any]) -> Any:
        model.zero_grad()
        model.loss(x, y).backward(create_graph=True)
        slope = sum([(p.grad * along[name]).sum() for name, p in named.items()])
        model.zero_grad()
        slope.backward()
        return {name: p.grad.detach() for name, p in named.items()}

    call = ours.compiled(product)
    given = (cr.asarray(x), cr.asarray(y), {n: cr.asarray(a) for n, a in along.items()})
    return lambda: call(*given)


def by_jax(weights: dict[str, Any], x: Any, y: Any, along: dict[str, Any]) -> Callable[[], Any]:
    """Forward over reverse, jitted."""

    def product(w: Any, along: Any, x: Any, y: Any) -> Any:
        slope = jax.grad(lambda w: jax_loss(w, x, y, LAYERS, HEADS))
        return jax.jvp(slope, (w,), (along,))[1]

    go = jax.jit(product)
    given = jax.tree.map(jax.numpy.asarray, (weights, along, x, y))
    return lambda: jax.block_until_ready(go(*given))


def check(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Equal to a thousandth of the largest number, or the benchmark ends."""
    for name, a in mine.items():
        b = np.asarray(theirs[name])
        off, size = np.abs(a.numpy() - b).max(), np.abs(b).max()
        if not off <= 1e-3 * size + 1e-7:
            raise AssertionError(f"hvp: {name} differs by {off:.2g}, its largest is {size:.2g}")


def run() -> list[Row]:
    model, x, y = small()
    weights = weights_of(model)
    rng = np.random.default_rng(1)
    along = {n: rng.standard_normal(w.shape, dtype=np.float32) for n, w in weights.items()}
    runners = [
        Runner(ours.NAME, by_chainrule(model, x, y, along)),
        Runner("JAX jit", by_jax(weights, x, y, along)),
    ]
    check(*[r.run() for r in runners])
    return table("hvp of GPT 10.8 M", runners, race(runners, blocks=5, runs=1), "≤ 1.00")
