"""PyTorch's tensors, optimizers and modules, as parts ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, final

from chainrule.engine.op import Array
from chainrule.verify.training.record.engine import Engine


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

    def modules(self, root: Any) -> list[tuple[str, Any]]:
        """As `named_modules` has them."""
        return list(root.named_modules())

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
