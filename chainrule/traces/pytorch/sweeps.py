"""Backward passes of autograd: hooks at every node see upstream gradients and contributions."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch.utils import _pytree as pytree

from chainrule.traces.certificates.probes import CustomFunctionCall
from chainrule.traces.kept_values import Keeper
from chainrule.traces.pytorch.calls import as_list, number_of
from chainrule.traces.pytorch.graph import TorchGraph, all_below, is_batched
from chainrule.traces.pytorch.locals import SEVERAL, local_of_node, local_of_packed_node
from chainrule.traces.trace import Kept, Local, Message, Opaque, Sweep, gradient_sums


@final
@dataclass(slots=True)
class _Pass:
    result: int
    gradients: dict[int, Kept] = field(default_factory=dict[int, Kept])
    messages: list[Message] = field(default_factory=list[Message])
    locals: dict[int, list[Local]] = field(default_factory=dict[int, list[Local]])


@final
class TorchSweeps:
    """Records passes over the nodes of `graph`. `own` has, by node, the calls of functions that a
    user wrote; `packed` are the numbers of nodes that saved tensors under the program's own hooks;
    `ended` is told what each pass returned."""

    def __init__(
        self,
        graph: TorchGraph,
        keeper: Keeper,
        own: Mapping[Any, CustomFunctionCall],
        packed: Container[int],
        ended: Callable[[Any], None],
    ) -> None:
        self.passes: list[_Pass] = []
        self._graph, self._keeper, self._own = graph, keeper, own
        self._packed, self._ended = packed, ended
        self._is_busy = False

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """`f(*args, **kwargs)`, a backward pass, with hooks; one within it is part of it. One under
        `vmap`, where tensors have no numbers of their own, is not recorded."""
        found = as_list(args[0] if args else next(iter(kwargs.values()), None))
        roots = [y.grad_fn for y in found if getattr(y, "grad_fn", None) is not None]
        batched = any(is_batched(x) for x in pytree.tree_leaves((args, kwargs)))
        if self._is_busy or batched or not roots:
            return f(*args, **kwargs)
        with self._record_pass(roots):
            result = f(*args, **kwargs)
        self._ended(result)
        return result

    def differentiate(self, y: Any) -> None:
        """Go back from a result, leaving nothing in `.grad`."""
        if not y.requires_grad or not hasattr(y.grad_fn, "next_functions"):
            return
        self._graph.add_below(y.grad_fn)
        number = {
            i: e.node.variable
            for i, e in enumerate(self._graph.events)
            if hasattr(e.node, "variable")
        }
        ones, leaves = torch.ones_like(y), list(number.values())
        with self._record_pass([y.grad_fn]):
            grads = torch.autograd.grad(y, leaves, ones, allow_unused=True, retain_graph=True)
        for i, g in zip(number, grads, strict=True):
            found: Any = g  # None where the result does not depend on the leaf
            if found is not None:
                self.passes[-1].gradients[i] = self._graph.keep(found)

    def finish(self) -> tuple[Sweep, ...]:
        """The sweeps."""
        return tuple([_sweep(p) for p in self.passes if p.gradients])

    # --- hooks

    @contextmanager
    def _record_pass(self, roots: Sequence[Any]) -> Generator[None]:
        """Within it, a pass from these roots is recorded."""
        self._is_busy = True
        handles = self._watch(roots)
        try:
            yield
        finally:
            self._is_busy = False
            for handle in handles:
                handle.remove()

    def _watch(self, roots: Sequence[Any]) -> list[Any]:
        """Hooks at every node below the roots."""
        for root in roots:
            self._graph.add_below(root)
        current = _Pass(self._graph.outputs[roots[-1], 0])
        self.passes.append(current)
        handles: list[Any] = []
        for node in all_below(roots):
            number = self._graph.number[node]
            if not hasattr(node, "variable"):
                handles.append(node.register_prehook(self._prehook(current, number)))
            handles.append(node.register_hook(self._hook(current, number)))
        return handles

    def _prehook(self, p: _Pass, number: int) -> Any:
        """A hook that keeps the upstream gradient of a node, and its local derivatives."""

        def hook(gs: Sequence[Any]) -> None:
            events = self._graph.events
            e = events[number]
            self._arrive(p, e.node, number, gs)
            if number_of(e.node) in self._packed:
                return
            inputs = [events[i] for i in e.inputs]
            own, g = self._own.get(e.node), p.gradients[number]
            args = () if own is None else own.args
            p.locals[number] = [
                local_of_node(e, k, inputs, g, self._keeper.takes, args)
                for k in range(len(e.input_positions))
            ]

        return hook

    def _arrive(self, p: _Pass, node: Any, number: int, gs: Sequence[Any]) -> None:
        """The upstream gradients: of the node's only output, or of each of several."""
        if len(gs) == 1:
            p.gradients[number] = None if gs[0] is None else self._graph.keep(gs[0])
            return
        p.gradients[number] = None
        for i, g in enumerate(gs):
            if g is not None:
                pick = self._graph.outputs[node, i]
                p.gradients[pick] = self._graph.keep(g)
                local = Opaque(SEVERAL, f"∂ output {i}")
                p.messages.append(Message(pick, 0, number, local, None))

    def _hook(self, p: _Pass, number: int) -> Any:
        """A hook that keeps what a node gives to each of its inputs."""

        def hook(bars: Sequence[Any], gs: Sequence[Any]) -> None:
            e = self._graph.events[number]
            if e.kind != "op":
                p.gradients[number] = self._graph.keep(gs[0])
                return
            used = [k for k, (n, _) in enumerate(e.node.next_functions) if n is not None]
            for edge, k in enumerate(used):
                if k < len(bars) and bars[k] is not None:
                    place = e.input_positions[edge]
                    local = self._local(p, number, edge, bars[k])
                    bar = self._graph.keep(bars[k])
                    p.messages.append(Message(number, place, e.inputs[place], local, bar))

        return hook

    def _local(self, p: _Pass, number: int, edge: int, bar: Any) -> Local:
        """The local derivative for an edge of a node, along which the pass sends `bar`."""
        if number in p.locals:
            return p.locals[number][edge]
        events = self._graph.events
        e = events[number]
        inputs = [events[i] for i in e.inputs]
        takes = self._keeper.takes
        return local_of_packed_node(e, edge, inputs, p.gradients[number], bar, takes)


def _sweep(p: _Pass) -> Sweep:
    messages = tuple([m for m in p.messages if m.node in p.gradients])
    seed = {p.result: p.gradients.get(p.result)}
    gradients = gradient_sums(messages, seed) | p.gradients
    whole = tuple([m for m in messages if m.target in gradients])
    return Sweep(p.result, seed[p.result], whole, gradients)
