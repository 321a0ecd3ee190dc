"""Hooks of modules: functions that look at a module's calls and gradients, and may replace them.

A full backward hook wants the gradients of all of a call's inputs at once. So such a call stands
between two `Gate`s, ops that pass everything on as it is. Gradients of its results arrive at the
gate behind the module, those of its arguments at the gate before it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from chainrule.engine.arrays import operand
from chainrule.engine.graph import Variable, apply, is_recording, tracer, variable
from chainrule.engine.op import Need, Op, Spec, new_op
from chainrule.engine.tensors import Handle
from chainrule.errors import GradientError, ShapeError
from chainrule.ops.families import conj
from chainrule.tree import flatten

if TYPE_CHECKING:
    from chainrule.nn.base.module import Module

Hook = Callable[..., Any]
Watcher = Callable[["Module"], Any]

watchers: tuple[Watcher, ...] = ()
"""Asked, with the module, for a context manager around every call of one. Set by `watching`."""


switches = 0
"""How often any module was switched between training and use: whoever remembers modes looks at
them again only when this is another number."""


def note_switch() -> None:
    """Note that a module was given a mode."""
    global switches
    switches += 1


@contextmanager
def watching(watcher: Watcher) -> Generator[None]:
    """Within it, every call of a module runs inside `watcher(module)`."""
    global watchers
    watchers = (*watchers, watcher)
    try:
        yield
    finally:
        watchers = tuple([w for w in watchers if w is not watcher])


@dataclass
class Hooks:
    """The hooks of one module by kind, each in the order of registration."""

    forward_pre: dict[int, Hook] = field(default_factory=dict[int, Hook])
    forward: dict[int, Hook] = field(default_factory=dict[int, Hook])
    backward_pre: dict[int, Hook] = field(default_factory=dict[int, Hook])
    backward: dict[int, Hook] = field(default_factory=dict[int, Hook])
    count: int = 0

    def add(self, kind: dict[int, Hook], hook: Hook) -> Handle:
        """Register `hook`; the handle's `remove()` takes it away."""
        self.count += 1
        kind[self.count] = hook
        return Handle(kind, self.count)

    def call(self, module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The module's value, with its hooks called on the way."""
        for hook in list(self.forward_pre.values()):
            new = hook(module, args)
            if new is not None:
                args = _tuple(new)
        gates = None
        if (self.backward or self.backward_pre) and is_recording():
            gates = _Gates(module, self)
            args = gates.before(args)
        result = module.forward(*args, **kwargs)
        for hook in list(self.forward.values()):
            new = hook(module, args, result)
            if new is not None:
                result = new
        return result if gates is None else gates.behind(result)


def call(module: Module, hooks: Hooks | None, args: Any, kwargs: Any) -> Any:
    """A call of a module that has hooks, or while somebody looks on."""
    if not watchers:
        return (
            module.forward(*args, **kwargs) if hooks is None else hooks.call(module, args, kwargs)
        )
    return _call_watched(watchers, module, hooks, args, kwargs)


def _call_watched(
    rest: Sequence[Watcher], module: Module, hooks: Any, args: Any, kwargs: Any
) -> Any:
    if rest:
        with rest[0](module):
            return _call_watched(rest[1:], module, hooks, args, kwargs)
    return module.forward(*args, **kwargs) if hooks is None else hooks.call(module, args, kwargs)


# --- Backward hooks ------------------------------------------------------------------------------


@dataclass(eq=False)
class _Gates:
    """What the two gates of one call know of each other."""

    module: Module
    hooks: Hooks
    size: int = 0
    """How many positional arguments the call has."""
    at: list[int] = field(default_factory=list[int])
    """Which of them pass through the gate before the module: the tensors that need a gradient."""
    grad_output: Any = ()

    def before(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, behind a gate."""
        self.size = len(args)
        self.at = [i for i, x in enumerate(args) if _open(x)]
        if not self.at:
            return args
        passed = apply(new_op(Gate, self.arrived), *[args[i] for i in self.at])
        new = list(args)
        for i, x in zip(self.at, passed, strict=True):
            new[i] = x
        return tuple(new)

    def behind(self, result: Any) -> Any:
        """The result, behind another gate."""
        leaves, structure = flatten(result)
        at = [i for i, y in enumerate(leaves) if _open(y)]
        if not at:
            return result

        def enter(gs: tuple[Any, ...]) -> tuple[Any, ...]:
            return self.entered(gs, len(leaves), at)

        passed = apply(new_op(Gate, enter), *[leaves[i] for i in at])
        for i, y in zip(at, passed, strict=True):
            leaves[i] = y
        return structure.unflatten(leaves)

    def entered(self, gs: tuple[Any, ...], size: int, at: Sequence[int]) -> tuple[Any, ...]:
        """The gradients of the results: pre-hooks may replace them."""
        outs = _spread(gs, size, at)
        for hook in list(self.hooks.backward_pre.values()):
            outs = _check_replacement(
                hook(self.module, outs), outs, "a backward pre-hook", self.module
            )
        self.grad_output = outs
        if not self.at:  # nothing before the module wants a gradient: it ends here
            self.arrived(())
        return tuple([outs[i] for i in at])

    def arrived(self, gs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the arguments: hooks may replace them."""
        bars = _spread(gs, self.size, self.at)
        for hook in list(self.hooks.backward.values()):
            new = hook(self.module, bars, self.grad_output)
            bars = _check_replacement(new, bars, "a backward hook", self.module)
        return tuple([bars[i] for i in self.at])


def _open(x: Any) -> bool:
    """Whether x is a tensor through which a gradient flows, and has a value, now or in `jit`."""
    return (
        isinstance(x, Variable)
        and x.node is not None
        and x.node.needs
        and (type(x.value) is not Spec or tracer() is not None)
    )


def _spread(gs: Sequence[Any], size: int, at: Sequence[int]) -> tuple[Any, ...]:
    """`gs` in their places among `size`, None elsewhere."""
    every: list[Any] = [None] * size
    for i, g in zip(at, gs, strict=True):
        every[i] = g
    return tuple(every)


def _tuple(x: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", x) if isinstance(x, tuple) else (x,)


def _check_replacement(
    new: Any, old: tuple[Any, ...], what: str, module: Module
) -> tuple[Any, ...]:
    """The gradients that a hook returned, checked; the old ones if it returned None."""
    if new is None:
        return old
    news = _tuple(new)
    name = type(module).__name__
    if len(news) != len(old):
        raise GradientError(
            f"{what} of {name} returned {len(news)} gradients; it was given {len(old)}: return a "
            "tuple of as many, or None to leave them as they are"
        )
    for i, (n, o) in enumerate(zip(news, old, strict=True)):
        if o is not None and (n is None or tuple(n.shape) != tuple(o.shape)):
            got = "None" if n is None else f"shape {tuple(n.shape)}"
            raise ShapeError(
                f"{what} of {name} returned {got} for gradient {i}, whose shape is {o.shape}"
            )
    return news


class Gate(Op):
    """Several values as they are. Their cotangents pass through `hook` together."""

    hook: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    many: ClassVar[bool] = True
    passes: ClassVar[bool] = True
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`gate`."""
        return "gate"

    def eval(self, *xs: Any) -> Any:
        """The inputs."""
        return xs

    def spec(self, *xs: Any) -> Any:
        """Those of the inputs."""
        return xs

    def reads(self, i: int) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """What the hook makes of the cotangents; a hook sees tensors, conjugated as `grad` is."""
        wrapped = any(isinstance(c, Variable) for c in g)
        shown = tuple([None if c is None else conj(_tensor(c)) for c in g])
        bars = [None if b is None else conj(_tensor(b)) for b in self.hook(shown)]
        return bars if wrapped else [None if b is None else b.value for b in bars]

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangents."""
        return tuple(
            [np.zeros(x.shape, x.dtype) if t is None else t for t, x in zip(ts, xs, strict=True)]
        )


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Variable) else variable(np.asarray(operand(x)))
