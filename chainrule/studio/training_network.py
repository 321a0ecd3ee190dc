"""Networks on points, for all settings of the page in two programs: a training step, and a forward
pass alone, which is what surfaces and losses need.

A module has `layers` hidden layers of `WIDTH` units each, which read `WIDTH` features. What is
chosen in the page are numbers that a call reads, so nothing is compiled again:

    y_l = mask_l * activation(y_{l-1} @ W_l + b_l) + skip_l * y_{l-1}

A unit that is not there has mask 0; a layer that is not there has mask 0 and skip 1; skip 1 makes a
layer residual. An activation is five numbers: gain / (1 + exp(slope * z)) + offset + linear * z +
positive * relu(z). An optimizer is eleven (see `_update`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import chainrule as cr

WIDTH: Final = 16
"""Units of a layer, and features of a point, at most."""
POINTS: Final = 1024
"""Points of a batch at most."""
_LIMIT: Final = 40.0
"""Beyond it a sigmoid is 0 or 1 to the last bit, and its exponential stays finite."""

ACTIVATION = ("slope", "gain", "offset", "linear", "positive")
OPTIMIZER = (
    "rate", "l2", "decay", "momentum", "intake", "plain", "averaged", "adaptive", "square_decay",
    "correction", "epsilon",
)  # fmt: skip


def parameter_count(layers: int) -> int:
    """Numbers of a network: W (WIDTH, WIDTH) and b (WIDTH) of each layer, then those of the output,
    w (WIDTH) and b."""
    return layers * (WIDTH * WIDTH + WIDTH) + WIDTH + 1


def network_step(layers: int) -> Callable[..., Any]:
    """The step: `theta` holds all parameters one after the other, `theta.grad` their gradient."""
    count = parameter_count(layers)
    theta = cr.tensor(np.zeros(count), requires_grad=True)
    mean, square = cr.tensor(np.zeros(count)), cr.tensor(np.zeros(count))

    def step(x: Any, y: Any, mask: Any, skip: Any, squared: Any, activation: Any, update: Any):
        loss, _, _, exponentials = _forward(theta, x, y, mask, skip, squared, activation)
        theta.grad = None
        loss.backward()
        _update(theta, mean, square, update)
        # exponentials are a result, so that the backward pass reads them and computes none again
        exponential = cr.stack(exponentials)
        return loss, exponential

    return step


def network_values(
    theta: Any, x: Any, y: Any, mask: Any, skip: Any, squared: Any, activation: Any
) -> Any:
    """The loss, the output (B) and the units (layers, B, WIDTH) of a network."""
    loss, output, hidden, _ = _forward(theta, x, y, mask, skip, squared, activation)
    units = cr.stack(hidden)
    return loss, output, units


def _forward(theta: Any, x: Any, y: Any, mask: Any, skip: Any, squared: Any, activation: Any):
    # x (B, WIDTH), y (B), mask (layers, WIDTH), skip (layers)
    hidden, exponentials = [x], list[Any]()
    for l in range(mask.shape[0]):
        weight, bias = _layer(theta, l)
        z = hidden[-1] @ weight + bias
        e = cr.exp(cr.clip(activation["slope"] * z, -_LIMIT, _LIMIT))
        value = _activate(z, e, activation)
        hidden.append(mask[l] * value + skip[l] * hidden[-1])
        exponentials.append(e)
    last = theta.shape[0] - WIDTH - 1
    output = hidden[-1] @ theta[last:-1] + theta[-1]
    loss = cr.mean(cr.where(squared > 0.5, (output - y) ** 2, cr.softplus(output) - y * output))
    return loss, output, hidden[1:], exponentials


def _layer(theta: Any, l: int) -> tuple[Any, Any]:
    """Weights (WIDTH, WIDTH) and biases (WIDTH) of a hidden layer."""
    at = l * (WIDTH * WIDTH + WIDTH)
    middle, end = at + WIDTH * WIDTH, at + WIDTH * WIDTH + WIDTH
    return cr.reshape(theta[at:middle], (WIDTH, WIDTH)), theta[middle:end]


def _activate(z: Any, e: Any, a: Any) -> Any:
    return a["gain"] / (1 + e) + a["offset"] + a["linear"] * z + a["positive"] * cr.relu(z)


def _update(theta: Any, mean: Any, square: Any, u: Any) -> None:
    """SGD, momentum, Adam, AdamW, as `chainrule.optim` has them: `mean` and `square` are
    the running averages of the gradient g and of g*g."""
    g = theta.grad + u["l2"] * theta
    mean.data = u["momentum"] * mean + u["intake"] * g
    square.data = u["square_decay"] * square + (1 - u["square_decay"]) * g * g
    size = cr.where(u["adaptive"] > 0.5, cr.sqrt(u["correction"] * square) + u["epsilon"], 1.0)
    direction = (u["plain"] * g + u["averaged"] * mean) / size
    theta.data = theta - u["rate"] * (direction + u["decay"] * theta)


def network_module(folder: Path, layers: int) -> Path:
    """Write the module that trains networks of up to so many hidden layers."""
    arguments = _arguments(layers)
    update = {name: np.array(0.0) for name in OPTIMIZER}
    return _write(folder / f"network{layers}.wasm", network_step(layers), [*arguments, update])


def values_module(folder: Path, layers: int) -> Path:
    """Write the module of `network_values`."""
    theta = np.zeros(parameter_count(layers))
    return _write(folder / f"values{layers}.wasm", network_values, [theta, *_arguments(layers)])


def _arguments(layers: int) -> list[Any]:
    """x, y, mask, skip, squared, activation"""
    activation = {name: np.array(0.0) for name in ACTIVATION}
    return [np.zeros((5, WIDTH)), np.zeros(5), np.zeros((layers, WIDTH)), np.ones(layers),
            np.array(0.0), activation]  # fmt: skip


def _write(file: Path, f: Callable[..., Any], arguments: list[Any]) -> Path:
    compiled = cr.jit(f, dynamic={"x": ("B", None), "y": ("B",)})
    return compiled.to_wasm(file, *arguments, largest={"B": POINTS})
