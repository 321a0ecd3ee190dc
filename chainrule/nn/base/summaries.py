"""What a model is made of and what a call of it costs, layer by layer: `Module.summary`."""

from __future__ import annotations

import math
from collections.abc import Generator as Generating
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from chainrule.engine import watch
from chainrule.engine.graph import order, placeholder, recording
from chainrule.engine.op import Detach, Op
from chainrule.nn.base import hooks
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import BroadcastTo
from chainrule.ops.fusing import Fused
from chainrule.ops.shapes.shaping import Permute, Reshape
from chainrule.ops.shapes.slices import Slice
from chainrule.ops.windows.convolution_forms import Convolve, ConvolveInput
from chainrule.tree import flatten

if TYPE_CHECKING:
    from chainrule.nn.base.module import Module


_MOVES = (Reshape, Permute, Slice, BroadcastTo, Detach)
"""Ops that compute nothing."""


@dataclass
class Layer:
    """One module: what came out of its first call, and what all its calls did."""

    name: str
    kind: str
    parameters: int
    shapes: str = ""
    operations: int = 0
    """Multiplications and additions, and other functions of numbers, those of parts included."""
    saved_bytes: int = 0
    """Bytes that a graph of the call keeps for the backward pass."""


@final
@dataclass
class Summary:
    """The layers, parents before their parts; printed as a table."""

    layers: list[Layer] = field(default_factory=list[Layer])

    @property
    def total(self) -> Layer:
        """The whole model."""
        return self.layers[0]

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("layer", "result", "parameters", "operations", "bytes")]
        for layer in self.layers:
            depth = layer.name.count(".") + bool(layer.name)
            title = f"{'  ' * depth}{layer.name.rpartition('.')[2]}".rstrip()
            title = f"{title}: {layer.kind}" if layer.name else layer.kind
            numbers = [layer.parameters, layer.operations, layer.saved_bytes]
            rows.append((title, layer.shapes, *[f"{n:,}" for n in numbers]))
        widths = [max([len(row[i]) for row in rows]) for i in range(5)]
        return "\n".join([_line(row, widths) for row in rows])

    __repr__ = __str__


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    pairs = list(zip(row, widths, strict=True))
    cells = [c.ljust(w) for c, w in pairs[:2]] + [c.rjust(w) for c, w in pairs[2:]]
    return "  ".join(cells).rstrip()


def operations(op: Any, y: Any, xs: Sequence[Any]) -> int:
    """About how many operations on numbers an op is."""
    size = sum([math.prod(t.shape) for t in flatten(y)[0] if hasattr(t, "shape")])
    if isinstance(op, Fused):
        return sum([operations(n.op, n, n.inputs) for n in _parts(op, xs)])
    if isinstance(op, MatMul):
        return 2 * size * int(xs[0].shape[-2 if op.transpose_a and xs[0].ndim > 1 else -1])
    if isinstance(op, Convolve):
        return 2 * size * math.prod(xs[1].shape[1:])
    if isinstance(op, ConvolveInput):
        return 2 * math.prod(xs[0].shape) * math.prod(xs[1].shape[1:])
    return 0 if isinstance(op, _MOVES) else size


def _parts(op: Fused, xs: Sequence[Any]) -> list[Any]:
    """The nodes of a composite that ran as one kernel."""
    given = [placeholder(x.shape, x.dtype, needs=True) for x in xs]
    with recording(True):
        results = op.results(given)
    return [n for n in order([y.node for y in results]) if n.op is not None]


class _Count:
    """Who is running, and what it does."""

    def __init__(self, model: Module) -> None:
        self.layers = {
            id(m): Layer(name, type(m).__name__, m.num_parameters())
            for name, m in model.named_modules()
        }
        self.running: list[Layer] = []

    @contextmanager
    def calls(self, module: Module) -> Generating[None]:
        layer = self.layers.get(id(module))
        if layer is not None:
            self.running.append(layer)
        try:
            yield
        finally:
            if layer is not None:
                self.running.pop()

    def ran(self, op: Op, xs: Sequence[Any], y: Any, alarm: bool) -> None:
        cost = operations(op, y, xs)
        for layer in {id(a): a for a in self.running}.values():
            layer.operations += cost

    def keeps(self, result: Any) -> None:
        """What the graph of the model's value keeps, by layer."""
        from chainrule.explain.kept_memory import of_nodes
        from chainrule.explain.modules import owners

        nodes = [t.node for t in flatten(result)[0] if getattr(t, "node", None) is not None]
        walk = order([n for n in nodes if n.needs])
        for name, size in of_nodes(walk, owners(walk)).by_module().items():
            for layer in self.layers.values():
                if not layer.name or name == layer.name or name.startswith(f"{layer.name}."):
                    layer.saved_bytes += size


def summary(model: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Summary:
    """Run the model once and tell what each of its modules did."""
    count = _Count(model)

    def shapes(module: Any, _: Any, result: Any) -> None:
        layer = count.layers[id(module)]
        found = [str(tuple(t.shape)) for t in flatten(result)[0] if hasattr(t, "shape")]
        layer.shapes = layer.shapes or ", ".join(found)

    handles = [m.register_forward_hook(shapes) for _, m in model.named_modules()]
    try:
        with hooks.watching(count.calls), watch.watching(watch.Watch(on_op=count.ran)):
            result = model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    count.keeps(result)
    return Summary(list(count.layers.values()))
