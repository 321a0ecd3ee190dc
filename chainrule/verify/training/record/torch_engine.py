"""PyTorch's tensors, optimizers, modules and graphs, as parts ask of them.

Nodes carry serial numbers in the order in which they were made (`_sequence_nr`), so that a graph
that reaches into an earlier step is seen without remembering any node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, final

from chainrule.engine.op import Array
from chainrule.verify.training.record.engine import Engine, Nodes, Scale, Share, Way, counts_of
from chainrule.verify.training.record.events import Graph


@final
class TorchEngine(Engine):
    """PyTorch's tensors, optimizers and modules."""

    def __init__(self) -> None:
        self._torch: Any = import_module("torch")

    def token(self, tensor: Any) -> tuple[int, ...]:
        """Its object, memory and version."""
        if tensor.layout is not self._torch.strided:
            return (id(tensor), tensor._version)
        return (id(tensor), tensor.data_ptr(), tensor._version)

    def serial(self) -> int:
        """That of the next node."""
        return self._torch.autograd._get_sequence_nr()

    def norms(self, tensors: Sequence[Any]) -> list[float]:
        """In float32 at least; sparse tensors by their values."""
        if not tensors:
            return []
        kinds = {(t.dtype, t.device, t.is_sparse, t.requires_grad) for t in tensors}
        if len(kinds) > 1 or any(row[2:] != (False, False) for row in kinds):
            tensors = [_plain(t) for t in tensors]
        if any(dtype.itemsize < 4 for dtype, *_ in kinds):  # squares would over- or underflow
            found = [self._norm(t) for t in tensors]
        elif len(tensors) == 1:
            return [self._norm(tensors[0]).item()]
        else:
            found = self._torch._foreach_norm(tensors)
        if len({row[:2] for row in kinds}) > 1:
            return [float(n) for n in found]
        return self._torch.stack(found).tolist()

    def _norm(self, tensor: Any) -> Any:
        wide = self._torch.float32 if tensor.dtype.itemsize < 4 else None
        return self._torch.linalg.vector_norm(tensor, dtype=wide)

    def listen(self, tensor: Any, hear: Callable[[Sequence[Any]], None]) -> bool:
        """By a hook of the node that made it, which the graph holds."""
        if tensor.grad_fn is None or not tensor.is_floating_point():
            return False
        unseen = self._torch._C.DisableTorchFunction

        def heard(gs: Sequence[Any]) -> None:
            with unseen():
                hear(gs)

        tensor.grad_fn.register_prehook(heard)
        return True

    def copies(self, tensors: Sequence[Any]) -> list[Any]:
        """Without a graph."""
        return list(self._torch._foreach_clone([t.detach() for t in tensors])) if tensors else []

    def moved(self, tensors: Sequence[Any], copies: Sequence[Any]) -> list[float]:
        """As `norms` has them."""
        if not tensors:
            return []
        return self.norms(self._torch._foreach_sub([t.detach() for t in tensors], list(copies)))

    def array(self, values: Any) -> Array:
        """From where it is."""
        x = values.detach()
        return (x.float() if x.dtype.itemsize < 4 else x).cpu().numpy()

    def params(self, optimizer: Any) -> list[Any]:
        """Those of all groups."""
        every = {id(p): p for group in optimizer.param_groups for p in group["params"]}
        return list(every.values())

    def own(self, module: Any) -> list[tuple[str, Any]]:
        """As `named_parameters(recurse=False)` has them."""
        return list(module.named_parameters(recurse=False))


def _plain(tensor: Any) -> Any:
    """Without a graph, and dense."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if not tensor.is_sparse:
        return tensor
    return (tensor if tensor.is_coalesced() else tensor.coalesce()).values()


def stream(torch: Any) -> bytes:
    """Where PyTorch's random numbers are."""
    with torch._C.DisableTorchFunction():
        return torch.get_rng_state().numpy().tobytes()


def is_abstract(torch: Any) -> bool:
    """Whether a program runs on values that are not there: traced, compiled or mapped."""
    c = torch._C
    return (
        c._are_functorch_transforms_active()
        or c._get_tracing_state() is not None
        or torch.compiler.is_compiling()
    )


MOST = 20_000
"""Nodes that are visited at most."""
_LEAF = 1 << 63
"""Leaves have serial numbers from here on."""


def graph_of(roots: Sequence[Any]) -> Graph:
    """The nodes that the roots (tensors) reach."""
    stack: list[Any] = [root.grad_fn for root in roots if getattr(root, "grad_fn", None)]
    seen: set[Any] = set(stack)
    serials: list[int] = []
    leaves: list[Any] = []
    while stack and len(seen) < MOST:
        node = stack.pop()
        serial: int = node._sequence_nr()
        if serial < _LEAF:
            serials.append(serial)
        elif hasattr(node, "variable"):
            leaves.append(node.variable)
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                stack.append(below)
    return Graph(tuple(sorted(serials)), tuple(leaves), bool(stack))


_TURNED = ("TBackward0", "TransposeBackward0", "PermuteBackward0")


_REDUCTIONS = {1: "mean", 2: "sum"}
_PLAIN: dict[str, str] = {"MeanBackward0": "mean", "MeanBackward1": "mean", "SumBackward0": "sum"}
_NAMES = {f"{name.capitalize()}Backward0": name for name in ("add", "sub", "neg", "mul", "div")}


@final
class TorchNodes(Nodes):
    """Nodes of PyTorch's."""

    def name(self, node: Any) -> str:
        """That of its op."""
        return _NAMES.get(node.name(), "")

    def below(self, node: Any) -> list[Any]:
        """All that it leads to."""
        return [n for n, _ in node.next_functions if n is not None]

    def number(self, node: Any) -> float | None:
        """A number that it keeps."""
        for name in ("_saved_other", "_saved_self"):
            kept = getattr(node, name, None)
            if kept is not None and kept.numel() == 1 and not kept.requires_grad:
                return float(kept)
        return None

    def reduced(self, node: Any, way: Way) -> Scale:
        """By its name, or by what it keeps of a loss of PyTorch's."""
        name: str = node.name()
        reduction = _PLAIN.get(name, _REDUCTIONS.get(getattr(node, "_saved_reduction", 0), ""))
        share, counts = _share(node, name, reduction, way.first), _counts(node, reduction)
        return Scale(abs(way.divisor), reduction, way.divided, counts=counts, share=share)


def _share(node: Any, name: str, reduction: str, first: float) -> Share | None:
    """Of what a mean is one: what `ignore_index` leaves of the targets; or a number of the elements
    that were added up, by which their sum was divided."""
    if name.startswith("NllLoss") and node._saved_weight is None:
        target, ignored = node._saved_target, node._saved_ignore_index
        count = float((target != ignored).sum())
        return Share(count, target.numel()) if reduction == "mean" or first == count else None
    sizes = getattr(node, "_saved_self_sym_sizes", ()) if name in _PLAIN else ()
    whole = abs(first - round(first)) < 1e-6 and 0 < first <= math.prod(sizes)
    return Share(first, math.prod(sizes)) if reduction == "sum" and whole else None


def _counts(node: Any, reduction: str) -> frozenset[float]:
    """What a sum is divided by to be a mean; nothing for what is one, or is neither."""
    if reduction != "sum":
        return frozenset()
    sizes = getattr(node, "_saved_self_sym_sizes", None)
    kept = getattr(node, "_saved_self", None) if sizes is None else None
    return counts_of(tuple(sizes) if sizes is not None else getattr(kept, "shape", ()))
