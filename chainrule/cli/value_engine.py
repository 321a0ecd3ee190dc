"""The engine that runs the model on scalars, and Adam for scalars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import final

import numpy as np

from chainrule.cli.engine import MOMENTS, Engine, Prompts, State, decays, ignore_index
from chainrule.cli.settings import Settings
from chainrule.data import Batch
from chainrule.engine.op import Array
from chainrule.models.gpt import GPT, Draw, GPTConfig, sample
from chainrule.models.scalar_gpt import ScalarGPT
from chainrule.scalar import Value
from chainrule.transforms.functional import no_grad


@final
class ValueEngine(Engine):
    """The model on scalars: each number of each step is a `Value` of its own. Float64.

    Only the held-out loss is computed on tensors, with the scalars' weights. It has no gradient to
    show, and comes to the same number a hundred times sooner.
    """

    def __init__(self, settings: Settings, config: GPTConfig, draw: Draw) -> None:
        self._model = ScalarGPT(config, draw)
        self._shapes = {n: w.shape for n, w in self._model.state_dict().items()}
        rates = [settings.weight_decay if decays(s) else 0.0 for s in self._shapes.values()]
        decay = [
            r
            for r, s in zip(rates, self._shapes.values(), strict=True)
            for _ in range(math.prod(s))
        ]
        self._adam = ScalarAdam(
            self._model.parameters(), (settings.beta1, settings.beta2), settings.eps, decay
        )
        self._tensors = GPT(config, draw=lambda shape, std: np.zeros(shape), dtype=np.float64)

    def update(self, batch: Batch, lr: float) -> float:
        """Forward and backward document by document, then Adam, number by number."""
        parts = [
            self._model.loss(list(d)) * ((len(d) - 1) / batch.positions) for d in batch.documents
        ]
        loss: Value = sum(parts[1:], parts[0])
        loss.backward()
        self._adam.step(lr)
        return float(loss.data)

    def loss(self, batch: Batch) -> float:
        """The loss of a tensor model that has these weights."""
        self._tensors.load_state_dict(self._model.state_dict())
        with no_grad():
            loss = self._tensors.loss(batch.tokens, batch.targets, ignore_index=ignore_index(batch))
        return float(loss.item())

    def generate(
        self, prompts: Prompts, rng: Random, *, stop: int, limit: int, temperature: float
    ) -> list[list[int]]:
        """From the scalar model's own logits."""
        return [
            sample(
                self._model.next_logits, rng, start=start, stop=stop, limit=limit,
                temperature=temperature,
            )
            for start in prompts
        ]  # fmt: skip

    def state(self) -> State:
        """Names are those of the model's `state_dict`."""
        weights = {n: w.numpy() for n, w in self._model.state_dict().items()}
        moments: dict[str, Array] = {}
        for m, numbers in zip(MOMENTS, (self._adam.m, self._adam.v), strict=True):
            parts = np.split(np.array(numbers), np.cumsum([w.size for w in weights.values()])[:-1])
            for (name, w), part in zip(weights.items(), parts, strict=True):
                moments[f"{name}/{m}"] = part.reshape(w.shape)
        return State(self._adam.steps, weights, moments)

    def load(self, state: State) -> None:
        """Convert to float64 where it is another dtype."""
        self._model.load_state_dict(state.weights)
        self._adam.values = self._model.parameters()  # new ones
        self._adam.steps = state.step
        self._adam.m, self._adam.v = (
            [x for n in self._shapes for x in state.moments[f"{n}/{m}"].ravel().tolist()]
            for m in MOMENTS
        )


@final
class ScalarAdam:
    """Adam on scalars, with decoupled weight decay: the numbers of `optim.AdamW`, written out.

    Kingma & Ba 2015, arXiv:1412.6980, algorithm 1; Loshchilov & Hutter 2019, arXiv:1711.05101,
    algorithm 2. `decay` is the weight decay of each value.
    """

    def __init__(
        self,
        values: Sequence[Value],
        betas: tuple[float, float],
        eps: float,
        decay: Sequence[float],
    ) -> None:
        self.values, self.betas, self.eps, self.decay = list(values), betas, eps, list(decay)
        self.steps = 0
        self.m = [0.0] * len(self.values)
        self.v = [0.0] * len(self.values)

    def step(self, lr: float) -> None:
        """Move each value against its gradient, and set the gradient to 0."""
        self.steps += 1
        (beta1, beta2), eps, m, v = self.betas, self.eps, self.m, self.v
        unbias1, unbias2 = 1 - beta1**self.steps, 1 - beta2**self.steps
        for i, p in enumerate(self.values):
            g = p.grad
            m[i] = beta1 * m[i] + (1 - beta1) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g * g
            kept = p.data * (1 - lr * self.decay[i])
            p.data = kept - lr * (m[i] / unbias1) / ((v[i] / unbias2) ** 0.5 + eps)
            p.grad = 0.0
