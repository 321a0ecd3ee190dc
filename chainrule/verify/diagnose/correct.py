"""Corrections by formula, tried at the captured values and at the shrunk ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Guess, Mend
from chainrule.verify.evidence import Evidence
from chainrule.verify.finding import Correction
from chainrule.verify.measure.points import settings
from chainrule.verify.measure.run import Point, Run
from chainrule.verify.subject import Array, Subject
from chainrule.verify.tolerances import CLOSE

_LONG = 0.25
"""Seconds: a forward that takes longer is not run dozens of times for a formula."""


def correction_of(evidence: Evidence, k: int, guesses: Sequence[Guess]) -> Correction | None:
    """The first correction that is right when tried; else the best guess's formula, untried.

    If no guess can be tried, but what is derived from the forward is right, that is said.
    """
    tried = [g for g in guesses if g.mend is not None]
    for g in tried:
        error = _error(evidence, k, g.mend) if g.mend is not None else None
        if error is not None and error <= CLOSE:
            return Correction(g.formula, rechecked=True, error=error)
    formula = next((g.formula for g in guesses if g.formula), "")
    error = _error(evidence, k, _by_engine(evidence.subject, k))
    if error is None or error > CLOSE:
        return Correction(formula) if formula else None
    if evidence.subject.backward_place is None:
        whole = formula or "keep the graph whole: no detach(), .data or numpy() on the way"
        return Correction(whole, rechecked=True, error=error)
    said = derivation(evidence.subject, k)
    return Correction(formula, rechecked=True, error=error, derived=said)


def _by_engine(subject: Subject, k: int) -> Mend:
    """What is derived from the forward's own code."""

    def mend(pull: object, xs: Sequence[Any], gs: Sequence[Array]) -> Array:
        x_bars = subject.derived(xs, gs)
        if x_bars is None:
            raise LookupError("the forward cannot be followed")
        x_bar = x_bars[k]
        return np.zeros(np.shape(xs[k])) if x_bar is None else np.asarray(x_bar)

    return mend


def derivation(subject: Subject, k: int) -> str:
    """How to have the right gradient derived from the forward, in code."""
    names, name = ", ".join([x.name for x in subject.inputs]), subject.inputs[k].name
    if "torch" in subject.kind.lower():
        return f"{name}_bar, = torch.autograd.grad(forward({names}), {name}, g)"
    arrays = subject.source is not None and ".numpy()" in subject.source.forward_text
    how = ", the forward written with tensors, without numpy()" if arrays else ""
    return f"{name}_bar = chainrule.vjp(forward, {names})[1](g)[{k}]{how}"


def _error(evidence: Evidence, k: int, mend: Mend) -> float | None:
    """Largest relative disagreement of the corrected gradient with differences; None if it cannot
    be computed."""
    worst: float | None = None
    for subject, xs in _points(evidence, k):
        try:
            error = _error_at(subject, xs, k, mend)
        except Exception:
            return None  # A formula that fails is none; that is no failure of the user's.
        worst = error if worst is None else max(worst, error)
    return worst


def _points(evidence: Evidence, k: int) -> Iterator[tuple[Subject, tuple[Any, ...]]]:
    """The captured point, at its own settings and at others, unless the forward takes long there,
    and the shrunk ones."""
    subject, each = evidence.subject, evidence.seconds / max(evidence.evaluations, 1)
    if each < _LONG or not evidence.jacobians:
        here = Point("as captured", measure.captured_point(subject), "captured")
        yield subject, here.xs
        for other in settings.points(Run(subject, Evidence(subject)), here):
            yield subject, other.xs
        for name, value in settings.varied_settings(subject, here.xs):
            yield subject.at_setting(name, value), here.xs
    yield from [(subject, j.xs) for j in evidence.jacobians if j.input == k][:2]


def _error_at(subject: Subject, xs: tuple[Any, ...], k: int, mend: Mend) -> float:
    rng = np.random.default_rng(23)
    ys = measure.outputs(subject, xs)
    worst = 0.0
    for o, y in enumerate(ys):
        gs = measure.one_output(ys, o, measure.normal_array(rng, y.shape))
        x_bar = mend(lambda x, g: measure.pull(subject, x, g, k), xs, gs)
        if x_bar.shape != np.shape(xs[k]):
            return float("inf")
        size = float(np.max(np.abs(x_bar), initial=0.0)) or 1.0
        for t in (measure.normal_array(rng, x_bar.shape), x_bar / size):
            worst = max(worst, _disagreement(subject, xs, k, t, gs, x_bar))
    return worst


def _disagreement(
    subject: Subject, xs: tuple[Any, ...], k: int, t: Array, gs: Sequence[Array], x_bar: Array
) -> float:
    true, error = measure.slope(subject, xs, k, t, gs)
    said = measure.inner(x_bar, t)
    scale = max(float(np.linalg.norm(x_bar)) * float(np.linalg.norm(t)), abs(true), 1e-300)
    return max(abs(true - said) - 4 * error, 0.0) / scale
