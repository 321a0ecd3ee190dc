"""The recorder of PyTorch's programs: what it replaces while it runs, and names of nodes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, final

import torch

from chainrule.engine.provenance import is_inside
from chainrule.engine.provenance import line_of as number_of_line
from chainrule.engine.source_text import source_line
from chainrule.traces.certificates.probes import CustomFunctionCall
from chainrule.traces.kept_values import Keeper
from chainrule.traces.pytorch.calls import CallRecorder, TorchCall, as_list, number_of
from chainrule.traces.pytorch.graph import Event, TorchGraph
from chainrule.traces.pytorch.sweeps import TorchSweeps
from chainrule.traces.tensors import SourceLine, line_of
from chainrule.traces.trace import Node, Sweep
from chainrule.verify.patches import Patches

_TORCH = str(Path(torch.__file__).parent) + os.sep
_core: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_top_hooks: Callable[[bool], Any] = _core._autograd._top_saved_tensors_default_hooks
_running: list[TorchRecorder] = []
"""The recorder that runs now, if one does: what replaces PyTorch's functions asks for it at each
call, since a program may keep such a function from one recording to the next
(`from torch.autograd import grad`, `f = MyFunction.apply`)."""


@final
class TorchRecorder:
    """Records while it is `running`; `finish` gives nodes and sweeps. `ended` is told what each
    backward pass returned."""

    def __init__(self, keeper: Keeper, ended: Callable[[Any], None]) -> None:
        self._calls = CallRecorder(keeper.takes, self._note_place)
        self._graph = TorchGraph(keeper, self._calls.of)
        self._own: dict[Any, CustomFunctionCall] = {}
        self._packed: set[int] = set()
        self._sweeps = TorchSweeps(self._graph, keeper, self._own, self._packed, ended)
        self._places: dict[int, tuple[SourceLine, str]] = {}
        self._modules: list[str] = []
        self._paths: dict[Any, str] = {}

    @contextmanager
    def running(self) -> Generator[None]:
        """Within it, PyTorch's functions and backward passes are recorded."""
        patches = Patches()
        for name in ("backward", "grad"):
            patches.put(torch.autograd, name, lambda f: _recorded(f, TorchRecorder.run_pass))
        patches.put(torch.autograd.Function, "apply", _recorded_apply)
        patches.put(torch.nn.Module, "__call__", lambda f: _recorded(f, TorchRecorder.run_module))
        _running.append(self)
        try:
            with self._calls:
                yield
        finally:
            _running.remove(self)
            patches.undo()

    def differentiate(self, y: Any) -> None:
        """Go back from a result, leaving nothing in `.grad`."""
        self._sweeps.differentiate(y)

    # --- forward

    def _note_place(self, number: int) -> None:
        """A node of this number is being made: where, and is it under hooks for what it saves?"""
        if _top_hooks(True) is not None:
            self._packed.add(number)
        module = self._modules[-1] if self._modules else ""
        self._places.setdefault(number, (_user_place(), module))

    def run_pass(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of `torch.autograd.backward` or `grad`."""
        return self._sweeps.run(f, args, kwargs)

    def run_function(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of a function that the user wrote: of the class first, then of its arguments."""
        cls, *given = args
        result = f(*args, **kwargs)
        copies = [_copy(a) for a in given]
        for y in as_list(result):
            if isinstance(y, torch.Tensor) and y.grad_fn is not None:
                self._own[y.grad_fn] = CustomFunctionCall(cls, copies)
                self._graph.values.setdefault((y.grad_fn, y.output_nr), self._graph.keep(y))
                self._note_place(number_of(y.grad_fn))
        return result

    def run_module(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of a module, the first of the arguments."""
        self._modules.append(self._name_of(args[0]))
        try:
            return f(*args, **kwargs)
        finally:
            self._modules.pop()

    def _name_of(self, module: Any) -> str:
        """The path of a module below the one that was called first."""
        if not self._modules:
            self._paths = {m: name or type(m).__name__ for name, m in module.named_modules()}
        return self._paths.get(module, type(module).__name__)

    # --- the result

    @property
    def has_passes(self) -> bool:
        """Whether a backward pass ran."""
        return bool(self._sweeps.passes)

    @property
    def ops(self) -> list[CustomFunctionCall | TorchCall | None]:
        """Of each node the call that made it."""
        return [
            None if e.output is not None else self._own.get(e.node) or e.call
            for e in self._graph.events
        ]

    def name(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """Label the nodes of these tensors, and of the parameters of these modules."""
        for label, x in pairs:
            if isinstance(x, torch.nn.Module):
                self.name([*x.named_parameters(), *x.named_buffers()])
            if isinstance(x, torch.Tensor):
                for e in self._graph.events:
                    if not e.label and _is_node_of(e, x):
                        e.label = label

    def lines(self) -> dict[str, str]:
        """The texts of the program's lines, by `file:line`."""
        places = {line_of(place): place for place, _ in self._places.values()}
        return {
            line: source_line(code.co_filename, number_of_line(code, at)).strip()
            for line, (code, at) in places.items()
        }

    def finish(self) -> tuple[tuple[Node, ...], tuple[Sweep, ...]]:
        """All that was recorded."""
        nodes = tuple([self._node(e) for e in self._graph.events])
        return nodes, self._sweeps.finish()

    def _node(self, e: Event) -> Node:
        known = None if e.node is None else self._places.get(number_of(e.node))
        place, module = known or (None, "")
        return Node(
            e.kind, e.op, e.inputs, e.dtype, e.shape, e.kept, e.label, line_of(place), module,
            e.formula,
        )  # fmt: skip


_Run = Callable[[TorchRecorder, Callable[..., Any], Any, Any], Any]


def _recorded(f: Callable[..., Any], run: _Run) -> Callable[..., Any]:
    """`f`, which the recorder that is running, if there is one, calls by `run`."""

    @wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return run(_running[-1], f, args, kwargs) if _running else f(*args, **kwargs)

    return wrapper


def _recorded_apply(f: Any) -> Any:
    return classmethod(_recorded(getattr(f, "__func__", f), TorchRecorder.run_function))


def _is_node_of(e: Event, x: torch.Tensor) -> bool:
    if e.node is None:
        return e.constant is x
    if getattr(e.node, "variable", None) is x:
        return True
    return e.node is x.grad_fn and (e.output or 0) == x.output_nr and bool(e.dtype)


def _copy(x: Any) -> Any:
    """A tensor of floats as it is now, with its wish for a gradient; anything else itself."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    return x.detach().clone().requires_grad_(x.requires_grad)


def _user_place() -> SourceLine:
    """The innermost line outside of PyTorch and of this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and (
        is_inside(frame.f_code) or frame.f_code.co_filename.startswith(_TORCH)
    ):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti
