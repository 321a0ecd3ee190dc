"""A training run: documents, an engine, a stream of random numbers, and what has happened so far.

The numbers are drawn in microgpt's order from one `random.Random(seed)`: the shuffle, the weights,
and at the end the samples. Which documents a step sees follows from its number. So a run is its
settings, its documents and its checkpoint, and continues as if it had never stopped.
"""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from chainrule.cli.checkpoint import Checkpoint
from chainrule.cli.engine import MOMENTS, Engine, SharedEngine, State
from chainrule.cli.files import CommandError
from chainrule.cli.settings import DTYPES, Settings
from chainrule.data import Batch, CharTokenizer, Corpus
from chainrule.errors import ConfigError, NonFiniteError
from chainrule.models.gpt import Draw, GPTConfig, parameter_shapes, python_draw
from chainrule.parallel.group import Group
from chainrule.parallel.membership import Membership

EVALUATION = 256
"""Documents that are evaluated at a time."""

_ENGINES = {
    "compiled": ("chainrule.cli.compiled_engine", "CompiledEngine"),
    "tensor": ("chainrule.cli.tensor_engine", "TensorEngine"),
    "value": ("chainrule.cli.value_engine", "ValueEngine"),
}


@final
class Run:
    """`step` updates of `engine` on `corpus`. `losses[s]` is the loss of step s, before its update;
    `held_out` holds (step, held-out loss after so many steps)."""

    def __init__(
        self, settings: Settings, corpus: Corpus, engine: Engine, rng: random.Random
    ) -> None:
        self.settings, self.corpus, self.engine, self.rng = settings, corpus, engine, rng
        self.losses: list[float] = []
        self.held_out: list[tuple[int, float]] = []
        self.group = Group(Membership(), settings.micro_batches)
        """Who computes: this process, or it and other workers."""

    @classmethod
    def begin(cls, settings: Settings, documents: Sequence[str]) -> Run:
        """A new run."""
        rng = random.Random(settings.seed)
        corpus = Corpus.of(documents, rng, holdout=settings.holdout)
        config = settings.model(corpus.tokenizer.vocab_size)
        return cls(settings, corpus, make_engine(settings, config, python_draw(rng)), rng)

    @classmethod
    def resume(
        cls, checkpoint: Checkpoint, documents: Sequence[str], changes: Mapping[str, Any]
    ) -> Run:
        """The run that `checkpoint` was made of, with some settings changed.

        Raises `ConfigError` if the documents are others.
        """
        settings = replace(Settings.from_dict(checkpoint.settings), **changes)
        corpus = Corpus.of(documents, random.Random(settings.seed), holdout=settings.holdout)
        if corpus.fingerprint != checkpoint.fingerprint:
            raise CommandError(
                f"{settings.data or 'the list of names'} has changed since this run began, so that "
                "it cannot be continued: restore the file, give its copy with --data, or begin anew"
            )
        rng = restored_random(checkpoint)
        check_history(checkpoint)
        run = cls(settings, corpus, restored_engine(settings, checkpoint), rng)
        run.losses = checkpoint.losses.tolist()
        run.held_out = [(int(step), loss) for step, loss in checkpoint.held_out.tolist()]
        return run

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return len(self.losses)

    @property
    def is_complete(self) -> bool:
        """Whether all steps are taken."""
        return self.step >= self.settings.steps

    def advance(self) -> float:
        """Take the next step, and measure the held-out loss where that is due; the step's loss.

        Raises `CommandError` for a loss that is no longer a finite number, without keeping it.
        """
        s = self.settings
        batch = self.corpus.batch(self.step, s.batch, s.block_size)
        loss = self._update(batch, s.rate(self.step))
        if not math.isfinite(loss):
            raise CommandError(
                f"the loss of step {self.step + 1} is {loss}: training has diverged; the learning "
                f"rate {s.lr:g} is likely too high, try a smaller --lr"
            )
        self.losses.append(loss)
        if self.corpus.held_out and (self._due(s.eval_every, 20) or self.is_complete):
            self.held_out.append((self.step, self.held_out_loss()))
        return loss

    def _update(self, batch: Batch, lr: float) -> float:
        if self.settings.micro_batches == 1:
            return self.engine.update(batch, lr)
        assert isinstance(self.engine, SharedEngine), "settings see to it"
        return self.engine.update_shared(batch, lr, self.group)

    @property
    def save_due(self) -> bool:
        """Whether the run should be saved after this step."""
        return self._due(self.settings.save_every, 10) or self.is_complete

    def _due(self, every: int, parts: int) -> bool:
        """Whether `every` steps (0: a `parts`-th of all) have passed."""
        return self.step % (every or max(1, -(-self.settings.steps // parts))) == 0

    def held_out_loss(self) -> float:
        """The loss as it is now, the mean over all positions of the held-out documents."""
        batches = self.corpus.held_out_batches(EVALUATION, self.settings.block_size)
        losses = np.zeros(len(batches))
        for i in range(self.group.rank, len(batches), self.group.size):
            losses[i] = self.engine.loss(batches[i]) * batches[i].positions
        total = math.fsum(self.group.all_reduce(losses).tolist())  # all others added 0
        return total / sum([b.positions for b in batches])

    def checkpoint(self) -> Checkpoint:
        """The run as it is now."""
        version, numbers, gauss = self.rng.getstate()
        state = self.engine.state()
        return Checkpoint(
            step=self.step,
            settings=self.settings.to_dict(),
            tokenizer=self.corpus.tokenizer.to_dict(),
            fingerprint=self.corpus.fingerprint,
            random=[version, list(numbers), gauss],
            weights=state.weights,
            moments=state.moments,
            losses=np.array(self.losses, np.float64),
            held_out=np.array(self.held_out, np.float64).reshape(-1, 2),
        )

    def samples(self, count: int, temperature: float) -> list[str]:
        """New documents, drawn with the run's own stream of random numbers."""
        return draw_documents(
            self.engine, self.corpus.tokenizer, self.settings.block_size, self.rng,
            count=count, temperature=temperature,
        )  # fmt: skip


def make_engine(settings: Settings, config: GPTConfig, draw: Draw) -> Engine:
    """The engine that the settings name, with weights from `draw`. Only its module is loaded."""
    module, name = _ENGINES[settings.engine]
    return getattr(importlib.import_module(module), name)(settings, config, draw)


def restored_engine(settings: Settings, checkpoint: Checkpoint) -> Engine:
    """An engine with the weights and moments of a checkpoint.

    Nothing is made before the checkpoint's arrays are known to be those of its settings: so a
    small file cannot ask for a large model.
    """
    config = settings.model(CharTokenizer.from_dict(checkpoint.tokenizer).vocab_size)
    check_arrays(config, checkpoint)
    engine = make_engine(settings, config, lambda shape, std: np.zeros(shape))
    try:
        engine.load(State(checkpoint.step, checkpoint.weights, checkpoint.moments))
    except (ConfigError, KeyError) as cause:
        raise _misfit(str(cause)) from cause
    return engine


def restored_random(checkpoint: Checkpoint) -> random.Random:
    """The stream of random numbers where the checkpoint left it."""
    rng = random.Random(0)
    try:
        version, numbers, gauss = checkpoint.random
        if gauss is not None and type(gauss) is not float:
            raise TypeError("a normal number that is none")
        rng.setstate((version, tuple(numbers), gauss))
    except (TypeError, ValueError, OverflowError) as cause:
        raise CommandError("the checkpoint's random state is not one of Python's") from cause
    return rng


def check_arrays(config: GPTConfig, checkpoint: Checkpoint) -> None:
    """Raise `CommandError` unless weights and moments have the names and shapes of `config`."""
    weights, moments = checkpoint.weights, checkpoint.moments
    count = 0
    for name, shape in parameter_shapes(config):
        for kind, arrays in ((name, weights), *[(f"{name}/{m}", moments) for m in MOMENTS]):
            _check_array(kind, arrays.get(kind), shape)
        count += 1
    if len(weights) != count or len(moments) != count * len(MOMENTS):
        raise _misfit("it holds arrays of another model besides")


def check_history(checkpoint: Checkpoint) -> None:
    """Raise `CommandError` unless there is a loss for each step, and held-out losses after some."""
    step, held_out = checkpoint.step, checkpoint.held_out
    _check_array("losses", checkpoint.losses, (step,))
    _check_array("held_out", held_out, (len(held_out) if held_out.ndim else 0, 2))
    after = held_out[:, 0]
    finite = np.isfinite(checkpoint.losses).all() and np.isfinite(held_out).all()
    if not finite or (after != np.clip(np.round(after), 1, step)).any():
        raise _misfit("its losses are not those of its steps")


def _check_array(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if array is None:
        raise _misfit(f"{name} is missing")
    if array.shape != shape:
        raise _misfit(f"{name} has the shape {array.shape!s:.60}, not {shape}")
    if array.dtype not in DTYPES:
        raise _misfit(f"{name} is of {array.dtype}, not of {' or '.join(DTYPES)}")


def _misfit(reason: str) -> CommandError:
    return CommandError(f"the checkpoint does not fit its own settings: {reason:.200}")


def draw_documents(
    engine: Engine,
    tokenizer: CharTokenizer,
    block_size: int,
    rng: random.Random,
    *,
    count: int,
    temperature: float,
    prompt: str = "",
) -> list[str]:
    """`count` documents that begin with `prompt`, each of at most `block_size` characters."""
    start = [tokenizer.bos, *tokenizer.encode(prompt)]
    limit = block_size - len(prompt)
    if limit < 1:
        raise CommandError(
            f"the prompt has {len(prompt)} characters, the model writes {block_size} in all: "
            "give a shorter one"
        )

    try:
        drawn = engine.generate(
            [start] * count, rng, stop=tokenizer.bos, limit=limit, temperature=temperature
        )
    except NonFiniteError as cause:
        reason = "the model's numbers are not finite: its training has diverged"
        raise CommandError(reason) from cause
    return [prompt + tokenizer.decode(tokens) for tokens in drawn]
