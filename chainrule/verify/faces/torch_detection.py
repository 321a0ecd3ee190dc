"""Whether something is PyTorch's, told without loading PyTorch where nobody uses it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast


def is_torch_module(x: Any) -> bool:
    """Whether `x` is a module of PyTorch's, or a class of such."""
    if "torch" not in sys.modules:
        return False
    module = sys.modules["torch"].nn.Module
    return issubclass(x, module) if isinstance(x, type) else isinstance(x, module)


def is_torch(x: Any) -> bool:
    """Whether `x` is PyTorch's or of a class derived from one of its own; PyTorch stays unloaded
    where it is not in use."""
    if "torch" not in sys.modules:
        return False
    cls = x if isinstance(x, type) else type(x)
    homes = [str(getattr(c, "__module__", "")) for c in cls.__mro__]
    home = str(getattr(x, "__module__", "") or "")
    return any(h.split(".")[0] == "torch" for h in (*homes, home))


def holds_torch(x: Any) -> bool:
    """Whether `x` is one of PyTorch's tensors, or a container that holds one."""
    if isinstance(x, dict):
        return holds_torch(list(cast("dict[Any, Any]", x).values()))
    if isinstance(x, list | tuple):
        return any(holds_torch(v) for v in cast("Sequence[Any]", x))
    return "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor)
