"""The engine that runs the model on tensors, op by op."""

from __future__ import annotations

from random import Random
from typing import final

import numpy as np

from chainrule import optim
from chainrule.cli.engine import (
    MOMENTS,
    Prompts,
    SharedEngine,
    State,
    decays,
    ignore_index,
    shared_gradients,
)
from chainrule.cli.settings import Settings
from chainrule.data import Batch
from chainrule.engine.tensors import Tensor
from chainrule.models.gpt import GPT, Draw, GPTConfig
from chainrule.parallel import Group
from chainrule.transforms.functional import no_grad


@final
class TensorEngine(SharedEngine):
    """The model on tensors, op by op, in `settings.dtype`."""

    def __init__(self, settings: Settings, config: GPTConfig, draw: Draw) -> None:
        self._model = GPT(config, draw=draw, dtype=np.dtype(settings.dtype))
        self._named = dict(self._model.named_parameters())
        self._step = 0
        decayed = {n for n, p in self._named.items() if decays(p.shape)}
        groups = [
            {
                "params": [p for n, p in self._named.items() if (n in decayed) is on],
                "weight_decay": d,
            }
            for on, d in ((True, settings.weight_decay), (False, 0.0))
        ]
        self._optimizer = optim.AdamW(
            [g for g in groups if g["params"]],
            lr=settings.lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
        )

    @property
    def model(self) -> GPT:
        """What it trains."""
        return self._model

    @property
    def optimizer(self) -> optim.AdamW:
        """What trains it."""
        return self._optimizer

    def update(self, batch: Batch, lr: float) -> float:
        """Forward, backward, AdamW."""
        loss = self._gradients(batch)
        self._apply(lr)
        return float(loss.item())

    def update_shared(self, batch: Batch, lr: float, group: Group) -> float:
        """Forward, backward, of each micro-batch; then AdamW."""
        loss = shared_gradients(batch, group, self._model, self._gradients)
        self._apply(lr)
        return loss

    def _gradients(self, batch: Batch) -> Tensor:
        loss = self._model.loss(batch.tokens, batch.targets, ignore_index=ignore_index(batch))
        self._optimizer.zero_grad()
        loss.backward()
        return loss

    def _apply(self, lr: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()
        self._step += 1

    def loss(self, batch: Batch) -> float:
        """Forward only."""
        with no_grad():
            loss = self._model.loss(batch.tokens, batch.targets, ignore_index=ignore_index(batch))
        return float(loss.item())

    def generate(
        self, prompts: Prompts, rng: Random, *, stop: int, limit: int, temperature: float
    ) -> list[list[int]]:
        """The model's own, op by op."""
        return self._model.generate(
            prompts, max_new_tokens=limit, stop=stop, temperature=temperature, generator=rng,
            one_by_one=True, compiled=False,
        )  # fmt: skip

    def state(self) -> State:
        """Names are those of the model's `state_dict`."""
        weights = {n: p.detach().numpy() for n, p in self._named.items()}
        saved = self._optimizer.state_dict()["state"]
        moments = {
            f"{name}/{m}": saved[i][m] if i in saved else np.zeros_like(weights[name])
            for i, name in enumerate(self._order())
            for m in MOMENTS
        }
        return State(self._step, weights, moments)

    def load(self, state: State) -> None:
        """Convert to this engine's dtype where it is another."""
        self._model.load_state_dict(state.weights)
        self._step = state.step
        blank = self._optimizer.state_dict()
        if state.step:
            blank["state"] = {
                i: {"step": state.step, **{m: state.moments[f"{name}/{m}"] for m in MOMENTS}}
                for i, name in enumerate(self._order())
            }
        self._optimizer.load_state_dict(blank)

    def _order(self) -> list[str]:
        """Names of the weights by the optimizer's numbers."""
        names = {id(p): n for n, p in self._named.items()}
        return [names[id(p)] for g in self._optimizer.param_groups for p in g["params"]]
