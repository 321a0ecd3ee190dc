"""Which of several numbers is the loss of which a step by hand leaves the gradients, and what of
these is meant otherwise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from chainrule.verify.finding import Finding
from chainrule.verify.script.byhand.combination import combination, explained
from chainrule.verify.script.byhand.slopes import (
    FITS,
    Slopes,
    gradient_fits,
    is_clipped,
    is_count,
    multiple,
    slopes_of,
)
from chainrule.verify.script.byhand.step_text import is_called_loss
from chainrule.verify.subject import Array

if TYPE_CHECKING:
    from chainrule.verify.script.byhand.step import HandStep

_ALIKE = 1e-3
"""How far loss and gradients may be from the script's own, relative: those may be in float32."""
_FALLS = re.compile(r"loss|cost|nll|mse|error|\*\* ?2|square|abs", re.IGNORECASE)
"""What is made small, by its name or as it is computed."""
_SURELY = re.compile(r"[\w.]*(loss|cost|nll|objective|xent)\w*|J|L", re.IGNORECASE)
"""What is called so and by one name, is the loss."""
_NAME = re.compile(r"[^\W\d]\w*")
_NAMED = re.compile(r"[\w.]+")
_CHOOSES = re.compile(r"sign|clip|clamp|maximum|minimum|where|abs|tanh|round|heaviside|[<>]")
"""What makes another loss of one: a part of the code that is no slip."""
_LIKELY = 0.3
"""Cosine from which on gradients may be those of a loss, and wrong."""
_ONE: Final = np.ones(())


class UnlikeError(Exception):
    """The step that was run again is another one, or cannot be judged; the message says why."""


class MeantError(UnlikeError):
    """Gradients are those of the loss, and of more that is meant; the message says what.

    `doubted`: The step, if what is more is not the same for all, so that it may be a slip.
    """

    def __init__(self, why: str, doubted: HandStep | None = None) -> None:
        super().__init__(why)
        self.doubted = doubted


def reproduced_steps(
    steps: Sequence[HandStep], losses: Mapping[str, float], claimed: Sequence[Array]
) -> list[HandStep]:
    """Steps that give, run again, what they gave; raises `UnlikeError` if none does."""
    found, why = list["HandStep"](), ""
    for step in steps:
        try:
            _is_alike(step, losses[step.loss], claimed)
        except Exception as error:
            why = why or f"{type(error).__name__}: {error}"
        else:
            found.append(step)
    if not found:
        raise UnlikeError(f"the step could not be run again as it was: {why}")
    return found


def _is_alike(step: HandStep, loss: float, claimed: Sequence[Array]) -> None:
    """Raise `UnlikeError` if the step, run again, has another loss or other gradients."""
    values = [x.value for x in step.inputs]
    again = float(step.forward(values)[0])
    if not np.isclose(again, loss, rtol=_ALIKE, atol=1e-7):
        raise UnlikeError(f"`{step.loss}` is {again:.6g}, and was {loss:.6g}")
    for x, g, was in zip(step.inputs, step.pull(values, [_ONE]), claimed, strict=True):
        off = float("inf") if g is None else float(np.linalg.norm(g - was))
        if off > _ALIKE * float(np.linalg.norm(was)) + 1e-7:
            raise UnlikeError(f"the gradient of {x.name} is another one")


def likeliest_step(steps: Sequence[HandStep]) -> HandStep:
    """The step of the loss that most gradients are of; raises `UnlikeError` if they are of none, or
    are meant to be others."""
    return _likeliest([_row(step) for step in steps], _called_loss)


def likeliest_step_with_rate(steps: Sequence[HandStep], *, once: bool) -> HandStep:
    """The same where the script multiplies them by a rate of its own: they may be those of a
    multiple of what is only printed, of half a loss, and of what grows. `once`: whether a turn
    updates each parameter once; else it may move on between the parts of what it prints."""
    rows = [row for row in map(_row, steps) if row.is_moved]
    if not rows:
        raise UnlikeError("nothing that is shown depends on its parameters")
    scaled = [other for row in rows if (other := row.scaled()) is not None]
    plain = [*rows, *[r for r in scaled if r.is_right or is_count(r.step.scale)]]
    turned = next((r for r in rows if r.is_turned), None)
    if turned is not None and not any(r.fits for r in plain):
        return replace(turned.step, scale=-multiple(turned.slopes))
    partly = [r for row in rows if (r := row.partly_scaled()) is not None]
    if partly and not any(r.fits for r in plain):
        return partly[0].step
    return _likeliest(plain, _surely_or_maybe if once else lambda _: [])


def is_surely_wrong(finding: Finding, *, named: bool = False) -> bool:
    """Whether a gradient is wrong though it may be that of another loss: a change of the code makes
    it right, and leaves what bounds or chooses as it is. Where names tell whose gradient it is
    (`named`), it may add such a part: the loss has it."""
    change = finding.correction
    if change is None or not (change.rechecked and change.after):
        return False
    before, after = (Counter(_CHOOSES.findall(text)) for text in (change.before, change.after))
    return before <= after if named else before == after


def keeps_terms(finding: Finding) -> bool:
    """Whether its correction is one of a term, and not one without it: what is more than the loss
    has may be meant."""
    change = finding.correction
    if change is None or not is_surely_wrong(finding):
        return False
    return set(_NAME.findall(change.before)) <= set(_NAME.findall(change.after))


def doubted(found: Sequence[Finding], step: HandStep) -> list[Finding]:
    """The findings but for gradients in which a decay or a momentum is; as notes where no gradient
    is that of the loss, and no known mistake explains any: they may be those of another loss."""
    vague = {f.input for f in found if f.name.code == "unnamed" and f.correction is None}
    meant = explained(step) if vague else set[str]()
    kept = [f for f in found if f.input not in vague & meant]
    if meant or not vague or any(x.name not in vague for x in step.inputs):
        return kept
    says = f"no gradient is that of `{step.loss}`, by no known mistake: they may be of another loss"
    return [replace(f, level="note", evidence=(says, *f.evidence)) for f in found]


def _likeliest(rows: Sequence[_Row], fallback: Callable[[Sequence[_Row]], list[_Row]]) -> HandStep:
    """`fallback`: rows of what must be the loss, though no gradient is one of it."""
    steps = [row.step for row in rows]
    if any(map(is_clipped, steps)):
        raise UnlikeError("some of them are clipped: they are as large as is allowed")
    best = max(rows, key=lambda row: row.fits)
    if best.is_right:
        return best.step
    for pair in combinations(rows, 2):
        if _are_opponents(*pair):
            losses = " and ".join([row.step.loss for row in pair])
            raise MeantError(f"each is that of one of {losses}, which go against each other")
    for row in rows:
        same = not best.fits or row.step.loss == best.step.loss
        if row.step.scale == 1 and same and (why := _intention(row)):
            raise why
    if not best.fits:
        partly = [row for row in rows if row.step.scale == 1 and explained(row.step)]
        called = partly or fallback(rows)
        if not called:
            said = ", ".join(dict.fromkeys([step.loss for step in steps]))
            raise UnlikeError(f"they are not those of {said}, in nothing")
        best = max(called, key=lambda row: row.likeness)
    return best.step


def _are_opponents(one: _Row, other: _Row) -> bool:
    """Whether each gradient is that of one of two losses, and some make the other one worse, as
    where one network is to find out another."""
    if one.step.scale != 1 or other.step.scale != 1 or one.is_multiple_of(other):
        return False
    both = list(zip(one.slopes, other.slopes, strict=True))
    fits = [(gradient_fits(a), gradient_fits(b)) for a, b in both]
    against = [
        (a and float(t.true @ t.said) < 0) or (b and float(s.true @ s.said) < 0)
        for (a, b), (s, t) in zip(fits, both, strict=True)
    ]
    return all(map(any, fits)) and any(against)


def _called_loss(rows: Sequence[_Row]) -> list[_Row]:
    """The only number that is called a loss."""
    return [*rows] if len(rows) == 1 and is_called_loss(rows[0].step.loss) else []


def _surely_or_maybe(rows: Sequence[_Row]) -> list[_Row]:
    """What is called a loss; else what grows about where the gradients say: not for sure."""
    near = [r for r in rows if r.likeness > _LIKELY and r.step.scale == 1 and not r.is_multiple]
    return _surely_loss(rows) or [_Row(replace(r.step, sure=False), r.slopes) for r in near]


def _surely_loss(rows: Sequence[_Row]) -> list[_Row]:
    """What is called a loss; not an error, which may be another measure that is only looked at."""
    return [r for r in rows if r.step.scale == 1 and _SURELY.fullmatch(r.step.loss)]


def _row(step: HandStep) -> _Row:
    return _Row(step, tuple(slopes_of(step)))


@dataclass(frozen=True)
class _Row:
    """A step, and how the loss and the gradients of its parameters change."""

    step: HandStep
    slopes: tuple[Slopes, ...]

    @property
    def fits(self) -> int:
        """How many gradients are those of the loss."""
        return sum(map(gradient_fits, self.slopes))

    @property
    def is_right(self) -> bool:
        """Whether all of them are."""
        return self.fits == len(self.slopes)

    @property
    def is_moved(self) -> bool:
        """Whether the number depends on any of the parameters, else it is no loss of theirs."""
        return any(np.any(s.true) for s in self.slopes)

    @property
    def is_turned(self) -> bool:
        """Whether all of them make grow what is to fall, by its name or as it is computed."""
        by = multiple(self.slopes)
        return by < 0 and bool(_FALLS.search(self.step.loss)) and self.times(by).is_right

    @property
    def is_multiple(self) -> bool:
        """Whether all of them are of one multiple of it: steps of another size."""
        by = multiple(self.slopes)
        return by > 0 and self.times(by).is_right

    def is_multiple_of(self, other: _Row) -> bool:
        """Whether one loss is the other, times a number."""
        a, b = (np.concatenate([s.true for s in row.slopes]) for row in (self, other))
        return bool(abs(a @ b) > (1 - FITS) * np.linalg.norm(a) * np.linalg.norm(b))

    def times(self, by: float) -> _Row:
        """The same beside a multiple of the loss."""
        return _Row(self.step, tuple([replace(s, true=s.true * by) for s in self.slopes]))

    @property
    def likeness(self) -> float:
        """The cosine of what the gradients say and what is true."""
        true = np.concatenate([s.true for s in self.slopes])
        said = np.concatenate([s.said for s in self.slopes])
        size = float(np.linalg.norm(true) * np.linalg.norm(said))
        return float(true @ said) / size if size else 0.0

    def scaled(self) -> _Row | None:
        """The same for the multiple of the loss that most of them are of, if that may be meant."""
        by = multiple(self.slopes)
        loss = self.step.loss
        if by in (0.0, 1.0) or self.is_turned or not (by == -1 or _is_meant(by, loss)):
            return None
        return replace(self.times(by), step=replace(self.step, scale=by))

    def partly_scaled(self) -> _Row | None:
        """The same where that is so of most elements only, by a count, of what may be the loss: a
        correction has to say that it is."""
        by = multiple(self.slopes)
        if by in (0.0, 1.0) or not is_count(by) or _SURELY.fullmatch(self.step.loss):
            return None
        made = self.times(by)
        step = replace(self.step, scale=by, sure=False)
        return None if made.fits else replace(made, step=step)


def _is_meant(by: float, loss: str) -> bool:
    """Whether gradients may be meant for a multiple of a loss: of half of it, or of what is only
    shown."""
    return by in (0.5, 1.0, 2.0) or not _NAMED.fullmatch(loss)


def accumulation(steps: Sequence[HandStep]) -> tuple[HandStep, tuple[int, ...]] | None:
    """Parameters whose gradients are wrong because the last turn's are in them still: what another
    turn adds to them is right, for one of the numbers that may be the loss."""
    first, second = steps[0].turns(2)
    more = [None if a is None or b is None else b - a for a, b in zip(first, second, strict=True)]
    kept = [k for k, (m, a) in enumerate(zip(more, first, strict=True)) if _differ(m, a)]
    rows = [_Row(step, tuple(slopes_of(step, more))) for step in steps] if kept else []
    for row in [*rows, *[r for r in (row.scaled() for row in rows) if r is not None]]:
        if all(gradient_fits(row.slopes[k]) for k in kept):
            return row.step, tuple(kept)
    return None


def _differ(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return False
    return bool(np.linalg.norm(a - b) > FITS * max(np.linalg.norm(a), np.linalg.norm(b)))


def _intention(row: _Row) -> MeantError | None:
    """Why gradients that are not those of the loss are meant so; None if nothing says so: a weight
    decay or a momentum was added, or all of them were made shorter."""
    slopes, text = row.slopes, row.step.text
    if not all(s.size for s in slopes):
        return None
    true, said = (np.concatenate([getattr(s, n) for s in slopes]) for n in ("true", "said"))
    by = float(true @ said / (true @ true)) if np.any(true) else 0.0
    is_multiple = np.all(np.abs(said - by * true) <= FITS * max(s.size for s in slopes))
    if is_multiple and 0 < by < 1 and text.clips:
        return MeantError(f"they are {by:.3g} times those of the loss: clipped")
    found = combination(row.step)
    if found is None or not _is_meant(found.by, row.step.loss):
        return None
    return MeantError(str(found), None if found.is_even else row.step)
