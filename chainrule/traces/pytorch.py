"""Records PyTorch's programs: nodes are those of its autograd graph, as chainrule's are of ours.

Each call of PyTorch's functions tells the value, the line and the module of the node that it made.
When a backward pass begins, every node of its graph gets two hooks, which see the upstream gradient
and the contributions; there its rule is also asked for its local derivative, in the dtype it has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from chainrule.provenance import is_inside
from chainrule.provenance import line_of as number_of_line
from chainrule.source_text import source_line
from chainrule.traces.certify import TorchCall
from chainrule.traces.keeping import Keeper, is_array
from chainrule.traces.sparse import Rule, sparse_form
from chainrule.traces.tensors import Place, line_of
from chainrule.traces.trace import Kept, Kind, Local, Message, Node, Opaque, Sweep
from chainrule.verify.patches import Patches

_torch: Any = torch
_core: Any = _torch._C
_FUNCTION: Any = torch.autograd.function.BackwardCFunction
_TORCH = str(Path(torch.__file__).parent) + os.sep
SEVERAL = "this op has several outputs"
_DTYPES = {"bfloat16": "float32"}


@final
@dataclass(slots=True)
class _Event:
    """A node of the autograd graph in the making."""

    node: Any
    inputs: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    kept: Kept = None
    label: str = ""
    kind: Kind = "op"
    output: int | None = None
    """Which output of the node it is, where that has several."""


@final
@dataclass(slots=True)
class _Pass:
    result: int
    gradients: dict[int, Kept]
    messages: list[Message]


@final
class TorchRecorder:
    """Records while it is `running`; `finish` gives nodes and sweeps."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._events: list[_Event] = []
        self._number: dict[Any, int] = {}
        self._outputs: dict[tuple[Any, int], int] = {}
        self._values: dict[Any, Kept] = {}
        self._places: dict[Any, tuple[Place, str]] = {}
        self._calls: dict[Any, tuple[Any, Sequence[Any]]] = {}
        self._modules: list[str] = []
        self._passes: list[_Pass] = []
        self._paths: dict[Any, str] = {}
        self._is_busy = False

    @contextmanager
    def running(self) -> Generator[None]:
        """Within it, PyTorch's functions and backward passes are recorded."""
        patches, exits = Patches(), ExitStack()
        for name in ("backward", "grad"):
            patches.put(torch.autograd, name, self._around)
        patches.put(torch.autograd.Function, "apply", self._applied)
        patches.put(torch.nn.Module, "__call__", self._called)
        try:
            with exits, _Mode(self.note):
                yield
        finally:
            patches.undo()

    # --- forward

    def note(self, result: Any) -> None:
        """A function of PyTorch's returned this."""
        for y in _listed(result):
            if isinstance(y, torch.Tensor) and y.grad_fn is not None:
                self._values.setdefault((y.grad_fn, y.output_nr), self._keep(y))
                module = self._modules[-1] if self._modules else ""
                self._places.setdefault(y.grad_fn, (_user_place(), module))

    def _applied(self, f: Any) -> Any:
        inner = f.__func__ if hasattr(f, "__func__") else f

        @wraps(inner)
        def observed(cls: Any, *args: Any, **kwargs: Any) -> Any:
            result = inner(cls, *args, **kwargs)
            copies = [_copy(a) for a in args]
            for y in _listed(result):
                if isinstance(y, torch.Tensor) and y.grad_fn is not None:
                    self._calls[y.grad_fn] = cls, copies
            self.note(result)
            return result

        return classmethod(observed)

    def _called(self, f: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(f)
        def observed(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._modules.append(self._name_of(module))
            try:
                return f(module, *args, **kwargs)
            finally:
                self._modules.pop()

        return observed

    def _name_of(self, module: Any) -> str:
        """The path of a module below the one that was called first."""
        if not self._modules:
            self._paths = {m: name or type(m).__name__ for name, m in module.named_modules()}
        return self._paths.get(module, type(module).__name__)

    # --- backward

    def _around(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """A backward pass, with hooks; one within it is part of it."""

        @wraps(f)
        def observed(*args: Any, **kwargs: Any) -> Any:
            found = _listed(args[0] if args else next(iter(kwargs.values()), None))
            roots = [y.grad_fn for y in found if getattr(y, "grad_fn", None) is not None]
            if self._is_busy or not roots:
                return f(*args, **kwargs)
            self._is_busy = True
            handles = self._watch(roots)
            try:
                return f(*args, **kwargs)
            finally:
                self._is_busy = False
                for handle in handles:
                    handle.remove()

        return observed

    def _watch(self, roots: Sequence[Any]) -> list[Any]:
        """Hooks at every node below the roots."""
        for root in roots:
            self._add_below(root)
        current = _Pass(self._outputs[roots[-1], 0], {}, [])
        self._passes.append(current)
        handles: list[Any] = []
        locals_: dict[int, list[Local]] = {}
        for node in _below(roots):
            number = self._number[node]
            if not hasattr(node, "variable"):
                handles.append(node.register_prehook(self._prehook(current, number, locals_)))
            handles.append(node.register_hook(self._hook(current, number, locals_)))
        return handles

    def _prehook(self, p: _Pass, number: int, locals_: dict[int, list[Local]]) -> Any:
        def hook(gs: Sequence[Any]) -> None:
            e = self._events[number]
            self._arrive(p, e.node, number, gs)
            locals_[number] = [self._local(e, k, len(gs)) for k in range(len(_inputs(e.node)))]

        return hook

    def _arrive(self, p: _Pass, node: Any, number: int, gs: Sequence[Any]) -> None:
        """The upstream gradients: of the node's only output, or of each of several."""
        if len(gs) == 1:
            p.gradients[number] = None if gs[0] is None else self._keep(gs[0])
            return
        p.gradients[number] = None
        for i, g in enumerate(gs):
            if g is not None:
                pick = self._outputs[node, i]
                p.gradients[pick] = self._keep(g)
                local = Opaque(SEVERAL, f"∂ output {i}")
                p.messages.append(Message(pick, 0, number, local, None))

    def _hook(self, p: _Pass, number: int, locals_: dict[int, list[Local]]) -> Any:
        def hook(bars: Sequence[Any], gs: Sequence[Any]) -> None:
            e = self._events[number]
            if e.kind != "op":
                p.gradients[number] = self._keep(gs[0])
                return
            used = [k for k, (n, _) in enumerate(e.node.next_functions) if n is not None]
            for place, k in enumerate(used):
                if k < len(bars) and bars[k] is not None:
                    target = e.inputs[place]
                    bar = self._keep(bars[k])
                    p.messages.append(Message(number, place, target, locals_[number][place], bar))

        return hook

    def _add_below(self, root: Any) -> None:
        """Number a node and all below it, inputs first."""
        stack = [root]
        while stack:
            node = stack[-1]
            fresh = [n for n in _inputs(node) if n not in self._number]
            if node not in self._number and fresh:
                stack += fresh
                continue
            stack.pop()
            if node not in self._number:
                self._add(node)

    def _add(self, node: Any) -> None:
        metas = node._input_metadata
        inputs = tuple([self._outputs[edge] for edge in node.next_functions if edge[0] is not None])
        event = _Event(node, inputs, *_type(metas[0]))
        self._number[node] = self._outputs[node, 0] = len(self._events)
        variable = getattr(node, "variable", None)
        if variable is not None:
            event.kind = "parameter" if isinstance(variable, torch.nn.Parameter) else "input"
            event.kept = self._keep(variable)
        else:
            event.kept = self._values.get((node, 0))
        if event.kept is not None and tuple(event.kept.shape) != event.shape:
            event.kept = None  # another output of the same node
        self._events.append(event)
        if len(metas) > 1:
            parent = self._number[node]
            event.dtype, event.shape, event.kept = "", (), None
            for i, meta in enumerate(metas):
                self._outputs[node, i] = len(self._events)
                kept = self._values.get((node, i))
                self._events.append(_Event(node, (parent,), *_type(meta), kept, output=i))

    def _keep(self, x: Any) -> Kept:
        x = x.detach()
        if x.is_sparse or x.dtype == torch.bfloat16:
            x = x.to_dense().float() if x.is_sparse else x.float()
        return self._keeper.keep(x.cpu().numpy())

    def _local(self, e: _Event, place: int, outputs: int) -> Local:
        """The node's own rule, asked for its entries."""
        name = f"∂ {_op(e.node)} / ∂ input {place + 1}"
        target = self._events[e.inputs[place]]
        sizes = [int(np.prod(e.shape)), int(np.prod(target.shape))]
        if outputs != 1:
            return Opaque(SEVERAL, name)
        if not all(self._keeper.takes(n) for n in sizes):
            return Opaque("its arrays are too large to be kept", name)
        if "complex" in e.dtype + target.dtype:
            return Opaque("its numbers are complex", name)
        k = [i for i, (n, _) in enumerate(e.node.next_functions) if n is not None][place]
        dtype = e.node._input_metadata[0].dtype

        def pull(g: Any) -> Any:
            with torch.no_grad(), _core.DisableTorchFunction():
                bars = self._asked(e.node, _torch.from_numpy(np.array(g)).to(dtype))
            bar = bars[k]
            if bar is None:
                return np.zeros(target.shape)
            return bar.sum_to_size(target.shape).double().cpu().numpy()

        try:
            return sparse_form(
                Rule(pull, None, target.shape, e.shape, torch.finfo(dtype).eps), name
            )
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            return Opaque(f"its rule cannot be asked again: {str(error).splitlines()[0]:.80}", name)

    def _asked(self, node: Any, g: Any) -> Sequence[Any]:
        """The rule's gradients, one for each of `next_functions`."""
        if not isinstance(node, _FUNCTION):
            return _listed(node(g))
        bars = _listed(node.apply(g))
        _, args = self._calls[node]
        return [b for b, a in zip(bars, args, strict=True) if isinstance(a, torch.Tensor)]

    def differentiate(self, y: Any) -> None:
        """Go back from a result, leaving nothing in `.grad`."""
        if not y.requires_grad or not hasattr(y.grad_fn, "next_functions"):
            return
        self._add_below(y.grad_fn)
        leaves = [e.node.variable for e in self._events if hasattr(e.node, "variable")]
        handles = self._watch([y.grad_fn])
        try:
            ones = torch.ones_like(y)
            grads = torch.autograd.grad(y, leaves, ones, allow_unused=True, retain_graph=True)
        finally:
            for handle in handles:
                handle.remove()
        current = self._passes[-1]
        for leaf, g in zip(leaves, grads, strict=True):
            number = next(i for i, e in enumerate(self._events)
                          if getattr(e.node, "variable", None) is leaf)  # fmt: skip
            found: Any = g  # None where the result does not depend on the leaf
            if found is not None:
                current.gradients[number] = self._keep(found)

    # --- the result

    @property
    def has_passes(self) -> bool:
        """Whether a backward pass ran."""
        return bool(self._passes)

    @property
    def ops(self) -> list[TorchCall | None]:
        """Of each node the user's function that it is a call of."""
        calls = [self._calls.get(e.node) if e.output is None else None for e in self._events]
        return [None if call is None else TorchCall(*call) for call in calls]

    def name(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """Label the nodes of these tensors, and of the parameters of these modules."""
        for label, x in pairs:
            if isinstance(x, torch.nn.Module):
                self.name([*x.named_parameters()])
            if not isinstance(x, torch.Tensor):
                continue
            for e in self._events:
                nr = e.output or 0
                mine = getattr(e.node, "variable", None) is x or (
                    e.node is x.grad_fn and nr == x.output_nr and bool(e.dtype)
                )
                if mine and not e.label:
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
        nodes = tuple([self._node(e) for e in self._events])
        sweeps = [self._sweep(p) for p in self._passes if p.gradients]
        return nodes, tuple(sweeps)

    def _sweep(self, p: _Pass) -> Sweep:
        from chainrule.traces.trace import gradient_sums

        messages = tuple([m for m in p.messages if m.node in p.gradients])
        seed = {p.result: p.gradients.get(p.result)}
        gradients = gradient_sums(messages, seed) | p.gradients
        whole = tuple([m for m in messages if m.target in gradients])
        return Sweep(p.result, seed[p.result], whole, gradients)

    def _node(self, e: _Event) -> Node:
        place, module = self._places.get(e.node, (None, ""))
        op = e.kind if e.kind != "op" else _op(e.node)
        op = op if e.output is None else f"output {e.output}"
        kept: Any = e.kept
        if is_array(kept) and str(kept.dtype) != e.dtype:
            kept = None
        return Node(
            e.kind, op, e.inputs, e.dtype, e.shape, kept, e.label, line_of(place), module,
            "" if e.kind != "op" else f"{op}({', '.join('abcdefgh'[: len(e.inputs)])})",
        )  # fmt: skip


class _Mode(TorchFunctionMode):
    """Tells of what PyTorch's functions return."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        super().__init__()
        self._tell = tell

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._tell(result)
        return result


def _copy(x: Any) -> Any:
    """A tensor of floats as it is now, with its wish for a gradient; anything else itself."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    return x.detach().clone().requires_grad_(x.requires_grad)


def _user_place() -> Place:
    """The innermost line outside of PyTorch and of this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and (
        is_inside(frame.f_code) or frame.f_code.co_filename.startswith(_TORCH)
    ):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _type(meta: Any) -> tuple[str, tuple[int, ...]]:
    name = str(meta.dtype).removeprefix("torch.")
    return _DTYPES.get(name, name), tuple(map(int, meta.shape))


def _listed(x: Any) -> list[Any]:
    return [*x] if isinstance(x, tuple | list) else [x]


def _inputs(node: Any) -> list[Any]:
    return [n for n, _ in node.next_functions if n is not None]


def _below(roots: Sequence[Any]) -> list[Any]:
    out = list(dict.fromkeys(roots))
    seen = set(out)
    for node in out:
        for n in _inputs(node):
            if n not in seen:
                seen.add(n)
                out.append(n)
    return out


def _op(node: Any) -> str:
    """`softmax` for SoftmaxBackward0; a user's function by its class."""
    name = node.name()
    if isinstance(node, _FUNCTION):
        return str(node._forward_cls.__name__)
    return name.rstrip("0123456789").removesuffix("Backward").lower()
