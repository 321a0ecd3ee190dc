"""A subject while it is examined: every call of its forward or backward goes through here.

Calls are counted, their floating-point warnings are nobody's business, and what comes out is copied
and widened to float64 or complex128, so that all that follows is float64 arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from chainrule.engine import dtypes
from chainrule.verify.evidence import Behaviour, Evidence, Trial
from chainrule.verify.stopwatch import Stopwatch
from chainrule.verify.subject import Array, Subject, wanted

SEED = 20_240_229
PATIENCE = 60.0
"""Seconds after which a subject is evaluated no more: one that solves an equation is slow."""


class UnusableError(Exception):
    """A point at which nothing can be measured; the message says why."""


class LateError(Exception):
    """The subject has been evaluated for so long that it is left; the message says how long. What
    was not settled by then stays open: this is no property of a point."""


Bars = tuple[Array | None, ...]
"""One gradient for each input; None where none came."""


class BackwardError(UnusableError):
    """The backward raises where the forward works; the message says what."""


@dataclass(frozen=True, eq=False)
class Point:
    """Values of all inputs at which the backward is compared."""

    name: str
    """To read: "as captured"."""
    xs: tuple[Any, ...]
    kind: str
    """captured, moved, size, aspect, remainder, sign, value or dtype: what it varies."""
    judged: frozenset[int] | None = None
    """Inputs whose gradients have to be right there; None for all."""


class Run:
    """A subject, the evidence that is gathered of it, and a random stream of its own."""

    def __init__(self, subject: Subject, evidence: Evidence, patience: float = PATIENCE) -> None:
        self.subject = subject
        self.evidence = evidence
        self.wanted = wanted(subject)
        self.rng = np.random.default_rng(SEED)
        self._watch, self._patience = Stopwatch(), patience

    def raw(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Outputs as they are; whatever the forward raises becomes `UnusableError`."""
        self._count()
        try:
            with np.errstate(all="ignore"):
                ys = self.subject.forward(xs)
            return tuple([np.asarray(y) for y in ys])
        except Exception as error:
            raise UnusableError(f"forward raises {in_one_line(error)}") from error

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Outputs, widened, and copied: a forward may hand out the same buffer every time."""
        return tuple([wide(y) for y in self.raw(xs)])

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> Bars:
        """x_bars, widened, None where none came; what is raised becomes `BackwardError`."""
        bars = self._asked(lambda: self.subject.pull(xs, [np.asarray(g) for g in gs]))
        assert bars is not None
        return bars

    def interrupted(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> Bars | None:
        """See `Subject.interrupted`; widened, and errors as for `pull`."""
        return self._asked(lambda: self.subject.interrupted(xs, others, gs))

    def repeated(self, xs: Sequence[Any], gs: Sequence[Array]) -> Bars | None:
        """See `Subject.repeated`; widened, and errors as for `pull`."""
        return self._asked(lambda: self.subject.repeated(xs, gs))

    def resumed(self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]) -> Bars | None:
        """See `Subject.resumed`; widened, and errors as for `pull`."""
        return self._asked(lambda: self.subject.resumed(xs, others, gs))

    def _asked(self, ask: Callable[[], Bars | None]) -> Bars | None:
        self._count()
        try:
            with np.errstate(all="ignore"):
                bars = ask()
        except Exception as error:
            raise BackwardError(in_one_line(error)) from error
        if bars is None:
            return None
        return tuple([None if b is None else wide(np.asarray(b)) for b in bars])

    def _count(self) -> None:
        """One more evaluation; `LateError` if there were enough."""
        if self._watch.is_over(self._patience):
            n = self.evidence.evaluations
            raise LateError(f"{n} evaluations took {self._patience:.0f} s, {self.pace:.2g} s each")
        self.evidence.evaluations += 1

    @property
    def pace(self) -> float:
        """Seconds for one evaluation, with all that goes with it, so far."""
        return self._watch.seconds / max(self.evidence.evaluations, 1)

    def note(self, *trials: Trial) -> None:
        """Keep trials."""
        self.evidence.trials.extend(trials)

    def behaves(self, code: str, k: int | None, says: str, **data: Any) -> None:
        """Keep a behaviour, one of a kind for each input."""
        if not self.was_reported(code, k):
            self.evidence.behaviours.append(Behaviour(code, k, says, data))

    def was_reported(self, code: str, k: int | None) -> bool:
        """Whether that behaviour has been seen."""
        return any(b.code == code and b.input == k for b in self.evidence.behaviours)

    def wrong(self, k: int) -> bool:
        """Whether a gradient of input k has been found wrong."""
        return any(t.input == k and t.verdict == "wrong" for t in self.evidence.trials)

    def wrong_at(self, point: str) -> tuple[int, ...]:
        """Inputs whose gradient is wrong at a point."""
        trials = self.evidence.trials
        return tuple(sorted({t.input for t in trials if t.point == point and t.verdict == "wrong"}))

    def doubt(self, point: str, k: int, close: float = 0.0) -> None:
        """Take back what was said to be wrong at a point of input k's gradient. What is off by no
        more than `close` is right."""
        trials = self.evidence.trials
        for i, t in enumerate(trials):
            if (t.point, t.input, t.verdict) != (point, k, "wrong"):
                continue
            if t.error <= close:
                trials[i] = replace(t, tolerance=close, verdict="right")
            else:
                trials[i] = replace(t, verdict="unsure")

    def skip(self, what: str, why: str) -> None:
        """Say what was not looked at."""
        if (what, why) not in self.evidence.skipped:
            self.evidence.skipped.append((what, why))


def wide(x: Array) -> Array:
    """A copy as float64 or complex128; whole numbers and bools too."""
    return np.array(x, dtype=np.complex128 if x.dtype.kind == "c" else np.float64)


def is_array(x: Any) -> TypeGuard[Array]:
    """Whether x is an array."""
    return isinstance(x, np.ndarray)


def inexact(x: Any) -> TypeGuard[Array]:
    """Whether x is an array of floats (bfloat16 too) or complex numbers."""
    return is_array(x) and x.dtype.kind in dtypes.INEXACT


def epsilon(dtype: np.dtype[Any]) -> float:
    """The spacing of numbers near 1, relative."""
    if dtype.kind == "V":
        return 2.0**-7  # bfloat16, of which NumPy's finfo knows nothing
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


def norm(x: Array) -> float:
    """Euclidean norm over all elements."""
    return float(np.linalg.norm(x.reshape(-1)))


def inner(a: Array, b: Array) -> float:
    """Real inner product Re<a, b>, in which gradients of complex arrays are gradients."""
    return float(np.vdot(a, b).real)


def rms(x: Array) -> float:
    """Root of the mean square; 0 for nothing."""
    return norm(x) / float(np.sqrt(x.size)) if x.size else 0.0


def in_one_line(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
