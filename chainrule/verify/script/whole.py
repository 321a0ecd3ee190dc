"""Is what the parameters get the derivative of the loss? One step's calls are recorded to tell.

Where the way from parameters to the loss is cut, the step is run again, in a copy of the process,
with the cuts open: what is lost there decides. A cut that costs nothing (a maximum subtracted
for the sake of the range, running statistics) is never mentioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, wraps
from time import perf_counter
from typing import Any, cast

import torch
from torch import Tensor

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import TRAINING, Checked, Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.patches import Patches
from chainrule.verify.pytorch.door import unseen
from chainrule.verify.script import numbers
from chainrule.verify.script.apart import LostError, apart
from chainrule.verify.script.branch import is_branch
from chainrule.verify.script.clock import BACKWARD
from chainrule.verify.script.cuts import Cut, Slice
from chainrule.verify.script.entries import GRAD, NUMBER
from chainrule.verify.script.flat import Flat, ends, found_flat, zeros
from chainrule.verify.script.graphs import parameter_names
from chainrule.verify.script.lost import Step, found_in, seen_of
from chainrule.verify.script.moved import Torch, moved
from chainrule.verify.script.numbers import Site, Trial
from chainrule.verify.script.opened import lost_at
from chainrule.verify.script.rest import Rest
from chainrule.verify.script.tape import Tape
from chainrule.verify.script.trials import Going, followed
from chainrule.verify.script.unseen import Unseen

_AT = 1
"""The step after which recording begins; it ends with the next."""
_BACKWARDS = 16
"""Backward passes of that step that are looked at."""


class WholeObserver(Observer):
    """Records one step and looks for what autograd does not see in it."""

    def __init__(self) -> None:
        self._tape: Tape | None = None
        self._patches = Patches()
        self._hooks: list[Any] = []
        self._step = Step()
        self._unseen = Unseen()
        self._skipped: list[str] = []
        self._parts: list[tuple[Slice, Tensor]] = []
        """What the losses of a backward pass depend on."""
        self._flats: list[Flat] = []
        self._backwards = 0
        self._losses = 0
        self._sites: dict[Site, int] = {}
        """Where numbers leave that may come back into a loss (see `numbers.sites`)."""
        self._trial: Going | None = None
        """What this process tries, if it is a copy in which the script goes on."""
        self._since = self._seconds = 0.0
        self._compiling = Patches()
        self._unsuited = ""
        """Why the calls of a step cannot be recorded; empty if they can."""

    def start(self) -> None:
        """Wait for the first step to be done; what is compiled until then cannot be recorded."""
        for owner in (torch, torch.nn.Module):
            self._compiling.put(owner, "compile", self._compiles)

    def _compiles(self, compile: Any) -> Any:
        @wraps(compile)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            self._unsuited = "compiled code cannot be recorded without changing what it computes"
            return compile(*args, **kwargs)

        return compiled

    def step_done(self, step: int) -> None:
        """Record from the end of the first step to that of the second."""
        if step == _AT and self._tape is None:
            self._begin()
        elif step > _AT:
            self._end()
            self._follow()

    def stop(self) -> None:
        """Record no more."""
        self._compiling.undo()
        self._end()

    def _begin(self) -> None:
        if self._unsuited:
            self._skipped.append(self._unsuited)
            return
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        self._since = perf_counter()
        self._tape = tape = Tape()
        level: Any = torch.autograd.Function.__mro__[1]
        self._patches.put(level, "apply", lambda old: _applied(old, level, tape, self._unseen))
        for owner, name in BACKWARD[:2]:
            self._patches.put(owner(torch), name, self._watched)
        self._patches.put(torch.autograd, "grad", lambda old: _derived(old, tape))
        self._hooks = [
            register_optimizer_step_pre_hook(self._steps),
            register_optimizer_step_post_hook(self._stepped),
        ]
        self._rest = Rest(tape)
        tape.records = self._rest.counted
        self._rest.start()

    def _end(self) -> None:
        if self._tape is None or not self._hooks:
            return
        self._seconds = perf_counter() - self._since
        self._tape.active = False
        self._rest.stop()
        self._patches.undo()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self._tape.broken:
            self._skipped.append(self._tape.broken)
        self._parts.clear()
        self._tape.clear()

    def _pause(self, tape: Tape) -> None:
        tape.active = False
        self._rest.pause()

    def _resume(self, tape: Tape) -> None:
        tape.active = bool(self._hooks) and not tape.broken
        if self._hooks:
            self._rest.resume()

    def _steps(self, optimizer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """What an optimizer computes is its own; but a closure runs the model."""
        if self._tape is not None and len(args) < 2 and not kwargs:
            self._pause(self._tape)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._tape is not None:
            self._resume(self._tape)
        self._step.steps({id(p) for g in optimizer.param_groups for p in g["params"]})

    def _watched(self, backward: Any) -> Any:
        def observed(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            tape = self._tape
            if tape is None or not tape.active:
                return backward(tensors, *args, **kwargs)
            self._pause(tape)
            start = perf_counter()
            try:
                with unseen():
                    self._look(tape, [tensors] if isinstance(tensors, Tensor) else list(tensors))
            except Exception as error:
                self._skipped.append(f"{type(error).__name__}: {error}")
            if self._trial is not None:
                self._trial.looked(self._step.seen, self._skipped)
            tape.seconds += perf_counter() - start
            try:
                result = backward(tensors, *args, **kwargs)
                try:
                    with unseen():
                        self._feel(tape)
                except Exception as error:
                    self._skipped.append(f"{type(error).__name__}: {error}")
                return result
            finally:
                self._parts.clear()
                self._resume(tape)

        return observed

    def _look(self, tape: Tape, losses: Sequence[Tensor]) -> None:
        """Before a backward pass: what does it not see?"""
        self._backwards += 1
        self._unseen.compare(tape, losses)
        if self._trial is not None:
            self._trial.join()
        else:
            self._sites |= numbers.sites(tape, Torch())
        self._step.goes_back({leaf for loss in losses for leaf in _leaves(loss)})
        for loss in losses:
            slot = tape.slot(loss)
            self._losses += 1
            if slot is None or self._backwards > _BACKWARDS:
                continue
            part = Slice(tape, slot)
            self._parts.append((part, loss))
            cuts = [c for c in part.cuts if not self._is_old(tape, c)]
            if self._trial is not None:
                cuts = self._trial.of_numbers(cuts)
            self._step.numbers += part.added_numbers()
            if cuts and loss.numel() == 1:
                self._measure(part, cuts, loss)
            self._step.used |= part.used

    def _feel(self, tape: Tape) -> None:
        """After a backward pass: which parameters did it give nothing but 0, and where from?"""
        turn = self._step.turn
        grads = {id(t): t.grad for t in tape.roots.values() if t.is_leaf and t.grad is not None}
        fed = {key for key, grad in grads.items() if grad.any()}
        self._step.fed |= fed
        parts, self._parts = self._parts, []
        for part, loss in parts:
            self._flats += ends(part, turn)
            if len(fed) < len(grads) and loss.numel() == 1:
                self._flats += apart(lambda p=part, y=loss: zeros(p, y, turn))

    def _is_old(self, tape: Tape, cut: Cut) -> bool:
        """Whether the value's graph was used already, as at the start of a chunk of a sequence."""
        off = [e for i in cut.entries if (e := tape.entries[i]).name != NUMBER]
        last = off or [tape.entries[i] for i in cut.entries]
        return all(self._step.used.intersection(e.inputs) for e in last)

    def _measure(self, part: Slice, cuts: list[Cut], loss: Tensor) -> None:
        try:
            lost = apart(lambda: lost_at(part, cuts, loss))
        except LostError as error:
            where = ", ".join([str(c.place) for c in cuts])
            self._skipped.append(f"the cuts at {where} could not be measured: {error}")
            return
        turn, nth, names = self._step.turn, self._losses, parameter_names()
        pairs = zip(cuts, lost, strict=True)
        self._step.seen += [seen_of(part, cut, one, turn, nth, names) for cut, one in pairs]

    def _follow(self) -> None:
        """Let the script go on in copies, to see which numbers come back into a loss."""
        sites, self._sites = self._sites, {}
        if sites and not is_branch():
            rows, why = followed(sites, self._goes_on, self._seconds)
            self._step.seen += rows
            self._skipped += why

    def _goes_on(self, trial: Trial) -> None:
        """In a copy: record the next step as well, for a trial."""
        backwards = self._backwards
        self._step, self._skipped = Step(), []
        self._backwards = self._losses = 0
        self._begin()
        if self._tape is not None:
            self._trial = Going(moved(self._tape, trial), backwards)

    def findings(self, ledger: Ledger) -> list[Finding]:
        """Cuts that cost a gradient, and changes that autograd does not see."""
        ledger.skipped.extend([Skipped("one step as a whole", why) for why in self._skipped])
        if self._backwards:
            how = "calls of one step recorded, values compared before its backward passes"
            seconds = self._tape.seconds if self._tape is not None else 0.0
            what = "one step as a whole"
            ledger.checked.append(Checked(what, TRAINING, self._backwards, seconds, how))
        elif not self._skipped:
            ledger.skipped.append(Skipped("one step as a whole", "it takes two steps to see one"))
        zero = found_flat([flat for flat in self._flats if flat.gives == "0"], self._step)
        cuts = found_in(self._step)
        none = found_flat([flat for flat in self._flats if flat.gives == "none"], self._step)
        return [*self._unseen.findings, *zero, *cuts, *none]


def _applied(old: Any, level: Any, tape: Tape, unseen: Unseen) -> Any:
    """`apply` of Functions as one call; what they compute inside is their own."""
    inner: Any = getattr(old, "__func__", None)

    def run(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if inner is not None:
            return inner(cls, *args, **kwargs)
        above = cast(Any, super(level, cls))
        return above.apply(*args, **kwargs)

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not tape.active:
            return run(cls, *args, **kwargs)

        out = tape.observed(cls.__name__, tape.apart(partial(run, cls)), args, kwargs)
        unseen.keep(cls, out)
        return out

    return classmethod(apply)


def _derived(grad: Any, tape: Tape) -> Any:
    """Derivatives that the script takes by itself, as one call."""

    @wraps(grad)
    def derived(*args: Any, **kwargs: Any) -> Any:
        if not tape.active or len(args) < 2:
            return grad(*args, **kwargs)
        return tape.observed(GRAD, tape.apart(grad), args, kwargs)

    return derived


def _leaves(loss: Tensor) -> set[int]:
    from chainrule.verify.script.graphs import walk

    nodes = walk([loss.grad_fn]) if loss.grad_fn is not None else []
    return {id(node.variable) for node in nodes if hasattr(node, "variable")}
