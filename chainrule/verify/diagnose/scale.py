"""A = c N: a sign, a forgotten or doubled factor, a mean where a sum belongs, nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from chainrule.verify.diagnose import constants, measure
from chainrule.verify.diagnose.case import Case, Guess, Mend, Pull, guess
from chainrule.verify.diagnose.constants import Constant
from chainrule.verify.evidence import Evidence
from chainrule.verify.measure.noise import base_at
from chainrule.verify.measure.points import sizes
from chainrule.verify.measure.run import Point, Run, UnusableError
from chainrule.verify.subject import Array

_APART = 0.01
"""Readings of a number differ by more at other lengths; float32 shows no more digits."""
_FEW = 3
"""Jacobians with fewer elements are a multiple of each other too easily."""


def scale(case: Case) -> Iterator[Guess]:
    """Guesses for a Jacobian that is right up to one number, or a conjugation."""
    if np.iscomplexobj(case.N) and case.explains(case.N.conj()):
        yield _conjugate(case)
        return
    c = ratio(case.A, case.N)
    if c is None or not case.explains(c * case.N, c):
        return
    if np.all(case.tiny_A):
        if len(case.ys) > 1 and not nothing_at(case, case.xs, whole=True):
            yield from output_without_part(case)
        elif _is_nothing(case):
            yield no_gradient(case)
    elif constants.is_near(c, -1.0):
        yield _sign(case, c)
    else:
        yield from _factor(case, c)


def ratio(a: Array, n: Array) -> float | None:
    """The real c for which c n is nearest to a; None if n is zero."""
    square = float(np.real(np.vdot(n, n)))
    return float(np.real(np.vdot(n, a))) / square if square else None


def no_gradient(case: Case) -> Guess:
    """Nothing comes back for an input on which the output depends."""
    own = case.subject.backward_place is not None
    size = float(np.max(np.abs(case.N), initial=0.0))
    return guess(
        "dropped" if own else "detached",
        0.0,
        f"A = 0, N is up to {size:.3g}",
        f"the backward gives nothing for {case.input}, on which the output depends",
        left=case.unexplained(0 * case.N),
        formula=f"return a gradient for {case.input}: it has one",
    )


def _is_nothing(case: Case) -> bool:
    """Whether nothing comes back at the captured point, either, nor for larger values."""
    xs = measure.captured_point(case.subject)
    larger = measure.with_input(xs, case.k, 10 * np.asarray(xs[case.k]))
    return nothing_at(case, xs) and _or_fails(case, larger)


def _or_fails(case: Case, xs: Sequence[Any]) -> bool:
    try:
        return nothing_at(case, xs)
    except Exception:
        return True  # Outside of the forward's domain: it has no word in this.


def nothing_at(case: Case, xs: Sequence[Any], whole: bool = False) -> bool:
    """Whether nothing comes back at a point for the case's output, or `whole`, for any."""
    rng = np.random.default_rng(7)
    ys = measure.outputs(case.subject, xs)
    o = case.jacobians.output
    every = [measure.normal_array(rng, y.shape) for y in ys]
    gs = every if whole else measure.one_output(ys, o, every[o])
    return not np.any(measure.pull(case.subject, xs, gs, case.k))


def _conjugate(case: Case) -> Guess:
    return guess(
        "wrong_value",
        1.5,
        f"A is the conjugate of N, leaving {case.unexplained(case.N.conj()):.0e} of the difference",
        f"{case.input}_bar is multiplied by a value where its conjugate belongs, or the reverse",
        left=case.unexplained(case.N.conj()),
        formula="conjugate the derivative: x_bar = g * conj(dy/dx)",
    )


def _sign(case: Case, c: float) -> Guess:
    return guess(
        "sign",
        1.0,
        _fit_in_words(case, c),
        f"the gradient of {case.input} is the right one times -1",
        left=case.unexplained(-case.N),
        formula=f"{case.input}_bar = -({case.input}_bar as it is now)",
        mend=lambda pull, xs, gs: -pull(xs, gs),
    )


def _factor(case: Case, c: float) -> Iterator[Guess]:
    """The guess that the gradient has a factor too much, by name if the factor has one."""
    fitting = named_factors(case, c, partial(_ratio_at, case))
    if fitting:
        best, *rest = fitting
        yield _guess_of_factor(case, c, best, rest)
    elif int(np.sum(~case.tiny_N)) >= _FEW:
        yield guess(
            "factor",
            40.0,
            _fit_in_words(case, c),
            f"the factor {c:.6g} is no number at hand",
            left=case.unexplained(c * case.N),
            formula=f"divide {case.input}_bar by {c:.6g}",
            mend=lambda pull, xs, gs: pull(xs, gs) / c,
        )


def _guess_of_factor(case: Case, c: float, best: Constant, rest: Sequence[Constant]) -> Guess:
    others = ", ".join(dict.fromkeys([r.text for r in rest[:3]]))
    return guess(
        "factor",
        2.0 + best.plainness / 10,
        _fit_in_words(case, c),
        f"the factor is {best.text} = {c:.4g}",
        left=case.unexplained(c * case.N),
        formula=_correction_in_words(case.input, best),
        mend=dividing_by(case, best),
        apart=f"a point at which {best.text} and {others} differ" if others else "",
    )


def _fit_in_words(case: Case, c: float) -> str:
    return f"A = {c:.6g} N leaves {case.unexplained(c * case.N):.0e} of the difference"


def _correction_in_words(name: str, c: Constant) -> str:
    text = c.text.removeprefix("-")
    if text.startswith("1/"):
        what = text.removeprefix("1/").removeprefix("(").removesuffix(")")
        what = what if what.count("(") == what.count(")") else text.removeprefix("1/")
        done = f"multiply {name}_bar by {what} = {1 / abs(c.value):.4g}"
    else:
        done = f"divide {name}_bar by {text} = {abs(c.value):.4g}"
    return done + (", and turn its sign" if c.value < 0 else "")


def dividing_by(case: Case, c: Constant) -> Mend:
    """The correction that divides by c, at any point."""

    def mend(pull: Pull, xs: Sequence[Any], gs: Sequence[Array]) -> Array:
        at_hand = constants.symbols(case.subject, xs, gs, case.k)
        return pull(xs, gs) / constants.value_of(c, at_hand)

    return mend


def named_factors(
    case: Case, c: float, measured: Callable[[Sequence[Any]], float]
) -> list[Constant]:
    """What c could be, also by what is `measured` at other points, until one reading is left."""
    found = constants.recognise(c, constants.symbols(case.subject, case.xs, case.ys, case.k))
    for xs in _other_points(case):
        if len({f.text for f in found}) < 2:
            break
        with suppress(Exception):  # The point is another one; the finding stands without it.
            found = _fitting_at(case, found, measured(xs), xs)
    return found


def _fitting_at(
    case: Case, found: Sequence[Constant], value: float, xs: Sequence[Any]
) -> list[Constant]:
    """Those of some readings that give what was measured at another point."""
    at_hand = constants.symbols(case.subject, xs, measure.outputs(case.subject, xs), case.k)
    return [f for f in found if abs(constants.value_of(f, at_hand) - value) <= _APART * abs(value)]


def _other_points(case: Case) -> Iterator[Sequence[Any]]:
    """Points of other shapes than the case's: the captured one, and one of other lengths."""
    subject, xs = case.subject, measure.captured_point(case.subject)
    if measure.shapes(xs) != measure.shapes(case.xs):
        yield xs
    if not subject.fixed:
        run = Run(subject, Evidence(subject))
        with suppress(UnusableError):
            base = base_at(run, Point("as captured", xs, "captured"))
            yield from [point.xs for point in islice(sizes.others(run, base), 1)]


def _ratio_at(case: Case, xs: Sequence[Any]) -> float:
    rng = np.random.default_rng(5)
    ys = measure.outputs(case.subject, xs)
    o = case.jacobians.output
    gs = measure.one_output(ys, o, measure.normal_array(rng, ys[o].shape))
    x_bar = measure.pull(case.subject, xs, gs, case.k)
    t = x_bar / (float(np.max(np.abs(x_bar), initial=0.0)) or 1.0)
    true, _ = measure.slope(case.subject, xs, case.k, t, gs)
    return measure.inner(x_bar, t) / true


# What comes in for one of several outputs has no part in what comes back.


def output_without_part(case: Case) -> Iterator[Guess]:
    """A guess where A = 0 for one output, and not for others."""
    o = case.jacobians.output
    formula = f"add what comes back from y[{o}] to {case.input}_bar"
    because = f"A = 0 for y[{o}], and not for other outputs"
    yield guess(
        "missing_term",
        0.5,
        because,
        f"the cotangent of y[{o}] has no part in {case.input}_bar",
        left=case.unexplained(0 * case.N),
        formula=formula,
    )
