"""The engine that runs each training step as one call of native code.

The model, its optimizer and what is saved are the tensor engine's. Only what happens in a step is
compiled, once for all lengths of documents.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, final

from chainrule.cli.engine import Prompts, SharedEngine, State, shared_gradients
from chainrule.cli.settings import Settings
from chainrule.cli.tensor_engine import TensorEngine
from chainrule.compile.jit import jit
from chainrule.data import IGNORE, Batch
from chainrule.models.gpt import Draw, GPTConfig
from chainrule.parallel import Group
from chainrule.transforms.functional import no_grad

LENGTHS = 16
"""From which block size on one program serves all lengths; below, each length has its own."""

MANY = 1_000
"""From so many tokens on a loop that draws them is compiled; fewer are drawn sooner op by op."""


@final
class CompiledEngine(SharedEngine):
    """The model on tensors, whole steps at a time, in `settings.dtype`."""

    def __init__(self, settings: Settings, config: GPTConfig, draw: Draw) -> None:
        self._eager = TensorEngine(settings, config, draw)
        model, self._optimizer = self._eager.model, self._eager.optimizer
        self._steps = 0
        # documents of a step are filled up to one length; a single one has nothing to fill
        filled = IGNORE if settings.batch > 1 else None

        def gradients(tokens: Any, targets: Any) -> Any:
            loss = model.loss(tokens, targets, ignore_index=filled)
            self._optimizer.zero_grad()
            loss.backward()
            return loss

        def update(tokens: Any, targets: Any) -> Any:
            loss = gradients(tokens, targets)
            self._optimizer.step()
            return loss

        def evaluate(tokens: Any, targets: Any) -> Any:
            with no_grad():
                return model.loss(tokens, targets, ignore_index=IGNORE)

        axes = (None, "T") if config.block_size >= LENGTHS else (None, None)
        lengths = {"tokens": axes, "targets": axes}
        # the documents of a step are not always divided evenly
        rows = {name: ("B", axis) for name, (_, axis) in lengths.items()}
        self._update, self._loss = jit(update, dynamic=lengths), jit(evaluate, dynamic=lengths)
        self._gradients = jit(gradients, dynamic=rows)
        self._apply = jit(self._optimizer.step)

    def update(self, batch: Batch, lr: float) -> float:
        """Forward, backward, AdamW: one native call."""
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        loss = self._update(batch.tokens, batch.targets)
        self._steps += 1
        return float(loss.item())

    def update_shared(self, batch: Batch, lr: float, group: Group) -> float:
        """Forward and backward of each micro-batch, and AdamW: each a native call."""

        def gradients(part: Batch) -> Any:
            return self._gradients(part.tokens, part.targets)

        loss = shared_gradients(batch, group, self._eager.model, gradients)
        for settings in self._optimizer.param_groups:
            settings["lr"] = lr
        self._apply()
        self._steps += 1
        return loss

    def loss(self, batch: Batch) -> float:
        """Forward only."""
        return float(self._loss(batch.tokens, batch.targets).item())

    def generate(
        self, prompts: Prompts, rng: Random, *, stop: int, limit: int, temperature: float
    ) -> list[list[int]]:
        """The model's own, compiled where that pays."""
        return self._eager.model.generate(
            prompts, max_new_tokens=limit, stop=stop, temperature=temperature, generator=rng,
            one_by_one=True, compiled=len(prompts) * limit >= MANY,
        )  # fmt: skip

    def state(self) -> State:
        """Names are those of the model's `state_dict`."""
        return replace(self._eager.state(), step=self._steps)

    def load(self, state: State) -> None:
        """Convert to this engine's dtype where it is another."""
        self._eager.load(state)
        self._steps = state.step
