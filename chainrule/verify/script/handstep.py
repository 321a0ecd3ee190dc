"""A training step that computes gradients by hand, as a subject: the loss, and what it leaves in
`p.grad`, as functions of the parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from chainrule.verify.arrays.members import walk
from chainrule.verify.place import Place
from chainrule.verify.script.handheld import Held, bytes_of, same_draws, widen
from chainrule.verify.script.handtext import StepText, is_called_loss, step_text
from chainrule.verify.subject import Array, Input, Source, Subject

WHAT = "gradients by hand"
_ALIKE = 1e-3
"""How far loss and gradients may be from the script's own, relative: those are in float32."""
_SAME = 1e-7
"""The same for a loss that no change of the gradients' code may change."""
_FITS = 1e-5
"""Relative error up to which a gradient is that of a loss."""
_MOST = 1 << 29
"""Bytes of tensors that are copied, in twice their precision."""
_IN_MODULES = re.compile(r"\._(parameters|modules|buffers)\['(\w+)'\]")
"""Where modules hold what their attributes give."""
_DIRECTIONS, _STEP = 3, 1e-5
"""Along which it is compared for that, and how far it goes there."""


class UnlikeError(Exception):
    """The step that was run again is another one; the message says why."""


@dataclass(frozen=True, eq=False)
class HandStep(Subject):
    """A step as a function of its parameters: the loss, and the gradients that it leaves."""

    name: str
    inputs: tuple[Input, ...]
    parameters: tuple[Tensor, ...]
    run: Callable[[], Any]
    """Computes the loss and leaves gradients, as the user wrote it."""
    text: StepText
    loss: str
    held: Held
    changed: Callable[[], Any] | None = None
    """Takes its place for the gradients."""
    kind: str = "training step by hand"
    place: Place | None = None
    backward_place: Place | None = None

    def _at(self, xs: Sequence[Any], run: Callable[[], Any]) -> Array:
        """The loss with these parameters, whose gradients are left."""
        self.held.put_back()
        for p, x in zip(self.parameters, xs, strict=True):
            p.data.copy_(torch.tensor(np.asarray(x)))
            p.grad = torch.zeros_like(p)
        with torch.no_grad(), same_draws():
            return np.asarray(float(run()))

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The loss."""
        return (self._at(xs, self.run),)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """The gradients, times a number. Code that computes another loss is no correction."""
        loss = None if self.changed is None else self.forward(xs)[0]
        value = self._at(xs, self.changed or self.run)
        if loss is not None and not np.allclose(value, loss, rtol=_SAME, atol=0):
            raise UnlikeError("the loss is another one")
        grads = [p.grad for p in self.parameters]
        return tuple([None if g is None else g.numpy().copy() * gs[0] for g in grads])

    @property
    def fixed(self) -> str:
        """The data are what they are."""
        return "the script's own arrays have these sizes"

    @property
    def source(self) -> Source | None:
        """The step's text, and what it calls."""
        text = self.text
        return Source(
            text.file,
            text.first_line,
            text.returning(self.loss),
            self.run,
            lambda f: replace(self, changed=cast("Callable[[], Any]", f)),
        )


def subject_of_step(frame: FrameType, parameters: Sequence[Tensor]) -> HandStep:
    """The step that a frame is about to make. Changes what the frame sees: for a copy of the
    process.

    Raises `UnlikeError` if it cannot be run again as it was.
    """
    scope = frame.f_globals
    scope.update(frame.f_locals)
    text = step_text(frame, scope)
    if text is None:
        raise UnlikeError("the step does not stand in a block of its own, of a loop or a function")
    if not text.results:
        raise UnlikeError("no loss was seen beside them, one number in a variable of that block")
    if (held := bytes_of(scope)) > _MOST:
        raise UnlikeError(f"the script holds {held >> 20} MiB of tensors: too much for copies")
    names = _names(scope, parameters)
    claimed = [(torch.zeros_like(p) if p.grad is None else p.grad).double() for p in parameters]
    losses = {name: float(scope[name]) for name in text.results}
    widen(scope, parameters)
    values = [p.detach().numpy().copy() for p in parameters]
    inputs = tuple([Input(n, x, wanted=True) for n, x in zip(names, values, strict=True)])
    at, held, ps = (
        Place(text.file, text.first_line + 1, text.within),
        Held(scope),
        tuple(parameters),
    )
    steps: list[HandStep] = []
    for loss in losses:
        run = cast("Callable[[], Any]", text.function(loss, scope))
        step = HandStep(WHAT, inputs, ps, run, text, loss, held, place=at, backward_place=at)
        steps.append(step)
    return _likeliest(_alike(steps, values, losses, claimed), values)


def _alike(
    steps: Sequence[HandStep],
    values: Sequence[Array],
    losses: Mapping[str, float],
    claimed: Sequence[Tensor],
) -> list[HandStep]:
    """Steps that give, run again, what they gave; raises `UnlikeError` if none does."""
    found, why = list[HandStep](), ""
    for step in steps:
        try:
            _is_alike(step, values, losses[step.loss], claimed)
        except Exception as error:
            why = why or f"{type(error).__name__}: {error}"
        else:
            found.append(step)
    if not found:
        raise UnlikeError(f"the step could not be run again as it was: {why}")
    return found


def _likeliest(steps: Sequence[HandStep], values: Sequence[Array]) -> HandStep:
    """The step of the loss that most gradients are of; raises `UnlikeError` if they are of none, or
    are meant to be others."""
    rows = [(step, list(_slopes(step, values))) for step in steps]
    for step, slopes in rows:
        if why := _meant(slopes, step.text):
            raise UnlikeError(why)
    best, slopes = max(rows, key=lambda row: sum(map(_fits, row[1])))
    if not any(map(_fits, slopes)) and not (is_called_loss(best.loss) and len(rows) == 1):
        said = ", ".join([step.loss for step in steps])
        raise UnlikeError(f"they are not those of {said}, in nothing")
    return best


@dataclass(frozen=True)
class _Slopes:
    """Of one parameter, along some directions: of the loss, by its gradient, and by itself."""

    true: Array
    said: Array
    own: Array
    size: float
    """Of the gradient."""


def _slopes(step: HandStep, values: Sequence[Array]) -> Iterator[_Slopes]:
    rng = np.random.default_rng(3)
    for k, (x, g) in enumerate(zip(values, step.pull(values, [np.ones(())]), strict=True)):
        given = np.zeros(x.shape) if g is None else g
        ts = [t / np.linalg.norm(t) for t in rng.normal(size=(_DIRECTIONS, *x.shape))]
        true = list[float]()
        for t in ts:
            moved = [[*values[:k], x + h * t, *values[k + 1 :]] for h in (_STEP, -_STEP)]
            up, down = [float(step.forward(xs)[0]) for xs in moved]
            true.append((up - down) / (2 * _STEP))
        said, own = ([float(np.sum(a * t)) for t in ts] for a in (given, x))
        size = float(np.linalg.norm(given))
        yield _Slopes(np.array(true), np.array(said), np.array(own), size)


def _fits(s: _Slopes) -> bool:
    return s.size > 0 and bool(np.all(np.abs(s.true - s.said) <= _FITS * s.size))


def _meant(slopes: Sequence[_Slopes], text: StepText) -> str:
    """Why gradients that are not those of the loss are meant so; empty if nothing says so: the
    parameters were added, times a number, or all of them were made shorter."""
    off = [s for s in slopes if not _fits(s) and s.size > 0]
    if not off or any(not s.size for s in slopes):
        return ""
    more, own = (np.concatenate([getattr(s, n) for s in off]) for n in ("said", "own"))
    more = more - np.concatenate([s.true for s in off])
    decay = float(more @ own / (own @ own)) if np.any(own) else 0.0
    if decay > 0 and np.all(np.abs(more - decay * own) <= _FITS * max(s.size for s in off)):
        return f"they are those of the loss, and {decay:.3g} times the parameters: a weight decay"
    true, said = (np.concatenate([getattr(s, n) for s in slopes]) for n in ("true", "said"))
    by = float(true @ said / (true @ true)) if np.any(true) else 0.0
    alike = np.all(np.abs(said - by * true) <= _FITS * max(s.size for s in slopes))
    if alike and 0 < by < 1 and text.clips:
        return f"they are {by:.3g} times those of the loss: clipped"
    return ""


def _is_alike(
    step: HandStep, values: Sequence[Array], loss: float, claimed: Sequence[Tensor]
) -> None:
    """Raise `UnlikeError` if the step, run again, has another loss or other gradients."""
    again = float(step.forward(values)[0])
    if not np.isclose(again, loss, rtol=_ALIKE, atol=1e-7):
        raise UnlikeError(f"`{step.loss}` is {again:.6g}, and was {loss:.6g}")
    for x, g, old in zip(step.inputs, step.pull(values, [np.ones(())]), claimed, strict=True):
        was = old.numpy()
        off = float("inf") if g is None else float(np.linalg.norm(g - was))
        if off > _ALIKE * float(np.linalg.norm(was)) + 1e-7:
            raise UnlikeError(f"the gradient of {x.name} is another one")


def _names(scope: Mapping[str, Any], parameters: Sequence[Tensor]) -> list[str]:
    """What the script calls its parameters, the shortest way: `W`, `cell.W`, `p['U']`; optimizers
    hold them all."""
    known: dict[int, list[str]] = {id(p): [] for p in parameters}
    for way, x in walk(dict(scope)):
        if id(x) in known:
            (_, first), *rest = way.steps
            parts = [f".{key}" if by_name else f"[{key!r}]" for by_name, key in rest]
            name = _IN_MODULES.sub(r".\2", f"{first}{''.join(parts)}")
            known[id(x)] += [] if "param_groups" in name else [name]
    ways = [known[id(p)] for p in parameters]
    return [min(names, key=len, default=f"parameter {i}") for i, names in enumerate(ways)]
