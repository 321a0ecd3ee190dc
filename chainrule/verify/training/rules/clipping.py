"""Clipping where it bounds nothing, or not all.

That is before a backward pass has made gradients, between two passes for one step, or after the
step that has used them. What the loss was multiplied by, by hand or by a scaler, may be in
gradients still.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text import edits
from chainrule.verify.trees import function_at, last_word, tree_of_file

_LARGE = 8.0
"""A scale by hand; smaller factors are weights of losses."""
_EXACT = 1e-3


@dataclass(eq=False)
class _Clip:
    """A call that bounds gradients of parameters, by their ids."""

    params: frozenset[int]
    place: Place | None
    when: Literal["early", "late", "in time"]
    passed: bool = False
    """Whether a backward pass has changed the gradients since."""
    added_at: Place | None = None
    """Where that was."""
    norms: Mapping[int, float] = field(default_factory=dict[int, float])
    """Of gradients behind the clipping, by id of the parameter."""
    scale: float = 1.0
    """What the loss had been multiplied by."""


@dataclass(eq=False)
class _Idle:
    """A line that bounds nothing."""

    place: Place
    when: str
    added_at: Place | None
    times: int = 0


class _Scaled(NamedTuple):
    """A line that bounds gradients which are divided afterwards."""

    place: Place
    times: int
    scale: float


_WHY = {
    "early": "nothing was bounded by this, since there were no gradients yet: the backward pass "
    "made them afterwards",
    "other": "nothing was bounded by this: its parameters have no gradients, and no optimizer that "
    "takes steps has them",
    "none": "nothing was bounded by this, which was given no parameters: an iterator "
    "(`model.parameters()`) gives them once, and who read it first left nothing of it",
    "late": "nothing was bounded by this, since the step had used the gradients already",
    "between": "a backward pass after this has added to the gradients that it had bounded",
}


@final
class Clipping(Part):
    """Finds `clip_idle`, and `clip_scaled` where the program scales its losses by hand."""

    title = "clipping of gradients"
    rows = (
        Row(
            "clip_idle",
            lambda f: f.idle(),
            lambda c: f"in {c.times} steps {_WHY[c.when]}",
            lambda c: (
                "keep a list: params = list(model.parameters())"
                if c.when == "none"
                else "clip between the last backward pass and the step, the parameters that it "
                "trains"
            ),
            unless=(is_seldom,),
            edit=lambda c: edits.move_behind(c.place, c.added_at) if c.when == "between" else None,
        ),
        Row(
            "clip_scaled",
            lambda f: [_Scaled(at, *row) for at, row in f.scaled.items()],
            "in {times} steps gradients were clipped, and divided by {scale:g} afterwards, by "
            "which the loss had been multiplied: the bound is {scale:g} times smaller than what "
            "they are compared with",
            "divide the gradients first, and clip them then",
            "error",
            (is_seldom,),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._open: list[_Clip] = []
        self._spent: dict[int, tuple[int, ...]] = {}
        """Gradients that a step has used, by id of the parameter: how they looked then."""
        self._clips = 0
        self._scale = 1.0  # of the last loss
        self.scaled: dict[Place, tuple[int, float]] = {}
        self._rows: dict[Place, _Idle] = {}
        self._trained: set[int] = set()
        self._strange: list[_Clip] = []  # of parameters without gradients, of nobody who steps
        self._useful: set[Place | None] = set()  # lines that did bound something

    def seen(self) -> Sequence[str]:
        """How often something was clipped."""
        return [f"{self._clips} calls"] if self._clips else []

    def idle(self) -> list[_Idle]:
        """Lines that bound nothing; those, too, of what nobody trains."""
        strange = Counter([c.place for c in self._strange if self._is_others(c)])
        others = [_Idle(at, "other", None, n) for at, n in strange.items() if at is not None]
        none = {c.place for c in self._strange if not c.params}
        others = [_read_before(row) if row.place in none else row for row in others]
        return [*self._rows.values(), *others]

    def _is_others(self, clip: _Clip) -> bool:
        """Whether nobody trains what it bounds, and its line bounded nothing else."""
        trained = clip.passed or bool(clip.params & self._trained)
        return not trained and clip.place not in self._useful

    @on(events.Clipped)
    def _clipped(self, e: events.Clipped) -> None:
        self._clips += 1
        ids = e.ids
        held = [p for p in e.params if getattr(p, "grad", None) is not None]
        norms = e.engine.norms([p.grad for p in held])
        if not any(norms):
            self._open.append(_Clip(ids, e.place, "early"))
        else:
            by = dict(zip(map(id, held), norms, strict=True))
            is_spent = all(self._spent.get(id(p)) == e.engine.token(p.grad) for p in held)
            when = "late" if is_spent else "in time"
            self._open.append(_Clip(ids, e.place, when, norms=by, scale=self._scale))
            self._useful.add(e.place)

    @on(events.BackwardEnds)
    def _ended(self, e: events.BackwardEnds) -> None:
        scale = e.begin.scale
        self._scale = 1 / scale.divisor if scale is not None and scale.divisor else 1.0
        for clip in self._open:
            if clip.params & e.touched:
                clip.passed, clip.added_at = True, e.begin.place

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        """The gradients are what they were behind the clipping, or were divided since then."""
        for clip in self._open:
            if clip.scale < _LARGE or clip.when != "in time" or clip.passed or clip.place is None:
                continue
            now = {key: g for key, g in e.gradients.items() if g > 0}
            ratios = [n / now[key] for key, n in clip.norms.items() if n > 0 and key in now]
            if ratios and all(abs(r / clip.scale - 1) < _EXACT for r in ratios):
                count, _ = self.scaled.get(clip.place, (0, 1.0))
                self.scaled[clip.place] = count + 1, clip.scale

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        own = e.ids
        self._spent |= e.tokens
        self._trained |= own
        early = [c for c in self._open if c.when == "early" and not c.passed]
        self._strange += [c for c in early if not c.params & own and c not in self._strange]
        mine = [clip for clip in self._open if clip.params & own]
        in_time = [clip for clip in mine if clip.when == "in time"]
        if not in_time:
            self._in_vain([c for c in mine if c.when == "early" and c.passed])
        elif len(in_time) == 1:
            self._in_vain([c for c in in_time if c.passed], "between")
        self._open = [clip for clip in self._open if clip not in mine]

    @on(events.Zeroed)
    def _zeroed(self, e: events.Zeroed) -> None:
        own = e.ids
        late = [clip for clip in self._open if clip.when == "late" and clip.params & own]
        self._in_vain(late)
        self._open = [clip for clip in self._open if clip not in late]

    def _in_vain(self, clips: Sequence[_Clip], when: str = "") -> None:
        for clip in clips:
            if clip.place is not None:
                row = _Idle(clip.place, when or clip.when, clip.added_at)
                self._rows.setdefault(clip.place, row).times += 1


def _read_before(row: _Idle) -> _Idle:
    """A line that is given an iterator of which nothing is left; it is placed where that is made,
    if its text tells."""
    tree = tree_of_file(row.place.file)
    inner = function_at(tree, row.place.line) or tree
    calls = [n for n in ast.walk(inner) if isinstance(n, ast.Call) and n.lineno == row.place.line]
    given = {x.id for n in calls for x in n.args[:1] if isinstance(x, ast.Name)}
    made = [n for n in ast.walk(inner) if isinstance(n, ast.Assign) and n.lineno < row.place.line]
    found = [n.lineno for n in made if {last_word(x) for x in n.targets} & given]
    place = Place(row.place.file, found[0], row.place.function) if len(found) == 1 else row.place
    return _Idle(place, "none", None, row.times)


@dataclass(eq=False)
class _Scaler:
    """A gradient scaler, and what was clipped while its factor was in the gradients."""

    first: float = 0.0
    clipped: Place | None = None
    clips: int = 0
    waits: bool = False
    """Whether its gradients wait to be unscaled."""


@final
class Scales(Part):
    """Finds `clip_scaled`."""

    title = "order of clipping and scaling"
    rows = (
        Row(
            "clip_scaled",
            lambda f: [row for row in f.scalers.values() if row.clips],
            "gradients were clipped {clips} times while they were still multiplied by the scaler's "
            "{first:g}: the bound that was meant is {first:g} times smaller than what the "
            "gradients are compared with",
            "scaler.unscale_(optimizer) in front of the clipping",
            "error",
            place=lambda row: row.clipped,
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.scalers: dict[int, _Scaler] = {}
        self._unscaled: set[int] = set()  # parameters whose gradients were unscaled

    def _of(self, scaler: Any) -> _Scaler:
        return self.scalers.setdefault(id(scaler), _Scaler())

    @on(events.Scaled)
    def _scale(self, e: events.Scaled) -> None:
        row = self._of(e.scaler)
        row.first, row.waits = row.first or e.scale, True

    @on(events.Unscaled)
    def _unscale(self, e: events.Unscaled) -> None:
        self._unscaled |= e.ids

    @on(events.ScalerStepped)
    def _scaler_step(self, e: events.ScalerStepped) -> None:
        self._of(e.scaler).waits = False
        self._unscaled -= e.ids

    @on(events.Clipped)
    def _clip(self, e: events.Clipped) -> None:
        held = [p for p in e.params if getattr(p, "grad", None) is not None]
        if held and math.isfinite(e.bound) and self._unscaled.isdisjoint(map(id, held)):
            for row in [row for row in self.scalers.values() if row.waits]:
                row.clips, row.clipped = row.clips + 1, e.place
