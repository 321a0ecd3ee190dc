"""One step of a chainrule script: how its ops are seen, and what leaves the graph without an op.

A loss is what `backward()` is called on, or the result of a function that `grad` differentiates:
then its parameters are the arguments, in the places that stand for them inside.
"""

# pyright: reportPrivateUsage=false
# (all operators are one run of a function and one sweep over it, and all numbers leave by one door)

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, cast, final

import numpy as np

from chainrule.engine import watch
from chainrule.engine.graph import Around, around, order, tracer
from chainrule.engine.node import Node
from chainrule.engine.tensors import Tensor
from chainrule.nn.base.module import Module
from chainrule.transforms.functional import _Run
from chainrule.verify.finding import Finding
from chainrule.verify.installed_compiler import compiled_classes
from chainrule.verify.own.call import paths
from chainrule.verify.patches import Patches
from chainrule.verify.script.native_clock import function_key
from chainrule.verify.script.step.cuts.cut_findings import Step, cut_findings
from chainrule.verify.script.step.cuts.moved_numbers import Moved, Trial
from chainrule.verify.script.step.one_step import OneStep
from chainrule.verify.script.step.record.native_tape import HOW, NativeTape, NativeTensors
from chainrule.verify.script.step.record.recorder import Recorder
from chainrule.verify.training.facts.names import parameter_names
from chainrule.verify.training.text.edits import name_of
from chainrule.verify.user_code import argument_names


@final
class NativeRecorder(Recorder[NativeTape]):
    """Records a step of chainrule's."""

    def __init__(self) -> None:
        super().__init__(NativeTensors())
        self.trains = False
        self._patches = Patches()
        self._runs = Patches()
        self._moves: Moved | None = None
        self._depth = 0
        self._behind: set[Node] = set()
        """Leaves that backward passes have reached: who they are is known once they are read."""
        self._called: dict[int, str] = {}
        """Names of the places that stand for arguments, by their ids."""
        self._arguments: dict[Any, object] = {}
        """By function and number: something that stands for an argument in each step."""

    @property
    def is_on(self) -> bool:
        """From `begin` to `end`."""
        return self._patches.on

    def watch(self) -> None:
        """The runs that begin until a step is recorded are known."""
        self._runs.around(_Run, "__init__", self._running)

    def unwatch(self) -> None:
        """See no more."""
        self._runs.undo()

    def begin(self, step: OneStep) -> NativeTape:
        """Record from now on."""
        tape = NativeTape()
        around.set((tape, around.get()))
        self._patches.after(Tensor, "detach", partial(tape.cut, "detach"))
        self._patches.put(Tensor, "data", self._data)
        self._patches.after(Module, "load_state_dict", self._loads)
        self._patches.around(Tensor, "_concrete", self._known)
        self._patches.around(_Run, "pull", partial(self._pulls, step))
        for name in ("__call__", "loop"):
            for cls in compiled_classes():
                self._patches.around(cls, name, self._compiled)
        return tape

    def end(self) -> None:
        """Record no more."""
        self._patches.undo()
        if (outer := self._place()) is not None:
            around.set(outer[1])  # else somebody stands before it, and puts back what was there

    def _place(self) -> Around:
        """What stands at the door of ops, if it is the tape."""
        outer = around.get()
        return outer if outer is not None and outer[0] is self.tape else None

    @contextmanager
    def _away(self) -> Generator[None]:
        """Within it the tape stands there no more."""
        outer = self._place()
        if outer is not None:
            around.set(outer[1])
        try:
            yield
        finally:
            if outer is not None and self.is_on and around.get() is outer[1]:
                around.set(outer)  # else the step has ended within it

    def _compiled(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """A compiled function, which takes a longer way where somebody stands at the door."""
        if watch.watches:  # it runs in Python
            return call(*args, **kwargs)
        with self._away():
            return call(*args, **kwargs)

    # --- what leaves the graph

    def _loads(self, _: Any, module: Module, *args: Any, **kwargs: Any) -> None:
        """Weights that a module is given, an average of another's say, are constants then."""
        if self.tape is not None:
            for _, tensor in module.named_tensors():
                self.tape.forget(tensor)

    def _data(self, old: property) -> property:
        def data(x: Any) -> Any:
            y = cast(Any, old.fget)(x)
            if self.tape is not None and tracer() is None:
                self.tape.cut("data", y, x)
            return y

        return property(data, old.fset, doc=old.__doc__)

    def _known(self, known: Callable[..., Any], x: Any, what: str) -> Any:
        value = known(x, what)
        tape = self.tape
        if tape is None or not tape.active or tracer() is not None or what not in HOW:
            return value
        with suppress(Exception):
            if self._moves is not None:
                return np.asarray(self._moves.on_exit(x, value))
            tape.exit(x, value, what)
        return value

    # --- functions that are differentiated

    def _running(
        self, init: Callable[..., None], run: Any, f: Any, argnums: Any, args: Any, kwargs: Any
    ) -> None:  # fmt: skip
        self._depth += 1
        try:
            init(run, f, argnums, args, kwargs)
        finally:
            self._depth -= 1
        self.trains |= tracer() is None and self.tape is not None
        if not self._depth and self.is_on:
            with suppress(Exception):
                self._name_arguments(run, f, argnums, args)

    def _name_arguments(self, run: Any, f: Any, argnums: Any, args: Sequence[Any]) -> None:
        """Remember the names of the places that stand for the arguments of a run."""
        assert self.tape is not None
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        names = argument_names(f, len(args))
        full = [f"{names[n]}{path}" for n in numbers for path in paths(args[n], "")]
        for i, (x, name) in enumerate(zip(run.aliases, full, strict=True)):
            self._called[id(x)] = name
            same = self._arguments.setdefault((function_key(f), i), object())
            self.tape.arguments[id(x)] = id(same)

    def _pulls(
        self, step: OneStep, pull: Callable[..., Any], run: Any, outs: Sequence[Any], gs: Any
    ) -> Any:  # fmt: skip
        """The sweep over a function, which is a backward pass from its one result."""
        within = self._depth or tracer() is not None
        if within or len(outs) != 1 or run.walk(outs)[1] or not step.pause():
            return pull(run, outs, gs)
        try:
            step.look_back(outs)
            return pull(run, outs, gs)
        finally:
            step.resume()

    # --- what `OneStep` asks

    def leaves(self, loss: Any) -> set[int]:
        """Roots that are leaves of its graph, or of one that was walked before."""
        assert self.tape is not None
        found: set[Node] = set(order([loss.node])) if loss.node is not None else set()
        self._behind |= {node for node in found if node.op is None}
        known = found | self._behind
        return {self.tape.identity(t) for t in self.tape.roots.values() if t.node in known}

    def names(self) -> Mapping[int, str]:
        """Names within modules, of arguments, or of variables."""
        assert self.tape is not None
        known = {**parameter_names(Module, name_of), **self._called}
        return {id(t): known.get(id(t)) or name_of(t) or "a leaf" for t in self.tape.roots.values()}

    def findings(self, step: Step) -> list[Finding]:
        """Cuts."""
        return cut_findings(step)

    def move(self, trial: Trial) -> Moved:
        """Where numbers leave."""
        assert self.tape is not None
        made = Moved(self.tape, trial, self.tensors)
        self._moves = made if trial.site else None
        return made
