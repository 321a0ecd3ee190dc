"""What a training run is asked to do, as one frozen value; the presets are values of it.

The model's sizes, the data, the optimizer, the schedule, the seed. Everything that a run computes
follows from its settings and its documents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast, final

from chainrule.errors import ConfigError
from chainrule.models.config import GPTConfig
from chainrule.optim import Cosine, Linear, WarmUp
from chainrule.optional import is_installed

ENGINES = ("compiled", "tensor", "value")
DTYPES = ("float32", "float64")
SCHEDULES = {"linear": Linear, "cosine": Cosine}


_STYLES = {"microgpt": GPTConfig.microgpt, "gpt2": GPTConfig.gpt2}


def option(name: str) -> str:
    """The option that sets `name`: `--n-layer` for n_layer."""
    return "--" + name.replace("_", "-")


_LARGEST = 1 << 53
"""Whole numbers up to here are floats without rounding, which a schedule computes in."""
_WEIGHTS, _POSITIONS = 1 << 34, 1 << 24
"""The largest model and the largest step that this command makes."""


def _at_least(least: int, name: str, value: Any) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(
            f"{option(name)} must be a whole number, at least {least}, not {value!s:.60}"
        )
    if value > _LARGEST:
        raise ConfigError(f"{option(name)} must be at most {_LARGEST:,}, not {value!s:.60}")


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise ConfigError(f"{option(name)} must be a number, not {value!r:.60}")
    return value


def _within(name: str, value: Any, below: float) -> None:
    """Raise unless 0 <= value < below."""
    if not 0 <= _number(name, value) < below:
        end = "" if below == math.inf else f" and below {below:g}"
        raise ConfigError(f"{option(name)} must be at least 0{end}, not {value!s:.60}")


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{option(name)} is one of {', '.join(choices)}, not {value!r:.60}")


_ADDED = {"micro_batches"}
"""Settings that older runs lack."""


@final
@dataclass(frozen=True)
class Settings:
    """A training run. `ConfigError` says in a sentence which setting makes no sense.

    `style` names the model's ingredients, `n_layer` to `block_size` its sizes. `data` is a file,
    None for the names in the package. A step trains on `batch` documents. The learning rate goes
    from `lr` down to 0 at `steps`, straight or along a half cosine, after rising over the first
    `warmup` steps. `beta1 beta2 eps weight_decay` are AdamW's (without decay: Adam's). Every
    `eval_every` steps the held-out loss is measured, every `save_every` the run is saved; 0: a
    twentieth and a tenth of the steps. A step's documents are divided into `micro_batches`, whose
    gradients are added in a fixed tree, whoever computes them.
    """

    preset: str
    style: str
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    steps: int
    batch: int
    lr: float
    schedule: str
    warmup: int
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    dtype: str
    engine: str = "tensor"
    seed: int = 42
    data: str | None = None
    holdout: float = 0.0
    eval_every: int = 0
    save_every: int = 0
    micro_batches: int = 1

    def __post_init__(self) -> None:
        whole = ("n_layer", "n_head", "n_embd", "block_size", "steps", "batch", "micro_batches")
        for name in whole:
            _at_least(1, name, getattr(self, name))
        for name in ("seed", "warmup", "eval_every", "save_every"):
            _at_least(0, name, getattr(self, name))
        if not 0 < _number("lr", self.lr) < math.inf:
            raise ConfigError(f"--lr must be a number above 0, not {self.lr!s:.60}")
        for name in ("holdout", "beta1", "beta2"):
            _within(name, getattr(self, name), 1)
        for name in ("eps", "weight_decay"):
            _within(name, getattr(self, name), math.inf)
        if not isinstance(cast("Any", self.data), str | None):
            raise ConfigError(f"--data must be the name of a file, not {self.data!r:.60}")
        if not isinstance(cast("Any", self.preset), str):
            raise ConfigError(f"--preset must be a name, not {self.preset!r:.60}")
        _one_of("engine", self.engine, ENGINES)
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("schedule", self.schedule, tuple(SCHEDULES))
        _one_of("style", self.style, tuple(_STYLES))
        if self.engine == "value" and self.dtype != "float64":
            raise ConfigError(
                f"the value engine computes in float64, not in {self.dtype}: leave --dtype out, or "
                "use --engine tensor"
            )
        if self.n_embd % self.n_head:
            raise ConfigError(
                f"{option('n_head')} {self.n_head} does not divide {option('n_embd')} "
                f"{self.n_embd}: every head is equally wide"
            )
        self._check_micro_batches()
        self._check_sizes()

    def _check_micro_batches(self) -> None:
        if self.micro_batches > self.batch:
            raise ConfigError(
                f"{option('micro_batches')} {self.micro_batches} are more than the {self.batch} "
                "documents of a step: ask for fewer, or for more documents with --batch"
            )
        if self.micro_batches > 1 and self.engine == "value":
            raise ConfigError(
                "the value engine computes a step as a whole: leave --workers and "
                f"{option('micro_batches')} out, or use --engine tensor"
            )

    def _check_sizes(self) -> None:
        """Refuse what no machine holds before anything of that size is made."""
        weights = self.n_embd * (12 * self.n_layer * self.n_embd + self.block_size)
        if weights > _WEIGHTS:
            raise ConfigError(
                f"{option('n_layer')} {self.n_layer}, {option('n_embd')} {self.n_embd} and "
                f"{option('block_size')} {self.block_size} make a model of {weights:,} weights: "
                f"at most {_WEIGHTS:,} are trained here"
            )
        if self.batch * self.block_size > _POSITIONS:
            raise ConfigError(
                f"--batch {self.batch} of {option('block_size')} {self.block_size} characters each "
                f"are more than the {_POSITIONS:,} that a step reads: make one of them smaller"
            )

    def model(self, vocab_size: int) -> GPTConfig:
        """The model's configuration for so many tokens."""
        sizes = {"n_layer": self.n_layer, "n_head": self.n_head, "n_embd": self.n_embd}
        return _STYLES[self.style](vocab_size, block_size=self.block_size, **sizes)

    def rate(self, step: int) -> float:
        """The learning rate of step 0, 1, .."""
        factor = SCHEDULES[self.schedule](self.steps) * WarmUp(self.warmup + 1)
        return self.lr * factor(step)

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Settings:
        """The settings that `to_dict` gave; `ConfigError` if they are others."""
        names = {f.name for f in fields(cls)}
        odd_names = (set(saved) ^ names) - (_ADDED - set(saved))
        if odd_names:
            odd = ", ".join(sorted(odd_names))
            raise ConfigError(f"these are not the settings of a run, see: {odd:.200}")
        return cls(**saved)


PRESETS = {
    # the run that published figures of microgpt are of: one document a step, Adam, straight decay
    "microgpt": Settings(
        "microgpt", "microgpt", n_layer=1, n_head=4, n_embd=16, block_size=16, steps=1000, batch=1,
        lr=0.01, schedule="linear", warmup=0, beta1=0.85, beta2=0.99, eps=1e-8, weight_decay=0.0,
        dtype="float64",
    ),
    # GPT-2's ingredients at a size that learns names in seconds
    "gpt2": Settings(
        "gpt2", "gpt2", n_layer=3, n_head=4, n_embd=64, block_size=16, steps=1000, batch=32,
        lr=5e-3, schedule="cosine", warmup=50, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1,
        dtype="float32",
    ),
}  # fmt: skip
"""What `--preset` names; single options change single settings of it."""


def best_engine() -> str:
    """The fastest engine that runs here: the compiled one needs LLVM."""
    return "compiled" if is_installed("llvmlite") else "tensor"


def new_settings(asked: Mapping[str, Any]) -> Settings:
    """The settings of a new run, from the options that were given (all others absent).

    Without a preset: `gpt2` for the names in the package, `microgpt` for a file or the value
    engine. Of the names in the package a tenth is held out. Of a file nothing is: its run may have
    to match another one's number for number. The value engine implies float64. Steps are compiled
    where there is a compiler.
    """
    own_names = asked.get("data") is None
    implied: dict[str, Any] = {"engine": best_engine()}
    value = asked.get("engine") == "value"
    preset = asked.get("preset") or ("gpt2" if own_names and not value else "microgpt")
    _one_of("preset", preset, tuple(PRESETS))
    implied["holdout"] = 0.1 if own_names else 0.0
    if value:
        implied["dtype"] = "float64"
    return replace(PRESETS[preset], **{**implied, **asked, "preset": preset})
