"""A student that learns what a teacher says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    at_labels,
    log_softmax,
    reductions,
    softmax,
    totals,
)


def _soft_terms(student: Array, teacher: Array, temperature: float) -> Array:
    log_p, log_q = log_softmax(teacher / temperature), log_softmax(student / temperature)
    return np.exp(log_p) * (log_p - log_q)


def _distillation(student: Array, teacher: Array, temperature: float) -> Iterator[Array]:
    """Divergence or cross entropy."""
    yield from reductions(_soft_terms(student, teacher, temperature))
    p = softmax(teacher / temperature)
    yield from reductions(-p * log_softmax(student / temperature))


def _hard_and_soft(
    student: Array, teacher: Array, labels: Array, temperature: float, alpha: float
) -> Iterator[Array]:
    """The share is that of the soft part, or of the hard one."""
    hard = -at_labels(log_softmax(student), labels).mean()
    divergence = _soft_terms(student, teacher, temperature)
    p = softmax(teacher / temperature)
    entropy = -p * log_softmax(student / temperature)
    for soft in (divergence, entropy):
        for x in (soft.sum(axis=-1).mean(), soft.mean()):
            t = temperature**2 * x
            yield from (alpha * t + (1 - alpha) * hard, alpha * hard + (1 - alpha) * t)
            yield from (hard + alpha * t, t + alpha * hard)


def _self_distillation(
    student: Array, teacher: Array, center: Array, student_t: float, teacher_t: float
) -> Iterator[Array]:
    p = softmax((teacher - center) / teacher_t)
    yield from totals(-(p * log_softmax(student / student_t)).sum(axis=-1))


_HINTON = "Hinton, Vinyals and Dean, Distilling the knowledge in a neural network, 2015, section 2"
_SOFT_WORDS = ("distill*", "kd", "teacher", "student")

ROWS = (
    Formula("distillation of soft targets", _SOFT_WORDS,
            "student[n c], teacher[n c], temperature[]", _distillation, _HINTON, "factor"),
    Formula("distillation of hard and soft targets", _SOFT_WORDS,
            "student[n c], teacher[n c], labels[n]:int, temperature[], alpha[]", _hard_and_soft,
            _HINTON, "factor"),
    Formula("DINO loss", ("dino*", "teacher"),
            "student[n c], teacher[n c], center[c], student_t[], teacher_t[]",
            _self_distillation, "Caron et al., Emerging properties in self-supervised vision "
            "transformers, 2021", "factor"),
)  # fmt: skip
"""Rows of this theme."""
