"""One step of a PyTorch script: how its calls are seen, and what is looked for there only: changes
that autograd does not see, calls without a slope, factors in place, losses that are overwritten.

Recording rests where nothing is trained: while a model is evaluated or sampled from. A call without
a graph may be a cut in a step, so the first ones are recorded; but not those of a model in eval
mode, and not the thousands that a loop over a test set makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from threading import get_ident
from typing import Any, cast, final

import torch
from torch import Tensor

from chainrule.verify.finding import Finding
from chainrule.verify.patches import Patches
from chainrule.verify.pytorch.door import Onlooker, look, look_away, unseen
from chainrule.verify.pytorch.modules import NOTHING, Listener, listen, unlisten
from chainrule.verify.script.backwards.graphs import walk
from chainrule.verify.script.sandbox.fork import in_copy
from chainrule.verify.script.step import zero_slopes
from chainrule.verify.script.step.cuts.cut_findings import Step, cut_findings
from chainrule.verify.script.step.cuts.moved_numbers import Moved, Trial
from chainrule.verify.script.step.determinants import Determinants
from chainrule.verify.script.step.links import Links
from chainrule.verify.script.step.one_step import OneStep
from chainrule.verify.script.step.record.aliases import Aliases
from chainrule.verify.script.step.record.recorder import Parts, Recorder
from chainrule.verify.script.step.record.tape import GRAD
from chainrule.verify.script.step.record.torch_tape import TorchTape
from chainrule.verify.script.step.record.torch_tensors import TorchTensors, move
from chainrule.verify.script.step.spots import Spot, spot_finding
from chainrule.verify.script.step.terms import overwritten_losses
from chainrule.verify.script.step.untracked_changes import (
    UntrackedChanges,
    renamed_spot,
    shared_spot,
)
from chainrule.verify.script.step.wrong_uses import ROWS
from chainrule.verify.training.facts.names import parameter_names

MOST = 500
"""Calls in a row without a graph after which the rest of them is not recorded."""
_SWITCHES: tuple[tuple[type, str], ...] = (
    (torch.no_grad, "__exit__"),
    (torch.inference_mode, "__exit__"),
    (torch.set_grad_enabled, "__init__"),
    (torch.set_grad_enabled, "__exit__"),
)
"""What may switch autograd on again."""


@final
class EvaluationPause(Listener):
    """Lets an onlooker look from `start` to `stop`, but where it rests."""

    def __init__(self, onlooker: Onlooker) -> None:
        self._onlooker = onlooker
        self._off = 0
        self._rests = False
        self._evaluated: Any = None
        self._patches = Patches()

    def start(self) -> None:
        """Let it look at the calls of this thread."""
        self._thread = get_ident()
        look(self._onlooker)
        for owner, name in _SWITCHES:
            self._patches.after(owner, name, self._wake)
        listen(self)

    def stop(self) -> None:
        """Let it look no more."""
        self._patches.undo()
        unlisten(self)
        look_away(self._onlooker)

    def count(self) -> bool:
        """Whether this call is still to be recorded."""
        self._off = 0 if torch.is_grad_enabled() else self._off + 1
        if self._off > MOST:
            self._rest()
        return not self._rests

    def _rest(self) -> None:
        self._rests = True
        look_away(self._onlooker)

    def _is_here(self) -> bool:
        return get_ident() == self._thread

    def _wake(self, *_: Any, **__: Any) -> None:
        if self._rests and torch.is_grad_enabled() and self._is_here():
            self._rests, self._off, self._evaluated = False, 0, None
            look(self._onlooker)

    def enters(self, module: Any, inputs: tuple[Any, ...]) -> Any:
        """A module is called: one in eval mode and without a graph is not looked into."""
        if self._rests and not torch.is_grad_enabled():
            return NOTHING
        self._wake()
        if self._is_here() and not (module.training or torch.is_grad_enabled()):
            self._evaluated = module
            self._rest()
            return NOTHING
        return None

    def leaves(self, module: Any, token: Any, output: Any) -> None:
        """Its call is over."""
        if self._evaluated is module and self._is_here():
            self._evaluated, self._rests = None, False
            look(self._onlooker)


@final
class TorchRecorder(Recorder[TorchTape]):
    """Records a step of PyTorch's."""

    begins_whole = False

    def __init__(self) -> None:
        super().__init__(TorchTensors())
        self._patches = Patches()
        self._pause: EvaluationPause | None = None
        self._changes = UntrackedChanges()
        self._flats: list[zero_slopes.Flat] = []
        self._overwritten: dict[Spot, None] = {}
        self._scaled: dict[Spot, None] = {}
        self._determinants = Determinants()
        self._spots: dict[Spot, None] = {}
        self._read = 0
        """How many calls were recorded by the last backward pass."""

    @property
    def is_on(self) -> bool:
        """From `begin` to `end`."""
        return self._patches.on

    def begin(self, step: OneStep) -> TorchTape:
        """Record from now on, but where nothing is trained."""
        tape = TorchTape()
        apply = partial(_record_apply, tape, self._changes)
        self._patches.around_class_method(torch.autograd.Function.__mro__[1], "apply", apply)
        self._patches.around(torch.autograd, "grad", partial(_record_grad, tape))
        self._pause = EvaluationPause(tape)
        tape.records = self._pause.count
        self._pause.start()
        listen(self._determinants)
        return tape

    def end(self) -> None:
        """Record no more."""
        if self._pause is not None:
            self._pause.stop()
            unlisten(self._determinants)
        self._patches.undo()

    def look(self, losses: Sequence[Any], parts: Parts) -> None:
        """Values that are not what they were; factors in place; losses that nobody reads."""
        tape = self._tape
        self._changes.compare(tape, losses)
        alive = tape.alive()
        for part, _ in parts:
            self._scaled.update(dict.fromkeys(zero_slopes.in_place_factors(part)))
            links = Links(part)
            self._spots.update(dict.fromkeys([spot for row in ROWS for spot in row(links)]))
        for part, loss in parts[:1]:
            self._spots.update(dict.fromkeys(self._determinants.spots(part, loss)))
            rows = overwritten_losses(part, self._read, alive.__contains__)
            self._overwritten.update(dict.fromkeys(rows))
        self._read = len(tape.entries)

    def look_after(self, parts: Parts, step: Step) -> None:
        """Which parameters did it give nothing but 0, and where from?"""
        roots = self._tape.roots.values()
        grads = {id(t): t.grad for t in roots if t.is_leaf and t.grad is not None}
        fed = {key for key, grad in grads.items() if _is_any(grad)}
        step.fed |= fed
        for part, loss in parts:
            self._flats += zero_slopes.calls_without_derivative(part, step.turn)
            if loss.numel() == 1 and zero_slopes.has_steps(part):
                idle = in_copy(lambda p=part, y=loss: zero_slopes.terms_with_zero_slope(p, y))
                step.idle |= dict.fromkeys(idle)
            if len(fed) < len(grads) and loss.numel() == 1:
                self._flats += in_copy(
                    lambda p=part, y=loss: zero_slopes.calls_with_zero_slope(p, y, step.turn)
                )

    @property
    def _tape(self) -> TorchTape:
        return cast(TorchTape, self.tape)

    def leaves(self, loss: Any) -> set[int]:
        """Leaves of its graph."""
        nodes = walk([loss.grad_fn]) if loss.grad_fn is not None else []
        return {id(node.variable) for node in nodes if hasattr(node, "variable")}

    def names(self) -> Mapping[int, str]:
        """Names within modules."""
        return parameter_names(torch.nn.Module)

    def move(self, trial: Trial) -> Moved:
        """By a mode of its own."""
        return move(self._tape, trial)

    def findings(self, step: Step) -> list[Finding]:
        """What is 0 because of a call is known before the cuts are judged; what is missing is
        looked for after them."""
        zero = self._flat_findings("0", step)
        cuts = cut_findings(step)
        none = self._flat_findings("none", step)
        aliases = Aliases() if self.tape is None else self._tape.aliases  # no step, no tape
        shared = [s for row in aliases.changed.items() if (s := shared_spot(*row)) is not None]
        shared += [s for row in aliases.names.items() if (s := renamed_spot(*row)) is not None]
        spots = map(spot_finding, [*self._scaled, *self._spots, *shared])
        lost = map(spot_finding, self._overwritten)
        return [*self._changes.findings, *spots, *zero, *cuts, *none, *lost]

    def _flat_findings(self, gives: str, step: Step) -> list[Finding]:
        flats = [flat for flat in self._flats if flat.gives == gives]
        return zero_slopes.flat_findings(flats, step)


def _is_any(grad: Tensor) -> bool:
    """Whether an element is not 0. Nearly always its first row tells."""
    dense = grad.layout is torch.strided and grad.dim() > 1
    return bool((dense and grad[:1].any()) or grad.any())


def _record_apply(
    tape: TorchTape, changes: UntrackedChanges, run: Any, cls: Any, /, *args: Any, **kwargs: Any
) -> Any:  # fmt: skip
    """`apply` of Functions as one call; what they compute inside is their own."""
    if not tape.active:
        return run(cls, *args, **kwargs)
    out = tape.observe(cls.__name__, tape.opaque(partial(run, cls)), args, kwargs)
    with unseen():
        tape.attempt(_note_step, tape, cls, out)
    changes.keep(cls, out)
    return out


def _note_step(tape: TorchTape, kind: Any, out: Any) -> None:
    """Note whether a Function of the user's has given whole numbers."""
    last = tape.entries[-1] if tape.entries else None
    if last is not None and last.name == kind.__name__ and isinstance(out, Tensor):
        last.is_step = out.is_floating_point() and bool((out == out.round()).all())


def _record_grad(tape: TorchTape, grad: Any, *args: Any, **kwargs: Any) -> Any:
    """Derivatives that the script takes by itself, as one call."""
    named = [name for name in ("outputs", "inputs")[len(args) :] if name in kwargs]
    if not tape.active or len(args) + len(named) < 2:
        return grad(*args, **kwargs)
    args += tuple([kwargs.pop(name) for name in named])
    return tape.observe(GRAD, tape.opaque(grad), args, kwargs)
