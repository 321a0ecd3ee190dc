"""MAML: a network learns to learn a sine wave from ten points in one step of gradient descent.

A task is a wave of unknown amplitude and phase. The inner loop makes one step on ten of its
points; the outer loss is that of ten other points after this step, so its gradient goes through a
gradient: `grad` inside `vmap` inside `backward`. A network that was trained on the same waves
without inner steps stands beside it. Finn et al. 2017, arXiv:1703.03400, section 5.1.

Run it: `python examples/maml_sinusoids.py` (10 seconds).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import optim

SHOTS, RATE, WIDTH = 10, 0.01, 40
"""Points of a task for the inner steps, their learning rate, units of a layer."""


def first_parameters(rng: np.random.Generator) -> dict[str, Any]:
    """Weights (n, m) from a normal distribution by fan-in, biases 0."""
    sizes = enumerate([(1, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)], 1)
    p: dict[str, Any] = {}
    for i, (n, m) in sizes:
        p[f"w{i}"] = cr.tensor(rng.normal(0, (2 / n) ** 0.5, (n, m)), requires_grad=True)
        p[f"b{i}"] = cr.tensor(np.zeros(m), requires_grad=True)
    return p


def task_loss(p: dict[str, Any], x: Any, y: Any) -> Any:
    """The mean square of the network's errors on points x, y (N, 1) of one task."""
    h = cr.relu(x @ p["w1"] + p["b1"])
    h = cr.relu(h @ p["w2"] + p["b2"])
    return cr.mse_loss(h @ p["w3"] + p["b3"], y)


def loss_after(steps: int, p: dict[str, Any], x: Any, y: Any) -> Any:
    """The loss after so many inner steps, a mean over tasks; x and y are (tasks, 2 SHOTS, 1)."""

    def of_one_task(x: Any, y: Any) -> Any:
        q = p
        for _ in range(steps):
            gradients = cr.grad(task_loss)(q, x[:SHOTS], y[:SHOTS])
            q = {name: q[name] - RATE * gradients[name] for name in q}
        return task_loss(q, x[SHOTS:], y[SHOTS:])

    return cr.vmap(of_one_task)(x, y).mean()


def tasks(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Points x, y (n, 2 SHOTS, 1) of n waves; the first SHOTS of each are for inner steps."""
    amplitude, phase = rng.uniform(0.1, 5, (n, 1, 1)), rng.uniform(0, np.pi, (n, 1, 1))
    x = rng.uniform(-5, 5, (n, 2 * SHOTS, 1))
    return x, amplitude * np.sin(x - phase)


def trained(inner: int, steps: int) -> dict[str, Any]:
    """Parameters that minimize the loss after `inner` inner steps."""
    rng = np.random.default_rng(0)
    p = first_parameters(rng)
    optimizer = optim.Adam(p.values(), lr=1e-3)

    @cr.jit
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_after(inner, p, x, y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(steps):
        step(*tasks(rng, 25))
    return p


def main(steps: int = 20_000) -> dict[str, list[float]]:
    """Train both; print and return their losses on 200 new tasks after 0, 1, ... 5 inner steps."""
    x, y = tasks(np.random.default_rng(1), 200)
    table: dict[str, list[float]] = {}
    print(f"{'inner steps':22}" + "".join([f"{k:7}" for k in range(6)]))
    for inner, name in enumerate(["trained without", "MAML, trained with one"]):
        p = trained(inner, steps)
        table[name] = [loss_after(k, p, x, y).item() for k in range(6)]
        print(f"{name:22}" + "".join([f"{loss:7.3f}" for loss in table[name]]))
    return table


if __name__ == "__main__":
    main()
