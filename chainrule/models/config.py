"""GPTConfig: everything that tells one GPT from another, as one frozen value.

Notation: V tokens, T positions, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from chainrule.errors import ConfigError

_SIZES = ("vocab_size", "block_size", "n_layer", "n_head", "n_embd", "mlp_ratio")
_CHOICES = {"norm": ("rms", "layer"), "activation": ("relu", "gelu")}


@dataclass(frozen=True)
class GPTConfig:
    """The shape and ingredients of a GPT; `ConfigError` says in a sentence what makes no sense.

    `vocab_size` V, `block_size` (the most positions), `n_layer`, `n_head` and `n_embd` C are sizes;
    the feed-forward pairs are `mlp_ratio` C wide. `norm` is "rms" or "layer", with weights (and,
    for "layer" with `bias`, biases) if `norm_affine`; it stands before attention and feed-forward,
    after the embeddings if `embedding_norm`, before the head if `final_norm`. `activation` is
    "relu" or "gelu" (the tanh form). With `tied` the head is the token embedding. Weights start
    normal with deviation `init_std`; with `scaled_init` those that end a residual branch are
    divided by the root of the number of branches (Radford et al. 2019, section 2.3).

    >>> from chainrule.models.gpt import GPTConfig
    >>> config = GPTConfig.microgpt(27)
    >>> config.n_layer, config.n_embd, config.block_size
    (1, 16, 16)
    """

    vocab_size: int
    block_size: int
    n_layer: int = 1
    n_head: int = 4
    n_embd: int = 16
    mlp_ratio: int = 4
    norm: str = "rms"
    norm_affine: bool = False
    norm_eps: float = 1e-5
    embedding_norm: bool = True
    final_norm: bool = False
    bias: bool = False
    activation: str = "relu"
    tied: bool = False
    dropout: float = 0.0
    init_std: float = 0.08
    scaled_init: bool = False

    def __post_init__(self) -> None:
        for name in _SIZES:
            size = getattr(self, name)
            if type(size) is not int or size < 1:
                raise ConfigError(f"{name} is a positive integer, not {size!r}.")
        if self.n_embd % self.n_head:
            raise ConfigError(f"n_head={self.n_head} does not divide n_embd={self.n_embd} evenly.")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} is one of {choices}, not {getattr(self, name)!r}.")
        for name, kind in (("norm_eps", float), ("dropout", float), ("init_std", float)):
            value = getattr(self, name)
            if not isinstance(value, int | kind) or not 0 <= value < math.inf:
                raise ConfigError(f"{name} is a number that is not negative, not {value!r}.")
        if self.dropout >= 1:
            raise ConfigError(f"dropout is a probability below 1, not {self.dropout}.")

    @classmethod
    def microgpt(cls, vocab_size: int, block_size: int = 16, **changes: Any) -> GPTConfig:
        """microgpt: RMSNorm without weights, no biases, ReLU, an untied head, no final norm.

        4,192 parameters for 27 tokens and 16 positions, 4,064 for 8. `changes` are other fields.
        """
        return cls(vocab_size, block_size, **changes)

    @classmethod
    def gpt2(cls, vocab_size: int, block_size: int = 1024, **changes: Any) -> GPTConfig:
        """GPT-2: LayerNorm, biases, GELU, a tied head, a final norm, scaled residual branches.

        By default its smallest size, 12 layers of 12 heads and 768 channels: 124,439,808 parameters
        for 50,257 tokens. `changes` are other fields. Radford et al. 2019, section 2.3.
        """
        shape: dict[str, Any] = {"n_layer": 12, "n_head": 12, "n_embd": 768}
        style: dict[str, Any] = {
            "norm": "layer", "norm_affine": True, "embedding_norm": False, "final_norm": True,
            "bias": True, "activation": "gelu", "tied": True, "init_std": 0.02, "scaled_init": True,
        }  # fmt: skip
        return cls(vocab_size, block_size, **{**shape, **style, **changes})

    @property
    def branch_std(self) -> float:
        """Deviation of the weights that end a residual branch, of which a layer has two."""
        return self.init_std / math.sqrt(2 * self.n_layer) if self.scaled_init else self.init_std

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GPTConfig:
        """The config whose `to_dict` gave `values`; unknown and missing names are an error."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(values) - known)
        missing = sorted({"vocab_size", "block_size"} - set(values))
        if unknown or missing:
            wrong = (
                f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
            )
            raise ConfigError(f"these are not the settings of a GPT, {wrong}.")
        return cls(**values)
