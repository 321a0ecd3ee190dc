"""One step of a chainrule script as a whole: cuts on the way from parameters to a loss.

A loss is what `backward()` is called on, or the result of a function that `grad` differentiates:
then its parameters are the arguments, in the places that stand for them inside.
"""

# pyright: reportPrivateUsage=false
# (all operators are one run of a function and one sweep over it, and all numbers leave by one door)

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import Any, cast, final

import numpy as np

from chainrule.engine import watch
from chainrule.engine.graph import Around, around, order, tracer
from chainrule.engine.node import Node
from chainrule.engine.tensors import Tensor
from chainrule.nn.base.module import Module
from chainrule.optim.optimizer import Optimizer
from chainrule.transforms.functional import _Run
from chainrule.verify.compiled import compiled_classes
from chainrule.verify.own.call import paths
from chainrule.verify.patches import Patches
from chainrule.verify.reading import argument_names
from chainrule.verify.script.native_clock import function_key
from chainrule.verify.script.step.native_rerun import Own, OwnRerun
from chainrule.verify.script.step.native_tape import HOW, OwnTape
from chainrule.verify.script.step.numbers import Moved, Trial
from chainrule.verify.script.step.one_step import OneStep
from chainrule.verify.training.facts.names import parameter_names
from chainrule.verify.training.text.edits import name_of


@final
class OwnWhole(OneStep):
    """Records one step of a chainrule script."""

    def __init__(self) -> None:
        super().__init__(Own(), OwnRerun)
        self._trains = False
        self._tape: OwnTape | None = None
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

    def start(self) -> None:
        """Wait for the first step to be done; the runs that begin until then are known."""
        self._runs.put(_Run, "__init__", self._running)

    def stop(self) -> None:
        """Record no more."""
        self._runs.undo()
        super().stop()

    @property
    def _calls(self) -> OwnTape | None:
        return self._tape

    def _begin(self) -> None:
        self._began()
        self._tape = tape = OwnTape()
        around.set((tape, around.get()))
        put = self._patches.put
        self._patches.after(Tensor, "detach", partial(tape.cut, "detach"))
        put(Tensor, "data", self._data)
        self._patches.after(Module, "load_state_dict", self._loaded)
        put(Tensor, "_concrete", self._known)
        put(Tensor, "backward", self._backward)
        put(_Run, "pull", self._pulls)
        put(Optimizer, "step", self._steps)
        for name in ("__call__", "loop"):
            for cls in compiled_classes():
                put(cls, name, self._compiled)

    def _end(self) -> None:
        if self._tape is None or not self._patches.on:
            return
        self._ended()
        self._patches.undo()
        if (outer := self._stands()) is not None:
            around.set(outer[1])  # else somebody stands before it, and puts back what was there
        if self._tape.broken:
            self._skipped.append(self._tape.broken)
        self._tape.clear()

    def _stands(self) -> Around:
        """What stands at the door of ops, if it is the tape."""
        outer = around.get()
        return outer if outer is not None and outer[0] is self._tape else None

    @contextmanager
    def _away(self) -> Generator[None]:
        """Within it the tape stands there no more."""
        outer = self._stands()
        if outer is None:
            yield
            return
        around.set(outer[1])
        try:
            yield
        finally:
            if self._is_on(outer[0]) and around.get() is outer[1]:
                around.set(outer)  # else the step has ended within it

    @contextmanager
    def _resting(self, tape: OwnTape) -> Generator[None]:
        """Within it nothing is recorded."""
        tape.active = False
        try:
            with self._away():
                yield
        finally:
            tape.active = self._is_on(tape) and not tape.broken

    def _is_on(self, tape: Any) -> bool:
        """Whether that is what records."""
        return self._patches.on and tape is self._tape

    def _compiled(self, call: Callable[..., Any]) -> Any:
        """A compiled function, which takes a longer way where somebody stands at the door."""

        @wraps(call)
        def observed(*args: Any, **kwargs: Any) -> Any:
            if watch.watches:  # it runs in Python
                return call(*args, **kwargs)
            with self._away():
                return call(*args, **kwargs)

        return observed

    # --- what leaves the graph

    def _loaded(self, _: Any, module: Module, *args: Any, **kwargs: Any) -> None:
        """Weights that a module is given, an average of another's say, are constants then."""
        if self._tape is not None:
            for _, tensor in module.named_tensors():
                self._tape.forget(tensor)

    def _data(self, old: property) -> property:
        def data(x: Any) -> Any:
            y = cast(Any, old.fget)(x)
            if self._tape is not None and tracer() is None:
                self._tape.cut("data", y, x)
            return y

        return property(data, old.fset, doc=old.__doc__)

    def _known(self, known: Callable[..., Any]) -> Any:
        @wraps(known)
        def observed(x: Any, what: str) -> Any:
            value = known(x, what)
            tape = self._tape
            if tape is None or not tape.active or tracer() is not None or what not in HOW:
                return value
            with suppress(Exception):
                if self._moves is not None:
                    return np.asarray(self._moves.leaves(x, value))
                tape.left(x, value, what)
            return value

        return observed

    # --- losses

    def _backward(self, run: Callable[..., None]) -> Any:
        @wraps(run)
        def backward(y: Any, *args: Any, **kwargs: Any) -> None:
            return self._passing(y, lambda: run(y, *args, **kwargs))

        return backward

    def _running(self, init: Callable[..., None]) -> Any:
        @wraps(init)
        def observed(run: Any, f: Any, argnums: Any, args: Sequence[Any], kwargs: Any) -> None:
            self._depth += 1
            try:
                init(run, f, argnums, args, kwargs)
            finally:
                self._depth -= 1
            self._trains |= tracer() is None and self._tape is not None
            if not self._depth and self._patches.on:
                with suppress(Exception):
                    self._know(run, f, argnums, args)

        return observed

    def _know(self, run: Any, f: Any, argnums: Any, args: Sequence[Any]) -> None:
        """Remember the names of the places that stand for the arguments of a run."""
        assert self._tape is not None
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        names = argument_names(f, len(args))
        full = [f"{names[n]}{path}" for n in numbers for path in paths(args[n], "")]
        for i, (x, name) in enumerate(zip(run.aliases, full, strict=True)):
            self._called[id(x)] = name
            same = self._arguments.setdefault((function_key(f), i), object())
            self._tape.places[id(x)] = id(same)

    def _pulls(self, pull: Callable[..., Any]) -> Any:
        @wraps(pull)
        def observed(run: Any, outs: Sequence[Any], gs: Sequence[Any]) -> Any:
            if self._depth or len(outs) != 1 or run.walk(outs)[1]:
                return pull(run, outs, gs)
            return self._passing(outs[0], lambda: pull(run, outs, gs))

        return observed

    def _passing(self, loss: Any, run: Callable[[], Any]) -> Any:
        """A backward pass from a loss, which is looked at before; what it computes is its own."""
        tape = self._tape
        if tape is None or not tape.active or tracer() is not None:
            return run()
        self._trains = True
        with self._resting(tape):
            try:
                self._look(tape, [loss])
            except Exception as error:
                self._skipped.append(f"{type(error).__name__}: {error}")
            self._looked()
            return run()

    def _steps(self, step: Callable[..., Any]) -> Any:
        @wraps(step)
        def observed(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            tape = self._tape
            if tape is None or not tape.active or tracer() is not None:
                return step(optimizer, *args, **kwargs)
            try:
                with self._resting(tape):
                    return step(optimizer, *args, **kwargs)
            finally:
                self._step.steps({id(p) for g in optimizer.param_groups for p in g["params"]})

        return observed

    # --- what `OneStep` asks

    def _is_whole(self) -> bool:
        return True

    def _leaves(self, loss: Any) -> set[int]:
        tape = self._tape
        assert tape is not None
        found: set[Node] = set(order([loss.node])) if loss.node is not None else set()
        self._behind |= {node for node in found if node.op is None}
        known = found | self._behind
        return {tape.ident(t) for t in tape.roots.values() if t.node in known}

    def _names(self) -> Mapping[int, str]:
        tape = self._tape
        assert tape is not None
        known = {**parameter_names(Module, name_of), **self._called}
        return {id(t): known.get(id(t)) or name_of(t) or "a leaf" for t in tape.roots.values()}

    def _moved(self, trial: Trial) -> Moved:
        assert self._tape is not None
        made = Moved(self._tape, trial, self._library)
        self._moves = made if trial.site else None
        return made
