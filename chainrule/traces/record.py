"""`record`: one run of a program as a trace."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, final, overload

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import order
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import GradientError
from chainrule.scalar import Value
from chainrule.scalar.value import backward_listeners
from chainrule.traces import names
from chainrule.traces.certificates.certify import add_certificates, is_small
from chainrule.traces.kept_values import MAX_ELEMENTS, Keeper
from chainrule.traces.merged_traces import merge, without_unused
from chainrule.traces.scalars import ScalarRecorder
from chainrule.traces.sweeps import without_observers
from chainrule.traces.tensors import TensorRecorder, label_by_lines
from chainrule.traces.trace import Node, Sweep, Trace
from chainrule.tree import flatten

if TYPE_CHECKING:
    from chainrule.traces.pytorch import TorchRecorder


_torch_patches = threading.RLock()
"""PyTorch's functions are replaced for one thread at a time: others record without them."""


@overload
def record(
    *, max_elements: int | None = MAX_ELEMENTS, certify: bool | None = None
) -> Recording: ...
@overload
def record(
    f: Callable[..., Any],
    *args: Any,
    max_elements: int | None = MAX_ELEMENTS,
    certify: bool | None = None,
) -> Trace: ...
def record(
    f: Callable[..., Any] | None = None,
    *args: Any,
    max_elements: int | None = MAX_ELEMENTS,
    certify: bool | None = None,
) -> Any:
    """One run of `f(*args)` as a trace, or, without `f`, of a `with` block.

    Every op that is applied is a node, with its value, its line and its module; every backward
    sweep is a list of messages: upstream gradient, local derivative, contribution. What a training
    step does is recorded as it is. Where `f` runs no backward pass, its result is differentiated,
    in which case floats and arrays among `args` are inputs with a gradient; nothing is left in
    `.grad`. Works for tensors, for `Value`s, for functions under `jit`, and for PyTorch's programs,
    of which the nodes are those of its autograd graph.

    The program runs op by op: its results keep their bits, except where they would come from
    compiled code (functions under `jit`, composites of 64 elements or more).

    Arrays of more than `max_elements` are kept as summaries (None keeps all of them). With
    `certify` each contribution is compared with differences of its op's value, and each gradient
    with differences of the result, and gets a `Certificate`; None does so for small traces.
    Raises `GradientError` where nothing that ran has a gradient.

    >>> import chainrule as cr
    >>> trace = cr.record(lambda a, b: a * b + a, 2.0, 3.0)
    >>> trace.gradient(trace.find("a")).item(), trace.gradient(trace.find("b")).item()
    (4.0, 2.0)
    """
    if f is None:
        return Recording(max_elements, certify)
    recording = Recording(max_elements, certify)
    return recording.of(f, args)


@final
class Recording:
    """What `with record() as trace:` gives: after the block it answers as its `Trace` does."""

    def __init__(
        self,
        max_elements: int | None,
        certify: bool | None = None,
        torch_pass_ended: Callable[[Any], None] = lambda result: None,
    ) -> None:
        self._certify, self._torch_pass_ended = certify, torch_pass_ended
        self._keeper = Keeper(max_elements)
        self._tensors = TensorRecorder(self._keeper)
        self._torch: TorchRecorder | None = None
        self._scalars: list[ScalarRecorder] = []
        self._thread = threading.get_ident()
        self._exit = ExitStack()
        self._trace: Trace | None = None
        self.ops: Sequence[Any] = ()
        """What made each node of the trace."""

    # --- a block

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        if error is None and caller is not None:
            self.finish(_title(caller), names.scopes_of_frame(caller))

    @property
    def trace(self) -> Trace:
        """The trace. Raises `GradientError` while the block is running."""
        if self._trace is None:
            raise GradientError("record: the trace is complete when the `with` block has ended")
        return self._trace

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and not name.startswith("_repr_"):
            raise AttributeError(name)
        return getattr(self.trace, name)

    def __repr__(self) -> str:
        return "a recording that runs" if self._trace is None else repr(self._trace)

    # --- a function

    def of(self, f: Callable[..., Any], args: Sequence[Any]) -> Trace:
        """Run `f(*args)`; its trace."""
        leaves, structure = flatten(list(args))
        inputs = [as_input(x) for x in leaves]
        given = structure.unflatten(inputs)
        self.start()
        try:
            result = f(*given)
            if not self.has_backward:
                self._differentiate(result)
        finally:
            self.stop()
        title = getattr(f, "__qualname__", type(f).__name__).replace("<locals>.", "")
        return self.finish(title, names.scopes_of(f), names.argument_names(f, given))

    # --- any piece of a program

    def start(self) -> None:
        """Record from here on."""
        self._exit.enter_context(self._tensors.running())
        if "torch" in sys.modules and _torch_patches.acquire(blocking=False):
            self._exit.callback(_torch_patches.release)
            from chainrule.traces.pytorch import TorchRecorder  # an extra: it may not be there

            self._torch = TorchRecorder(self._keeper, self._torch_pass_ended)
            self._exit.enter_context(self._torch.running())
        backward_listeners.append(self._scalar_backward)
        self._exit.callback(backward_listeners.remove, self._scalar_backward)

    def _scalar_backward(self, root: Value) -> None:
        if threading.get_ident() == self._thread:
            self._scalars.append(ScalarRecorder(root))

    def _differentiate(self, result: Any) -> None:
        """Go back from the result of a function that did not do so itself."""
        y = next((x for x in flatten(result)[0] if _is_result(x)), None)
        if self._torch is not None and not isinstance(y, Tensor | Value | None):
            self._torch.differentiate(y)
        if isinstance(y, Value):
            self._scalars.append(ScalarRecorder(y))
        elif isinstance(y, Tensor) and y.node is not None and y.node.needs:
            seed = np.ones(y.shape, y.dtype)
            walk = order([y.node])
            pullback_nodes(walk, {y.node: seed}, None, record=False, free=False)

    def stop(self) -> None:
        """Record no more."""
        self._exit.close()

    @property
    def has_backward(self) -> bool:
        """Whether a backward pass was recorded."""
        torch = self._torch is not None and self._torch.has_passes
        return torch or self._tensors.has_passes or bool(self._scalars)

    def finish(
        self, title: str, scopes: Sequence[Any], given: names.Pairs = (), *, pruned: bool = False
    ) -> Trace:
        """The trace, with names from these scopes; `pruned`, without what no sweep depends on."""
        pairs = [*given, *names.variable_names(scopes)]
        self._tensors.name(names.parameter_names(scopes), "parameter")
        self._tensors.name(given, "input")
        self._tensors.name(pairs)
        parts: list[tuple[tuple[Node, ...], tuple[Sweep, ...]]] = [self._tensors.finish()]
        ops: list[Any] = [*self._tensors.ops]
        lines = self._tensors.lines()
        if self._torch is not None:
            self._torch.name([*pairs, *[(n, x) for scope in scopes for n, x in scope.items()]])
            parts.append(self._torch.finish())
            ops += self._torch.ops
            lines |= self._torch.lines()
        for recorder in self._scalars:
            nodes, sweep = recorder.finish(pairs)
            parts.append((nodes, (sweep,)))
            ops += recorder.ops
        nodes, sweeps = merge(parts)
        if not nodes:
            raise GradientError(
                "record: nothing ran that has a gradient: the function, or the block, applies no "
                "op to a tensor with a gradient, and calls no backward() of a Value (passes under "
                "torch.func.vmap are not recorded)"
            )
        if pruned:
            nodes, sweeps, ops = without_unused(nodes, sweeps, ops)
        nodes = label_by_lines(nodes, lambda line: names.assigned_name(lines.get(line, "")))
        trace, self.ops = Trace(title, nodes, sweeps, lines), ops
        if self._certify or (self._certify is None and is_small(trace)):
            with without_observers():
                trace = add_certificates(trace, ops, all_of_it=bool(self._certify))
        self._trace = trace
        return trace


def _is_result(x: Any) -> bool:
    return isinstance(x, Tensor | Value) or hasattr(x, "grad_fn")


def as_input(x: Any) -> Any:
    """A float or an array as a tensor with a gradient; anything else as it is."""
    if not isinstance(x, float | np.ndarray | np.generic):
        return x
    value = asarray(x)
    return Tensor(value.value, None, requires_grad=value.dtype.kind in INEXACT)


def _title(frame: FrameType) -> str:
    name = frame.f_code.co_name
    return "program" if name == "<module>" else name
