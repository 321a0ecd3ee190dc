"""The nodes of a trace in the making: those of an autograd graph, and the constants they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch

from chainrule.traces.kept_values import Keeper, is_array, is_unchanged
from chainrule.traces.pytorch.calls import Operand, TorchCall, is_python_function
from chainrule.traces.pytorch.forms import formula_of_call, in_order_of_factors
from chainrule.traces.trace import Kept, Kind

_core: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_functorch = _core._functorch
DTYPES = {"bfloat16": "float32"}
"""Dtypes that traces do not have, and what is written in their place."""


@final
@dataclass(slots=True)
class Event:
    """A node in the making. `node` is None for a constant, which is `constant`."""

    node: Any
    inputs: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    kept: Kept = None
    label: str = ""
    kind: Kind = "op"
    output: int | None = None
    """Which output of the node it is, where that has several."""
    call: TorchCall | None = None
    input_positions: Sequence[int] = ()
    """For each edge of the node, its place among the inputs."""
    constant: Any = None

    @property
    def op(self) -> str:
        """Its name: `softmax` for SoftmaxBackward0; a user's function by its class."""
        if self.output is not None:
            return f"output {self.output}"
        if self.kind != "op":
            return self.kind
        if is_python_function(self.node):
            return str(self.node._forward_cls.__name__)
        if self.call is not None:
            return self.call.name
        name = self.node.name().removeprefix("torch::autograd::")
        return name.rstrip("0123456789").removesuffix("Backward").lower()

    @property
    def formula(self) -> str:
        """Its value in symbols."""
        if self.kind != "op" or self.output is not None:
            return "" if self.kind != "op" else self.op
        return formula_of_call(self.op, self.call, len(self.inputs))


@final
class TorchGraph:
    """Numbers nodes, inputs first. `call_of` says which call made a node."""

    def __init__(self, keeper: Keeper, call_of: Callable[[Any], TorchCall | None]) -> None:
        self.events: list[Event] = []
        self.number: dict[Any, int] = {}
        self.outputs: dict[tuple[Any, int], int] = {}
        self.values: dict[Any, Kept] = {}
        """What is known of outputs of functions that users wrote."""
        self._keeper = keeper
        self._call_of = call_of
        self._constants: dict[tuple[int, int], int] = {}

    def add_below(self, root: Any) -> None:
        """Number a node and all below it, inputs first. For what is new, a leaf that has changed
        since it was numbered gets another number."""
        if root not in self.number:
            self._forget_changed_leaves(root)
        stack = [root]
        while stack:
            node = stack[-1]
            fresh = [n for n in inputs_of(node) if n not in self.number]
            if node not in self.number and fresh:
                stack += fresh
                continue
            stack.pop()
            if node not in self.number:
                self._add(node)

    def _forget_changed_leaves(self, root: Any) -> None:
        for node in all_below([root]):
            variable = getattr(node, "variable", None)
            if variable is None or node not in self.number:
                continue
            if not is_unchanged(self.events[self.number[node]].kept, as_array(variable)):
                del self.number[node], self.outputs[node, 0]

    def keep(self, x: Any) -> Kept:
        """What a trace keeps of a tensor."""
        return self._keeper.keep(as_array(x))

    # --- one node

    def _add(self, node: Any) -> None:
        """Add a node of autograd's graph as an event, behind those that it reads."""
        metas = node._input_metadata
        event = Event(node, (), *type_of(metas[0]))
        self._find_inputs(event)
        self.number[node] = self.outputs[node, 0] = len(self.events)
        variable = getattr(node, "variable", None)
        if variable is not None:
            event.kind = "parameter" if isinstance(variable, torch.nn.Parameter) else "input"
            event.kept = self._as_event(event, self.keep(variable))
        else:
            event.kept = self._value(event, 0)
        self.events.append(event)
        if len(metas) > 1:
            parent = self.number[node]
            event.dtype, event.shape, event.kept = "", (), None
            for i, meta in enumerate(metas):
                self.outputs[node, i] = len(self.events)
                part = Event(node, (parent,), *type_of(meta), output=i)
                part.kept = self._value(part, i, event.call)
                self.events.append(part)

    def _find_inputs(self, event: Event) -> None:
        """Its edges; where its call is known, constants too, in the order of the operands."""
        edges = [edge for edge in event.node.next_functions if edge[0] is not None]
        call = self._call_of(event.node)
        call = None if call is None else in_order_of_factors(call)
        places = None if call is None else _places(call.operands, edges)
        if call is None or places is None:
            event.inputs = tuple([self.outputs[edge] for edge in edges])
            event.input_positions = range(len(edges))
            return
        numbers = {at: self.outputs[edge] for at, edge in zip(places, edges, strict=True)}
        inputs = [
            numbers[i] if i in numbers else self._constant(operand)
            for i, operand in enumerate(call.operands)
        ]
        event.call, event.inputs, event.input_positions = call, tuple(inputs), places

    def _constant(self, operand: Operand) -> int:
        """The node of a tensor without a gradient, or of a number of the program."""
        x = operand.given
        if not isinstance(x, torch.Tensor):
            kept = self._keeper.keep(x)
            self.events.append(
                Event(None, (), str(getattr(kept, "dtype", "")), (), kept, repr(x), "constant")
            )
            return len(self.events) - 1
        key = id(x), x._version
        if key not in self._constants:
            kept = None if operand.value is None else self.keep(operand.value)
            event = Event(None, (), *type_of(x), kept, kind="constant", constant=x)
            self._constants[key] = len(self.events)
            self.events.append(event)
        return self._constants[key]

    def _value(self, event: Event, output: int, call: TorchCall | None = None) -> Kept:
        """What is known of an output: what its call gave, or a user's function."""
        call = call or event.call
        if call is not None and output < len(call.results) and call.results[output] is not None:
            return self._as_event(event, self.keep(call.results[output]))
        return self._as_event(event, self.values.get((event.node, output)))

    @staticmethod
    def _as_event(event: Event, kept: Any) -> Kept:
        """The value, if it is of the event's type: another output of the node is not."""
        if kept is None or tuple(kept.shape) != event.shape:
            return None
        return kept if not is_array(kept) or str(kept.dtype) == event.dtype else None


def as_array(x: Any) -> Any:
    """A tensor's numbers now, as NumPy has them; of one within `torch.func.grad`, what it wraps."""
    x = _unwrapped(x.detach())
    with _core._DisableFuncTorch():
        if x.is_sparse or x.dtype == torch.bfloat16:
            x = x.to_dense().float() if x.is_sparse else x.float()
        return x.resolve_conj().resolve_neg().cpu().numpy()


def _unwrapped(x: Any) -> Any:
    """What a tensor within `torch.func.grad` wraps."""
    while _functorch.is_gradtrackingtensor(x):
        x = _functorch.get_unwrapped(x)
    return x


def is_batched(x: Any) -> bool:
    """Whether `x` stands for a tensor of each example, under `torch.func.vmap`."""
    return isinstance(x, torch.Tensor) and _functorch.is_batchedtensor(_unwrapped(x))


def _places(operands: Sequence[Operand], edges: Sequence[Any]) -> list[int] | None:
    """For each edge the operand that it leads to, each once; None where there is none."""
    free = list(range(len(operands)))
    places: list[int] = []
    for node, output in edges:
        at = next((i for i in free if operands[i].is_of(node, output)), None)
        if at is None:
            return None
        free.remove(at)
        places.append(at)
    return places


def type_of(meta: Any) -> tuple[str, tuple[int, ...]]:
    """Dtype, as traces have it, and shape."""
    name = str(meta.dtype).removeprefix("torch.")
    return DTYPES.get(name, name), tuple(map(int, meta.shape))


def inputs_of(node: Any) -> list[Any]:
    """The nodes that a node's edges lead to."""
    return [n for n, _ in node.next_functions if n is not None]


def all_below(roots: Sequence[Any]) -> list[Any]:
    """The roots, and every node that they depend on."""
    out = list(dict.fromkeys(roots))
    seen = set(out)
    for node in out:
        for n in inputs_of(node):
            if n not in seen:
                seen.add(n)
                out.append(n)
    return out
