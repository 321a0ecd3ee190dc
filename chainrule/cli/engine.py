"""Engines: what computes a training step. All of them train the same model to the same numbers.

A run knows nothing of an engine but the methods of `Engine`. Weights and moments leave and enter it
by the model's own names, so a run that one engine began another can continue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import final

from chainrule.data import IGNORE, Batch
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.models.gpt import GPT
from chainrule.parallel import Group

MOMENTS = ("exp_avg", "exp_avg_sq")
"""What Adam remembers of a weight: the running means of its gradient and of the square of that."""


@final
@dataclass(frozen=True)
class State:
    """An engine after `step` updates: weights by name, moments as `name/exp_avg` and so on."""

    step: int
    weights: Mapping[str, Array]
    moments: Mapping[str, Array]


Prompts = Sequence[list[int]]
"""Lists of tokens, each to be continued."""


class Engine(ABC):
    """A model and its optimizer."""

    @abstractmethod
    def update(self, batch: Batch, lr: float) -> float:
        """Take one step along the gradient of the batch's loss; the loss before it.

        The loss is the mean over the batch's real positions of -log softmax(logits)[target].
        """

    @abstractmethod
    def loss(self, batch: Batch) -> float:
        """The same loss, without a step."""

    @abstractmethod
    def generate(
        self, prompts: Prompts, rng: Random, *, stop: int, limit: int, temperature: float
    ) -> list[list[int]]:
        """What is drawn after each prompt, as `models.gpt.sample` draws it, one after the other."""

    @abstractmethod
    def state(self) -> State:
        """Weights and moments as they are now."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Continue from `state`, exactly."""


class SharedEngine(Engine):
    """An engine that can compute a step in micro-batches, some of them by other workers."""

    @abstractmethod
    def update_shared(self, batch: Batch, lr: float, group: Group) -> float:
        """The same step as `update`, of this worker's part of the batch and those of the others."""


def shared_gradients(
    batch: Batch, group: Group, model: GPT, gradients: Callable[[Batch], Tensor]
) -> float:
    """Give the model the gradients of the whole batch, each worker computing its part; the loss.

    `gradients(part)` computes those of a part's mean loss.
    """
    for i in group.numbers:
        part = batch.chunk(group.micro_batches, i)
        group.add_gradients(model, weight=part.positions, loss=gradients(part))
    return group.average_gradients(model)


def decays(shape: tuple[int, ...]) -> bool:
    """Whether weight decay acts on a weight: on matrices, not on biases and the norms' scales."""
    return len(shape) > 1


def ignore_index(batch: Batch) -> int | None:
    """`IGNORE` if the batch has positions that only fill it up."""
    return IGNORE if batch.positions < batch.tokens.size else None
