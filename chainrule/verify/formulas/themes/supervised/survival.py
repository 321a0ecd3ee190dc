"""Likelihoods of times until an event, some of which are only known to be later."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    log_sum_exp,
    one_hot,
    reductions,
    softplus,
    totals,
)


def _cox(risk: Array, time: Array, event: Array) -> Iterator[Array]:
    """Breslow's form: of ties, each meets all."""
    later = time[None] >= time[:, None]
    at_risk = log_sum_exp(np.where(later, risk[None], -np.inf))
    yield from reductions(-event * (risk - at_risk))


def _cox_sorted(risk: Array, event: Array) -> Iterator[Array]:
    """From the latest time to the first."""
    yield from reductions(-event * (risk - np.logaddexp.accumulate(risk)))


def _weibull(scale: Array, shape: Array, time: Array, event: Array) -> Iterator[Array]:
    share = time / scale
    log_hazard = np.log(shape / scale) + (shape - 1) * np.log(share)
    yield from reductions(share**shape - event * log_hazard)


def _discrete_survival(logits: Array, labels: Array, event: Array) -> Iterator[Array]:
    """Hazards of intervals; who has no event has survived its own interval."""
    own = one_hot(labels, logits.shape[-1])
    lived = np.cumsum(own[:, ::-1], axis=1)[:, ::-1]
    at = own * event[:, None]
    loss = at * softplus(-logits) + (lived - at) * softplus(logits)
    yield from reductions(loss)
    yield from totals(loss.sum(axis=-1))


ROWS = (
    Formula("Cox partial likelihood", ("cox*", "hazard*", "risk*", "survival", "censor*"),
            "risk[n], time[n], event[n]:bool", _cox,
            "Cox, Regression models and life-tables, 1972; Breslow 1974", "factor"),
    Formula("Cox partial likelihood of sorted times",
            ("cox*", "hazard*", "risk*", "survival", "censor*"), "risk[n], event[n]:bool",
            _cox_sorted, "Cox, Regression models and life-tables, 1972; Breslow 1974", "factor"),
    Formula("Weibull likelihood of censored times", ("weibull*",),
            "scale[n], shape[n], time[n], event[n]:bool", _weibull,
            "Kalbfleisch and Prentice, The statistical analysis of failure time data, 2002",
            "factor"),
    Formula("discrete-time survival likelihood", ("hazard*", "survival", "censor*"),
            "logits[n k], labels[n]:int, event[n]:bool", _discrete_survival, "Gensheimer and "
            "Narasimhan, A scalable discrete-time survival model, 2019", "factor"),
)  # fmt: skip
"""Rows of this theme."""
