"""Guesses become findings: one for each input whose gradient is wrong, its names in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.verify.diagnose.axes import exchange, other_axis, transposition
from chainrule.verify.diagnose.behaviours import guesses_for
from chainrule.verify.diagnose.case import Case, Guess, agreement, guess
from chainrule.verify.diagnose.correct import correction_of
from chainrule.verify.diagnose.lost_summands import coupling, lost_summands
from chainrule.verify.diagnose.regions import region
from chainrule.verify.diagnose.scale import ratio, scale
from chainrule.verify.diagnose.text.cached_values import value_of_first_call
from chainrule.verify.diagnose.text.forward import later_change
from chainrule.verify.diagnose.text.source import line_of
from chainrule.verify.evidence import NOTES, Evidence, Jacobians, Trial
from chainrule.verify.finding import Finding, Heat, Level, Name
from chainrule.verify.measure.run import is_array
from chainrule.verify.place import Place
from chainrule.verify.stopwatch import Stopwatch
from chainrule.verify.subject import Subject

RULES: tuple[Callable[[Case], Iterator[Guess]], ...] = (
    later_change,
    value_of_first_call,
    scale,
    exchange,
    transposition,
    lost_summands,
    other_axis,
    coupling,
    region,
)
"""All rules that look at a pair of Jacobians."""
_NOTES = (*NOTES, "kink")
_WHOLE = ("not_linear", "ignores_cotangent", "stale", "contiguity", "not_deterministic")
"""Misbehaviour that one line spreads to all inputs."""
_CERTAIN = ("dropped", "detached")
"""Nothing comes back at all: whatever else explains a zero explains no more."""
PATIENCE = 30.0
"""Seconds after which no more rules are asked about a subject: its forward is slow."""
_DESCRIPTIVE = 20.0
"""Guesses of this rank and above describe; they are heard if nothing explains."""
_FARTHER = 6.0
"""Names that are so much less plain than the best are not said."""
_MOST_NAMES = 3


def diagnose(evidence: Evidence) -> list[Finding]:
    """Findings on one subject, by input; empty if nothing is wrong.

    A backward that misbehaves whatever the input gives one finding without an input.
    """
    watch = Stopwatch()
    found = _without_repeats([_of_input(evidence, k, watch) for k in _wrong_inputs(evidence)])
    general = [b for b in evidence.behaviours if b.input is None and b.code not in _NOTES]
    if general and not found:
        found = [_finding(evidence, None, None, _guesses(evidence, None, None, watch))]
    return [*found, *_notes(evidence)]


def _without_repeats(found: list[Finding]) -> list[Finding]:
    """Without unnamed findings that a misbehaviour of the whole backward explains."""
    if not any(f.name.code in _WHOLE for f in found):
        return found
    return [f for f in found if f.name.code != "unnamed"]


def _wrong_inputs(evidence: Evidence) -> list[int]:
    trials = {t.input for t in evidence.trials if t.verdict == "wrong"}
    behaviours = {b.input for b in evidence.behaviours if b.code not in _NOTES}
    straight = {b.input for b in evidence.behaviours if b.code == "straight_through"}
    return sorted((trials | {k for k in behaviours if k is not None}) - straight)


def _of_input(evidence: Evidence, k: int, watch: Stopwatch) -> Finding:
    jacobians = [j for j in evidence.jacobians if j.input == k]
    worst = max(jacobians, key=_relative, default=None)
    case = Case(evidence, worst) if worst is not None else None
    return _finding(evidence, k, case, _guesses(evidence, k, case, watch))


def _relative(found: Jacobians) -> float:
    relative = found.relative
    return relative if relative == relative else float("inf")


def _guesses(evidence: Evidence, k: int | None, case: Case | None, watch: Stopwatch) -> list[Guess]:
    """All that fits, the plainest first, each code once. When the time is up, no more rules are
    asked."""
    found = list(_guesses_of_behaviours(evidence, k))
    if case is not None and case.finite:
        for rule in RULES:
            if watch.is_over(PATIENCE):
                evidence.skipped.append(
                    ("more names", f"it took more than {PATIENCE:.0f} s so far")
                )
                break
            found += _ask_rule(rule, case)
    found.sort(key=lambda g: g.rank)
    once = {g.name.code: g for g in reversed(found)}
    kept = [g for g in found if once[g.name.code] is g]
    if kept and kept[0].name.code in _CERTAIN:
        return kept[:1]
    if kept and kept[0].rank < _DESCRIPTIVE:
        most = min(kept[0].rank + _FARTHER, _DESCRIPTIVE)
        kept = [g for g in kept if g.rank < most]
    return kept[:_MOST_NAMES]


def _guesses_of_behaviours(evidence: Evidence, k: int | None) -> Iterator[Guess]:
    for behaviour in evidence.behaviours:
        if behaviour.code not in _NOTES and behaviour.input in (k, None):
            yield from guesses_for(evidence, behaviour)


def _ask_rule(rule: Callable[[Case], Iterator[Guess]], case: Case) -> list[Guess]:
    """A rule's guesses. One that fails says nothing; the others can still name the mistake."""
    try:
        return list(rule(case))
    except Exception as error:
        why = f"the rule {rule.__name__} failed: {type(error).__name__}: {error}"
        case.evidence.skipped.append(("a name", why))
        return []


def _finding(
    evidence: Evidence, k: int | None, case: Case | None, guesses: Sequence[Guess]
) -> Finding:
    """The finding for input `k` of all guesses about it, the likeliest first."""
    subject = evidence.subject
    named = guesses or [guess("unnamed", 99.0, "no mistake that is known explains the difference")]
    error, tolerance = _wrongness(evidence, k)
    place = _place(subject, k, named[0])
    return Finding(
        level=_level(evidence, k, guesses),
        subject=subject.name,
        kind=subject.kind,
        input="" if k is None else subject.inputs[k].name,
        names=_names(named),
        place=place,
        error=error,
        tolerance=tolerance,
        evidence=sentences(evidence, k, case, bool(guesses)),
        correction=None if k is None else correction_of(evidence, k, guesses),
        heat=_heat(case),
    )


def _place(subject: Subject, k: int | None, best: Guess) -> Place | None:
    """The line to look at: the forward's if it spoils what the backward reads, the one that raises,
    else where the gradient is computed."""
    if best.name.code in ("stale", "wrong_value", "raises") and best.place is not None:
        return best.place
    return line_of(subject, k) or best.place or subject.place


def _level(evidence: Evidence, k: int | None, guesses: Sequence[Guess]) -> Level:
    """What only writes where it should not is a warning as long as its own gradient is right."""
    wrong = any(t.verdict == "wrong" and k in (None, t.input) for t in evidence.trials)
    only_writes = bool(guesses) and all(g.name.code == "writes" for g in guesses)
    return "warning" if only_writes and not wrong else "error"


def _names(guesses: Sequence[Guess]) -> tuple[Name, ...]:
    if len(guesses) == 1 and guesses[0].name.code != "factor":
        return (replace(guesses[0].name, apart=""),)
    return tuple([g.name for g in guesses])


def _wrongness(evidence: Evidence, k: int | None) -> tuple[float | None, float | None]:
    trials = [t for t in evidence.trials if t.verdict == "wrong" and k in (None, t.input)]
    worst = max(trials, key=lambda t: t.error, default=None)
    return (None, None) if worst is None else (worst.error, worst.tolerance)


def _heat(case: Case | None) -> Heat | None:
    if case is None or not case.has_all_elements:
        return None
    point: list[tuple[str, Any]] = [
        (x.name, value if is_array(value) else repr(value))
        for x, value in zip(case.subject.inputs, case.xs, strict=False)
    ]
    found = case.jacobians
    return Heat(case.A, case.N, found.y_shape, found.x_shape, found.bound, tuple(point), case.k)


def _notes(evidence: Evidence) -> Iterator[Finding]:
    """What is good to know: kinks at the captured point, made-up gradients of steps."""
    subject = evidence.subject
    for behaviour in evidence.behaviours:
        if behaviour.code in _NOTES:
            k = behaviour.input
            name = "" if k is None else subject.inputs[k].name
            names = (Name(behaviour.code, behaviour.says),)
            place = subject.backward_place or subject.place
            yield Finding("note", subject.name, subject.kind, name, names, place)
    seen = {t.input for t in evidence.trials if t.verdict == "kink" and t.point == "as captured"}
    for k in sorted(seen):
        name = subject.inputs[k].name
        said = f"the forward has a kink at this {name}; any slope between its sides is right"
        yield Finding("note", subject.name, subject.kind, name, (Name("kink", said),))


_POINTS = 3
"""Points that are named; others are counted."""


def sentences(evidence: Evidence, k: int | None, case: Case | None, named: bool) -> tuple[str, ...]:
    """Facts on the gradient of input k."""
    said = list(_points([t for t in evidence.trials if k is None or t.input == k]))
    said += [b.says for b in evidence.behaviours if b.input in (k, None)]
    if case is not None and case.finite:
        said += _difference(case)
        if not named:
            said += _shape_of(case)
    return tuple(dict.fromkeys(said))


def _points(trials: list[Trial]) -> Iterator[str]:
    wrong = list(dict.fromkeys([t.point for t in trials if t.verdict == "wrong"]))
    all_right = dict.fromkeys([t.point for t in trials if t.verdict == "right"])
    right = [p for p in all_right if p not in wrong]
    if wrong:
        every = "" if right else "every point tried: "
        tail = f"; right at these: {_list_points(right)}" if right else ""
        yield f"wrong at {every or 'these points: '}{_list_points(wrong)}{tail}"


def _list_points(points: list[str]) -> str:
    more = f", and {len(points) - _POINTS} more" if len(points) > _POINTS else ""
    return ", ".join(points[:_POINTS]) + more


def _difference(case: Case) -> Iterator[str]:
    i, j = np.unravel_index(int(np.argmax(np.abs(case.D))), case.D.shape)
    if not case.has_all_elements:
        yield f"the backward says {case.A[i, j]:.6g} where {case.N[i, j]:.6g} is true"
        return
    y_at = [int(n) for n in np.unravel_index(int(i), case.jacobians.y_shape)]
    x_at = [int(n) for n in np.unravel_index(int(j), case.jacobians.x_shape)]
    yield (
        f"d y{y_at} / d {case.input}{x_at}: the backward says {case.A[i, j]:.6g}, "
        f"true is {case.N[i, j]:.6g}"
    )


def _shape_of(case: Case) -> Iterator[str]:
    yield f"{agreement(case):.0%} of the elements of the Jacobian agree"
    rank = int(np.linalg.matrix_rank(case.D, tol=1e-6 * float(np.linalg.norm(case.D, 2))))
    yield f"the difference has rank {rank} (size {case.D.shape[0]} by {case.D.shape[1]})"
    c = ratio(case.A, case.N)
    if c is not None:
        yield f"the nearest multiple of the right gradient is {c:.4g} times it"
