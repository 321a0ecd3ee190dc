"""How the steps of one library are recorded, and what is looked for in its programs only."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from chainrule.verify.finding import Finding
from chainrule.verify.script.step.cuts.cut_findings import Step
from chainrule.verify.script.step.cuts.moved_numbers import Moved, Trial
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import Tape
from chainrule.verify.script.step.record.tensors import Tensors

if TYPE_CHECKING:
    from chainrule.verify.script.step.one_step import OneStep

T = TypeVar("T", bound=Tape)
Parts = Sequence[tuple[Slice, Any]]
"""The losses of a backward pass, each with what it depends on."""


class Recorder(abc.ABC, Generic[T]):
    """Records the steps of one library, and knows what is looked for in its programs only."""

    begins_whole = True
    """Whether a step that is recorded begins before its forward pass, whatever counts steps."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.tape: T | None = None
        """None if nothing was recorded."""
        self.trains = True
        """Whether the script trains by this library, as far as is known."""

    @property
    @abc.abstractmethod
    def is_on(self) -> bool:
        """Whether it records now, or only pauses."""

    def watch(self) -> None:
        """See what is needed before the step that is recorded, if anything is."""
        return

    def unwatch(self) -> None:
        """See no more."""
        return

    @abc.abstractmethod
    def begin(self, step: OneStep) -> T:
        """Record from now on."""

    @abc.abstractmethod
    def end(self) -> None:
        """Record no more."""

    @abc.abstractmethod
    def leaves(self, loss: Any) -> set[int]:
        """What is the identity of the leaves that a backward pass from `loss` reaches."""

    @abc.abstractmethod
    def names(self) -> Mapping[int, str]:
        """Names of parameters, by their ids."""

    @abc.abstractmethod
    def move(self, trial: Trial) -> Moved:
        """What moves numbers on the tape of this process from now on, for a trial."""

    def look(self, losses: Sequence[Any], parts: Parts) -> None:
        """Before a backward pass from losses: look for what only this library's programs do."""
        return

    def look_after(self, parts: Parts, step: Step) -> None:
        """The same when it is over."""
        return

    @abc.abstractmethod
    def findings(self, step: Step) -> list[Finding]:
        """What was found, cuts among it."""
