"""One step of a PyTorch script as a whole: cuts (see `onestep`), changes that autograd does not
see, and calls without a slope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, wraps
from time import perf_counter
from typing import Any, cast

import torch
from torch import Tensor

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.patches import Patches
from chainrule.verify.pytorch.door import unseen
from chainrule.verify.script.backwards.graphs import walk
from chainrule.verify.script.clock import BACKWARD
from chainrule.verify.script.sandbox.fork import apart
from chainrule.verify.script.step.cuts import Slice
from chainrule.verify.script.step.entries import GRAD
from chainrule.verify.script.step.flat import Flat, ends, found_flat, zeros
from chainrule.verify.script.step.lost import found_in
from chainrule.verify.script.step.numbers import Moved, Trial
from chainrule.verify.script.step.one_step import OneStep
from chainrule.verify.script.step.rest import Rest
from chainrule.verify.script.step.scaled import scaled
from chainrule.verify.script.step.tape import Tape
from chainrule.verify.script.step.terms import Overwritten, found_overwritten, overwritten
from chainrule.verify.script.step.torch_rerun import Torch, TorchRerun, moved
from chainrule.verify.script.step.trained import Trained
from chainrule.verify.script.step.unseen import Unseen
from chainrule.verify.training.facts.names import parameter_names


class WholeObserver(OneStep):
    """Records one step and looks for what autograd does not see in it."""

    def __init__(self) -> None:
        super().__init__(Torch(), TorchRerun)
        self._tape: Tape | None = None
        self._patches = Patches()
        self._hooks: list[Any] = []
        self._unseen = Unseen()
        self._parts: list[tuple[Slice, Tensor]] = []
        """What the losses of a backward pass depend on."""
        self._flats: list[Flat] = []
        self._overwritten: dict[Overwritten, None] = {}
        self._scaled: list[Finding] = []
        self._ends = 0
        self._read = 0
        """How many calls were recorded by the last backward pass."""
        self._compiling = Patches()
        self._trained = Trained()
        self._unsuited = ""
        """Why the calls of a step cannot be recorded; empty if they can."""

    def start(self) -> None:
        """Wait for the first step to be done; what is compiled until then cannot be recorded."""
        for owner in (torch, torch.nn.Module):
            self._compiling.put(owner, "compile", self._compiles)
        self._trained.start()

    def _compiles(self, compile: Any) -> Any:
        @wraps(compile)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            self._unsuited = "compiled code cannot be recorded without changing what it computes"
            return compile(*args, **kwargs)

        return compiled

    @property
    def _calls(self) -> Tape | None:
        return self._tape

    def stop(self) -> None:
        """Record no more."""
        self._compiling.undo()
        super().stop()
        self._trained.stop()

    def _begin(self) -> None:
        if self._unsuited:
            self._skipped.append(self._unsuited)
            return
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        self._began()
        self._tape = tape = Tape()
        level: Any = torch.autograd.Function.__mro__[1]
        self._patches.put(level, "apply", lambda old: _applied(old, level, tape, self._unseen))
        for owner, name in BACKWARD[:2]:
            self._patches.put(owner(torch), name, self._watched)
        self._patches.put(torch.autograd, "grad", lambda old: self._deriving(old, tape))
        self._patches.put(torch.optim.Optimizer, "zero_grad", self._forgetting)
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
        self._ended()
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

    def _is_whole(self) -> bool:
        """Without an optimizer one begins behind its forward pass, with its first backward pass. If
        it has several of them, only the next one is seen from its beginning."""
        self._ends += 1
        return bool(self._step.stepped) or self._backwards <= 1 or self._ends > 1

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

    def _forgetting(self, reset: Any) -> Any:
        """To give up gradients changes no value."""

        @wraps(reset)
        def zero_grad(optimizer: Any, set_to_none: bool = True) -> None:
            tape = self._tape
            if tape is None or not (tape.active and set_to_none):
                return reset(optimizer, set_to_none)
            self._pause(tape)
            try:
                reset(optimizer, set_to_none)
            finally:
                self._resume(tape)

        return zero_grad

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
            losses = [tensors] if isinstance(tensors, Tensor) else list(tensors)
            self._goes_back(tape, losses)
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

    def _goes_back(
        self, tape: Tape, losses: Sequence[Tensor], leaves: set[int] | None = None
    ) -> None:
        """Before a backward pass: what does it not see?"""
        start = perf_counter()
        try:
            with unseen():
                self._unseen.compare(tape, losses)
                parts = self._look(tape, losses, leaves)
                self._parts += parts
                self._scaled += [f for part, _ in parts for f in scaled(part)]
                self._note_overwritten(tape, [part for part, _ in parts])
        except Exception as error:
            self._skipped.append(f"{type(error).__name__}: {error}")
        self._looked()
        tape.seconds += perf_counter() - start

    def _deriving(self, grad: Any, tape: Tape) -> Any:
        """`autograd.grad`. By parameters, and without a graph of its own, it is a backward pass
        whose gradients the program gives to them itself."""
        recorded = _derived(grad, tape)

        @wraps(grad)
        def deriving(*args: Any, **kwargs: Any) -> Any:
            leaves = self._trained.by_grad(*args, **kwargs) if tape.active else set[int]()
            if leaves:
                self._pause(tape)
                self._goes_back(tape, [args[0] if args else kwargs["outputs"]], leaves)
                self._parts.clear()
                self._resume(tape)
            return recorded(*args, **kwargs)

        return deriving

    def _note_overwritten(self, tape: Tape, parts: Sequence[Slice]) -> None:
        alive = tape.alive()
        rows = [row for part in parts for row in overwritten(part, self._read, alive.__contains__)]
        self._overwritten.update(dict.fromkeys(rows))
        self._read = len(tape.entries)

    def _feel(self, tape: Tape) -> None:
        """After a backward pass: which parameters did it give nothing but 0, and where from?"""
        turn = self._step.turn
        grads = {id(t): t.grad for t in tape.roots.values() if t.is_leaf and t.grad is not None}
        fed = {key for key, grad in grads.items() if _is_any(grad)}
        self._step.fed |= fed
        parts, self._parts = self._parts, []
        for part, loss in parts:
            self._flats += ends(part, turn)
            if len(fed) < len(grads) and loss.numel() == 1:
                self._flats += apart(lambda p=part, y=loss: zeros(p, y, turn))

    def _leaves(self, loss: Tensor) -> set[int]:
        nodes = walk([loss.grad_fn]) if loss.grad_fn is not None else []
        return {id(node.variable) for node in nodes if hasattr(node, "variable")}

    def _names(self) -> Mapping[int, str]:
        return parameter_names(torch.nn.Module)

    def _moved(self, trial: Trial) -> Moved:
        return moved(cast(Tape, self._tape), trial)

    def findings(self, ledger: Ledger) -> list[Finding]:
        """Cuts that cost a gradient, and changes that autograd does not see."""
        how = "calls of one step recorded, values compared before its backward passes"
        self._noted(ledger, how, self._tape.seconds if self._tape is not None else 0.0)
        zero = found_flat([flat for flat in self._flats if flat.gives == "0"], self._step)
        cuts = found_in(self._step)
        none = found_flat([flat for flat in self._flats if flat.gives == "none"], self._step)
        lost = [found_overwritten(row) for row in self._overwritten]
        return [*self._unseen.findings, *self._scaled, *zero, *cuts, *none, *lost]


def _is_any(grad: Tensor) -> bool:
    """Whether an element is not 0. Nearly always its first row tells."""
    dense = grad.layout is torch.strided and grad.dim() > 1
    return bool((dense and grad[:1].any()) or grad.any())


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
        named = [name for name in ("outputs", "inputs")[len(args) :] if name in kwargs]
        if not tape.active or len(args) + len(named) < 2:
            return grad(*args, **kwargs)
        args += tuple([kwargs.pop(name) for name in named])
        return tape.observed(GRAD, tape.apart(grad), args, kwargs)

    return derived
