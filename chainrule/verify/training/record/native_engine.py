"""chainrule's tensors, optimizers and modules, as parts ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from chainrule.engine.graph import serial
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.verify.training.record.engine import Engine


@final
class OwnEngine(Engine):
    """chainrule's tensors, whose arrays are never written to: another gradient is another one."""

    def token(self, tensor: Any) -> tuple[int, ...]:
        """Its object and its array."""
        return (id(tensor), id(tensor.value))

    def serial(self) -> int:
        """One that no node gets."""
        return serial()

    def norms(self, tensors: Sequence[Any]) -> list[float]:
        """In float64."""
        return [_norm(t.value) for t in tensors]

    def listen(self, tensor: Any, hear: Callable[[Sequence[Any]], None]) -> bool:
        """By a hook of the tensor."""
        if tensor.node is None or tensor.is_leaf:
            return False

        def heard(g: Any) -> None:
            hear([g])

        tensor.register_hook(heard)
        return True

    def copies(self, tensors: Sequence[Any]) -> list[Any]:
        """Their arrays: who writes to a parameter gives it another one."""
        return [t.value for t in tensors]

    def moved(self, tensors: Sequence[Any], copies: Sequence[Any]) -> list[float]:
        """In float64."""
        return [_norm(t.value - old) for t, old in zip(tensors, copies, strict=True)]

    def array(self, values: Any) -> Array:
        """Of a tensor, or its array itself."""
        x = np.asarray(values.value if isinstance(values, Tensor) else values)
        return x.astype(np.float32) if x.itemsize < 4 else x

    def params(self, optimizer: Any) -> list[Any]:
        """Those of all groups."""
        return [p for group in optimizer.param_groups for p in group["params"]]

    def modules(self, root: Any) -> list[tuple[str, Any]]:
        """As `named_modules` has them."""
        return list(root.named_modules())

    def own(self, module: Any) -> list[tuple[str, Any]]:
        """Parameters that no child has."""
        below = {id(t) for _, child in module.children() for _, t in child.named_tensors()}
        return [(name, p) for name, p in module.named_parameters() if id(p) not in below]


def _norm(x: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(np.abs(x).astype(np.float64)))
