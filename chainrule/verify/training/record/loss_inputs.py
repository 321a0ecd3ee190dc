"""What an op was fed with that expects values of one domain: logits, probabilities, or their
logarithms; and which op had made these values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chainrule.verify.training.record.engine import Engine

SQUASH = frozenset({"softmax", "log_softmax", "sigmoid", "logsigmoid"})
"""Ops that make probabilities of logits, or logarithms of them."""
LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "kl_div",
     "soft_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss"}
)  # fmt: skip
"""Losses by what they expect of a prediction: see the part that judges them."""
EXPECT = SQUASH | LOSSES


class Maker(NamedTuple):
    """The op that has made a value, but for those that only look at it in another way."""

    name: str
    """As ops are called; "exp", "softplus" and others as well, empty for a leaf."""
    key: int
    """Tells it from others of the same step."""


class LossInput(NamedTuple):
    """An op of `EXPECT` ran, with a graph."""

    engine: Engine
    name: str
    x: Any
    """Its prediction, or its argument."""
    maker: Maker
    """Of `x`."""
    key: int
    """As that of a `Maker` that this op is, if it is one."""
    target: Any
    settings: Mapping[str, Any]
    """What else it was called with."""


class Selected(NamedTuple):
    """Logarithms of probabilities, or these, met what says which of them are meant: a constant that
    they are multiplied by, or indices along an axis."""

    engine: Engine
    x: Any
    maker: Maker
    over: int
    """The axis along which they add up to one."""
    weights: Any
    """The constant; None where there are indices."""
    axis: int
    """That of the indices; -1 where there is a constant."""
