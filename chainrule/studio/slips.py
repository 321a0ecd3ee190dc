"""The program of the page that breaks backward passes: a small network, written in ops that the
page can compute again, so that it can train there with a slip in a rule.

    h = tanh(x @ W1 + b1);  z = h @ W2 + b2;  loss = -mean(y * log_softmax(z))

W2 is square, so that its transpose fits where it does not belong; z is used twice, so that two
paths add up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.engine.tensors import Tensor, tensor
from chainrule.ops.elementwise import exp, log, tanh
from chainrule.traces.record import record
from chainrule.traces.trace import Trace

ROWS, FEATURES, CLASSES = 6, 2, 3
LABELS = (
    *("x @ W1", "a", "h", "h @ W2", "z", "e", "sum e", "total", "score", "picked"),
    *("", "", "loss"),
)
"""What the page calls the ops, in order."""


def small_network(x: Tensor, y: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    """The loss of a network of one hidden layer, x (B, 2), y (B, 3) in {0, 1}.

    Shapes: (B, F), (B, C), (F, C), (C), (C, C), (C) -> ().
    """
    a = x @ W1 + b1
    h = tanh(a)
    z = h @ W2 + b2
    e = exp(z)
    total = log(e.sum(axis=-1, keepdims=True))
    score = (z - total) * y
    return -score.sum() / ROWS


def slip_trace() -> Trace:
    """One forward and backward pass of the network on six points of three classes."""
    rng = np.random.default_rng(3)
    angles = np.arange(ROWS) * 2 * np.pi / CLASSES
    x = np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.6, 1.4, (ROWS, 1))
    y = np.eye(CLASSES)[np.arange(ROWS) % CLASSES]
    weights: list[Any] = [
        np.round(rng.normal(size=s) * 0.7, 2)
        for s in ((FEATURES, CLASSES), (CLASSES,), (CLASSES, CLASSES), (CLASSES,))
    ]
    parameters = [tensor(w, dtype=np.float64, requires_grad=True) for w in weights]
    points = [tensor(np.round(x, 2), dtype=np.float64), tensor(y, dtype=np.float64)]
    trace = record(small_network, *points, *parameters, certify=False)  # the page walks it again
    labels = iter(LABELS)
    nodes = [n if n.kind != "op" else replace(n, label=next(labels), line="") for n in trace.nodes]
    return replace(trace, name="a small network", nodes=tuple(nodes), lines={})
