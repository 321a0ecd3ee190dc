"""When a step of training is done, in chainrule's scripts.

Three ways lead to one: an optimizer, `grad` (or another operator) of one function at other and
other values, and a compiled function that has either of these in it. That runs in Python while it
is traced only, so that its own calls are the steps.
"""

# pyright: reportPrivateUsage=false
# (all operators are one run of a function and one sweep over it, which this file counts)

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.engine.graph import tracer
from chainrule.engine.node import Node
from chainrule.engine.op import Array, Spec
from chainrule.engine.tensors import Tensor
from chainrule.transforms.functional import _Run
from chainrule.tree import flatten
from chainrule.verify.installed_compiler import compiled_classes
from chainrule.verify.patches import Patches
from chainrule.verify.script.clock import Steps
from chainrule.verify.training.record.library import native_library

if TYPE_CHECKING:
    from chainrule.compile.jit import Jitted


def watch_native(steps: Steps, patches: Patches) -> Callable[[Patches], None]:
    """Let chainrule's backward passes, operators and compiled functions count; and its optimizers
    from the call of what is returned on.

    Observers are put in place between the two: they hear of a backward pass before it ends a step
    by hand, and of the end of an optimizer's step before it counts, since the last one that counts
    takes them away.
    """
    own, library = _NativeClock(steps, patches), native_library()

    def made(_: None, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        steps.note_optimizer([group["params"] for group in optimizer.param_groups])

    patches.after(library.optimizer, "__init__", made)
    for owner, name in library.backward:
        patches.around(owner, name, own.unless_traced(steps.count_pass))
    patches.around(_Run, "__init__", own.unless_traced(own.count_run))
    for name in ("pull", "push"):
        patches.before(_Run, name, own.note_derivative)
    for cls in compiled_classes():
        patches.around(cls, "__call__", own.count_compiled)
        patches.around(cls, "loop", own.count_compiled)

    def watch_steps(outer: Patches) -> None:
        outer.around(library.optimizer, "step", own.unless_traced(steps.count_step))
        outer.around(library.scaler, "step", steps.count_scaler)

    return watch_steps


@final
class _NativeClock:
    """What has to be remembered from one call to the next."""

    def __init__(self, steps: Steps, patches: Patches) -> None:
        self._steps = steps
        self._patches = patches
        self._at: dict[Any, list[Array]] = {}
        """By function: the values at which its derivative was taken last."""
        self._running: list[Jitted] = []
        """Compiled functions that are being called."""
        self._trains: list[Jitted] = []
        """Those of them that were seen to hold a step."""

    def unless_traced(self, counted: Callable[..., Any]) -> Callable[..., Any]:
        """`counted(f, ...)`, and `f(...)` in a function that is being traced: which holds a step
        then."""

        def observed(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            if tracer() is None:
                return counted(f, *args, **kwargs)
            if self._running and self._running[0] not in self._trains:
                self._trains.append(self._running[0])
                self._steps.compiled.append(self._running[0]._name)
            return f(*args, **kwargs)

        return observed

    def count_run(
        self, init: Callable[..., None], run: Any, f: Any, argnums: Any, args: Any, kwargs: Any
    ) -> None:  # fmt: skip
        """The run of a function that is to be differentiated; at other values it is a step."""
        with self._steps.inside() as outermost:
            if outermost:
                self._patches.tried(lambda: self._begins(run, f, argnums, args))
            init(run, f, argnums, args, kwargs)

    def _begins(self, run: Any, f: Any, argnums: Any, args: Sequence[Any]) -> None:
        places = _differentiated_leaves(argnums, args)
        if any(isinstance(x, Tensor) and x.requires_grad and not x.is_leaf for x in places):
            return  # it was computed, and somebody will differentiate what comes of it
        key = run.key = function_key(f)
        if key in self._at and _differ(self._at[key], [_value(x) for x in places]):
            del self._at[key]
            self._steps.note_iteration(key)

    def note_derivative(self, run: Any, outs: Sequence[Any], *_: Any) -> None:
        """Note where a derivative is taken, if nobody can differentiate it by what is used beside
        its arguments. For many examples at once the values are those that the examples share."""
        self._steps.note_derivative()
        key, values = getattr(run, "key", None), [x.value for x in run.aliases]
        if key is None or any(type(x) is Spec for x in values):
            return
        first = min([x.node.serial for x in run.aliases], default=0)
        of_many = any(type(o.value) is Spec for o in outs)
        walk: list[Node] = [] if of_many else run.walk(outs)[0]
        if not any(n.op is None and n.serial < first for n in walk):
            self._at[key] = values

    def count_compiled(
        self, call: Callable[..., Any], jitted: Any, /, *args: Any, **kwargs: Any
    ) -> Any:  # fmt: skip
        """A call of a compiled function, which is a step if there is one in it."""
        outermost = not self._running and tracer() is None
        self._running.append(jitted)
        try:
            result = call(jitted, *args, **kwargs)
        finally:
            self._running.pop()
        if outermost and jitted in self._trains:
            self._steps.note_step(jitted)
        return result


def function_key(f: Any) -> Any:
    """What is the same for a function that is made anew in each step."""
    while isinstance(f, partial):
        f = f.func
    f = inspect.unwrap(f)
    code = getattr(f, "__code__", None)
    return (code, f.__qualname__) if code is not None else id(f)


def _differentiated_leaves(argnums: Any, args: Sequence[Any]) -> list[Any]:
    """The leaves of the arguments that are differentiated."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    return flatten([args[n] for n in numbers])[0]


def _value(x: Any) -> Array:
    return np.asarray(x.value if isinstance(x, Tensor) else x)


def _differ(old: Sequence[Array], new: Sequence[Array]) -> bool:
    """Whether arrays of the same shapes have other values."""
    same = [a.shape for a in old] == [b.shape for b in new]
    return same and any(not np.array_equal(a, b) for a, b in zip(old, new, strict=True))
