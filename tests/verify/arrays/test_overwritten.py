"""Layers that write into what another one keeps: each is right by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import verify

rng = np.random.default_rng(10)


class Tanh:
    def forward(self, x: Any) -> Any:
        self.out = np.tanh(x)
        return self.out

    def backward(self, g: Any) -> Any:
        return g * (1 - self.out**2)


class Shrink:
    def __init__(self, keep: Any) -> None:
        self.keep = keep

    def forward(self, x: Any) -> Any:
        x *= self.keep
        return x

    def backward(self, g: Any) -> Any:
        return g * self.keep


class Grow(Shrink):
    def forward(self, x: Any) -> Any:
        return x * self.keep


class Chain:
    def __init__(self, *layers: Any) -> None:
        self.layers = layers

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, g: Any) -> Any:
        for layer in self.layers[::-1]:
            g = layer.backward(g)
        return g


def test_writing_into_what_another_layer_keeps_is_wrong() -> None:
    keep = np.array([0.9, 0.5, 0.7, 0.3])
    finding = verify.pair(Chain(Tanh(), Shrink(keep)), rng.normal(size=(3, 4))).findings[0]
    assert finding.subject == "Chain" and finding.level == "error"


def test_writing_into_what_nobody_keeps_is_right() -> None:
    keep = np.array([0.9, 0.5, 0.7, 0.3])
    chain = Chain(Grow(keep), Shrink(keep), Tanh())
    assert not [
        f for f in verify.pair(chain, rng.normal(size=(3, 4))).findings if f.level == "error"
    ]


def test_a_wrong_layer_is_not_excused_by_who_writes() -> None:
    class Sine(Tanh):
        def backward(self, g: Any) -> Any:
            return g * np.cos(self.out)

    keep = np.array([0.9, 0.5, 0.7, 0.3])
    found = verify.pair(Chain(Sine(), Shrink(keep)), rng.normal(size=(3, 4))).findings
    assert found[0].subject == "Chain.layers[0]" and found[0].name.code != "stale"
