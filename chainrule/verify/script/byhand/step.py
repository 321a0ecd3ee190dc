"""A training step that computes gradients by hand, as a subject.

The loss, and the gradients that the step leaves, are functions of the parameters.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, cast, final

import numpy as np

from chainrule.verify.arrays.members import walk
from chainrule.verify.place import Place
from chainrule.verify.script.byhand.loss import UnlikeError, likeliest_step, reproduced_steps
from chainrule.verify.script.byhand.script_state import (
    ScriptState,
    array_of,
    bytes_of,
    same_draws,
    widen,
)
from chainrule.verify.script.byhand.step_text import StepText, step_text
from chainrule.verify.script.byhand.updates import handing_on
from chainrule.verify.subject import Array, Input, Source, Subject

WHAT = "gradients by hand"
_SAME = 1e-7
"""How far a loss may move, relative, that no change of the gradients' code may change."""
_MOST = 1 << 29
"""Bytes of arrays that are copied, in twice their precision."""
_IN_MODULES = re.compile(r"\._(parameters|modules|buffers)\['(\w+)'\]")
"""Where modules hold what their attributes give."""


class Parameters(abc.ABC):
    """What a step trains, and the gradients that it leaves for it."""

    @abc.abstractmethod
    def put(self, xs: Sequence[Any]) -> None:
        """Other values, and no gradients."""

    @abc.abstractmethod
    def gradients(self) -> list[Array | None]:
        """Those of the last run."""


@final
class Given(Parameters):
    """Tensors that an optimizer of PyTorch's gets; gradients are theirs."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = tuple(tensors)

    def put(self, xs: Sequence[Any]) -> None:
        """Other values, and gradients of zero."""
        import torch

        for p, x in zip(self._tensors, xs, strict=True):
            p.data.copy_(torch.tensor(np.asarray(x)))
            p.grad = torch.zeros_like(p)

    def gradients(self) -> list[Array | None]:
        """What stands in `p.grad`."""
        return [None if p.grad is None else p.grad.numpy().copy() for p in self._tensors]


@dataclass(frozen=True, eq=False)
class HandStep(Subject):
    """A step as a function of its parameters: the loss, and the gradients that it leaves."""

    name: str
    inputs: tuple[Input, ...]
    parameters: Parameters
    run: Callable[[], Any]
    """Computes the loss and leaves gradients, as the user wrote it."""
    text: StepText
    loss: str
    held: ScriptState
    changed: Callable[[], Any] | None = None
    """Takes its place for the gradients."""
    losses: dict[bytes, Array] = field(default_factory=dict[bytes, Array])
    """At points that were asked for."""
    scale: float = 1.0
    """Of which multiple of the loss they are the gradients."""
    sure: bool = True
    """Whether it is known that this is the loss; else a correction that is right has to say so."""
    kind: str = "training step by hand"
    place: Place | None = None
    backward_place: Place | None = None

    @property
    def takes_cotangent(self) -> bool:
        """A step's gradients are those of its loss."""
        return False

    def _at(self, xs: Sequence[Any], run: Callable[[], Any]) -> Array:
        """The loss with these parameters, whose gradients are left."""
        self.held.restore()
        self.parameters.put(xs)
        with same_draws():
            return np.asarray(number(run()))

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The loss."""
        return (self._at(xs, self.run) * self.scale,)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """The gradients, times a number. Code that computes another loss is no correction."""
        loss = None if self.changed is None else self._known(xs)
        value = self._at(xs, self.changed or self.run)
        if loss is not None and not np.allclose(value, loss, rtol=_SAME, atol=0):
            raise UnlikeError("the loss is another one")
        return tuple([None if g is None else g * gs[0] for g in self.parameters.gradients()])

    def turns(self, count: int) -> list[list[Array | None]]:
        """The gradients of so many turns, one after the other, with nothing set back between."""
        xs, found = [x.value for x in self.inputs], list[list[Array | None]]()
        self.held.restore()
        for _ in range(count):
            self.parameters.put(xs)
            with same_draws():
                self.run()
            found.append(self.parameters.gradients())
        return found

    def _known(self, xs: Sequence[Any]) -> Array:
        """The loss as it is, which many changed versions are held against."""
        key = b"".join([np.asarray(x).tobytes() for x in xs])
        if key not in self.losses:
            self.losses[key] = self._at(xs, self.run)
        return self.losses[key]

    @property
    def fixed(self) -> str:
        """The data are what they are."""
        return "the script's own arrays have these sizes"

    @property
    def only_here(self) -> str:
        """What is small here, as what is added in a logarithm, or clipped, is not so elsewhere."""
        return "a network is trained where it is, and may round or clip elsewhere"

    @property
    def source(self) -> Source | None:
        """The step's text, and what it calls; it gives both, a value and its gradients."""
        return replace(
            self._code(lambda f: replace(self, changed=f)),
            forward=self._code(lambda f: replace(self, run=f)),
        )

    def _code(self, changed: Callable[[Callable[..., Any]], Subject]) -> Source:
        text = self.text
        shown = text.returning(self.loss)
        return Source(
            text.file, text.first_line, shown, self.run, changed,
            rewritten=text.rewritten, handing_on=handing_on,
        )  # fmt: skip


def number(value: Any) -> float:
    """One number, in an array of one element too; `ValueError` or `TypeError` of anything else."""
    array = array_of(value)
    return float(value) if array is None else float(array.item())


def subject_of_step(frame: FrameType, parameters: Sequence[Any]) -> HandStep:
    """The step of an optimizer of PyTorch's that a frame is about to make. Changes what the frame
    sees: for a copy of the process.

    Raises `UnlikeError` if it cannot be run again as it was.
    """
    scope = frame.f_globals
    scope.update(frame.f_locals)
    text = step_text(frame, scope)
    if text is None:
        raise UnlikeError("the step does not stand in a block of its own, of a loop or a function")
    if not text.results:
        raise UnlikeError("no loss was seen beside them, one number in a variable of that block")
    fits_in_memory(scope)
    claimed = [np.zeros(p.shape) if p.grad is None else p.grad.numpy().copy() for p in parameters]
    losses = {name: float(scope[name]) for name in text.results}
    widen(scope, parameters)
    values = [p.detach().numpy().copy() for p in parameters]
    names = names_of(scope, parameters)
    inputs = tuple([Input(n, x, wanted=True) for n, x in zip(names, values, strict=True)])
    steps = steps_of(text, scope, inputs, Given(parameters), list(losses))
    return likeliest_step(reproduced_steps(steps, losses, claimed))


def steps_of(
    text: StepText,
    scope: dict[str, Any],
    inputs: tuple[Input, ...],
    parameters: Parameters,
    losses: Sequence[str],
) -> list[HandStep]:
    """One subject for each expression that may be the loss."""
    at, held = Place(text.file, text.first_line + 1, text.within), ScriptState(scope)
    steps = list[HandStep]()
    for loss in losses:
        run = cast("Callable[[], Any]", text.function(loss, scope))
        step = HandStep(
            WHAT, inputs, parameters, run, text, loss, held, place=at, backward_place=at
        )
        steps.append(step)
    return steps


def fits_in_memory(scope: Mapping[str, Any]) -> None:
    """Raise `UnlikeError` if a script holds more than is copied."""
    if (held := bytes_of(scope)) > _MOST:
        raise UnlikeError(f"the script holds {held >> 20} MiB of numbers: too much for copies")


def names_of(scope: Mapping[str, Any], parameters: Sequence[Any]) -> list[str]:
    """What the script calls its parameters, the shortest way: `W`, `cell.W`, `p['U']`; optimizers
    hold them all."""
    known: dict[int, list[str]] = {id(p): [] for p in parameters}
    for way, x in walk(dict(scope)):
        if id(x) in known:
            known[id(x)] += list(spellings(way.steps))
    ways = [known[id(p)] for p in parameters]
    return [min(names, key=len, default=f"parameter {i}") for i, names in enumerate(ways)]


def spellings(steps: tuple[tuple[bool, Any], ...]) -> Iterator[str]:
    """How the script says what a way from its variables leads to."""
    (_, first), *rest = steps
    parts = [f".{key}" if by_name else f"[{key!r}]" for by_name, key in rest]
    name = _IN_MODULES.sub(r".\2", f"{first}{''.join(parts)}")
    if "param_groups" not in name:
        yield name
