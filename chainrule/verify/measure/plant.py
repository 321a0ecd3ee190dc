"""A wrong gradient that the same trials must catch: what shows that they can."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.verify.diagnose import diagnose
from chainrule.verify.evidence import Evidence
from chainrule.verify.ledger import Planted
from chainrule.verify.measure import shrink
from chainrule.verify.measure.captured_point import captured_base, probe_around
from chainrule.verify.measure.run import LateError, Run, UnusableError
from chainrule.verify.subject import Array, Subject, wanted

FACTOR = 1.001
PATIENCE = 20.0
"""Seconds after which it has not been caught."""


class Spoiled(Subject):
    """A subject whose gradient for one input is multiplied by `FACTOR`."""

    def __init__(self, subject: Subject, k: int) -> None:
        self.name, self.kind, self.inputs = subject.name, subject.kind, subject.inputs
        self.place, self.backward_place = subject.place, subject.backward_place
        self._subject, self._k = subject, k

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The subject's."""
        return self._subject.forward(xs)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """The subject's, spoiled."""
        bars = list(self._subject.pull(xs, gs))
        bar = bars[self._k]
        if bar is not None:
            bars[self._k] = np.asarray(bar) * np.asarray(FACTOR).astype(np.asarray(bar).dtype)
        return tuple(bars)

    @property
    def functions(self) -> list[Callable[..., object]]:
        """The subject's."""
        return self._subject.functions

    @property
    def fixed(self) -> str:
        """The subject's."""
        return self._subject.fixed

    @property
    def own_sizes(self) -> Mapping[int, str]:
        """The subject's."""
        return self._subject.own_sizes


def planted(subject: Subject) -> Planted:
    """Spoil one gradient of a subject that is right, and say whether the trials catch it.

    The input is the last one whose gradient is wanted and not zero.
    """
    what = f"a gradient of {subject.name}"
    for k in reversed(wanted(subject)):
        what = f"the gradient of {subject.inputs[k].name} of {subject.name} times {FACTOR}"
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                caught, named = _try(Spoiled(subject, k), k)
            except (LateError, UnusableError) as error:
                return Planted(what, False, f"could not be tried: {error}")
        if caught:
            return Planted(what, True, named)
    return Planted(what, False, "")


def _try(spoiled: Spoiled, k: int) -> tuple[bool, str]:
    """Whether the trials catch it, and what the rules call it."""
    run = Run(spoiled, Evidence(spoiled), PATIENCE)
    seen = probe_around(run, captured_base(run), thorough=False)
    if not any(k in found.wrong for _, found in seen):
        return False, ""
    shrink.jacobians(run, [(base, found.wrong) for base, found in seen])
    findings = diagnose(run.evidence)
    return True, findings[0].name.code if findings else ""
