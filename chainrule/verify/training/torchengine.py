"""PyTorch's tensors, optimizers and modules, as parts ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, final

from chainrule.verify.training.events import Engine


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

    def norms(self, tensors: Sequence[Any]) -> list[float]:
        """In float32 at least; sparse tensors by their values."""
        torch = self._torch
        if not tensors:
            return []
        wide = torch.float32
        with torch.no_grad():
            plain = [_dense(t) for t in tensors]
            if len(plain) == 1:
                return [float(_norm(plain[0], wide if plain[0].dtype.itemsize < 4 else None))]
            if any(t.dtype.itemsize < 4 for t in plain):  # their squares would over- or underflow
                found = [_norm(t, wide if t.dtype.itemsize < 4 else None) for t in plain]
            else:
                found = torch._foreach_norm(plain)
            if len({(n.dtype, n.device) for n in found}) > 1:
                return [float(n) for n in found]
            return torch.stack(found).tolist()

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
        return [t.detach().clone() for t in tensors]

    def moved(self, tensors: Sequence[Any], copies: Sequence[Any]) -> list[float]:
        """As `norms` has them."""
        return self.norms([t.detach() - old for t, old in zip(tensors, copies, strict=True)])

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


def _norm(tensor: Any, dtype: Any) -> Any:
    torch: Any = import_module("torch")
    return torch.linalg.vector_norm(tensor, dtype=dtype)


def _dense(tensor: Any) -> Any:
    if not tensor.is_sparse:
        return tensor
    tensor = tensor.detach()
    return (tensor if tensor.is_coalesced() else tensor.coalesce()).values()


def is_abstract(torch: Any) -> bool:
    """Whether a program runs on values that are not there: traced, compiled or mapped."""
    c = torch._C
    return (
        c._are_functorch_transforms_active()
        or c._get_tracing_state() is not None
        or torch.compiler.is_compiling()
    )
