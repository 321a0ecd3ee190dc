"""Code that runs at other sizes, and changed, cannot leave the memory of its arrays: that is an
error, not a crash. NumPy does not check views by strides, nor PyTorch indices of sparse arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, cast

import numpy as np

from chainrule.verify.patches import Patches
from chainrule.verify.subject import Array


@contextmanager
def check_views(functions: Iterable[Callable[..., Any]]) -> Generator[None]:
    """Within it, `as_strided` checks its views, also where the modules of functions have imported
    it by name, and PyTorch the indices of sparse arrays."""
    unchecked: Any = np.lib.stride_tricks.as_strided
    spaces: list[dict[str, Any]] = [getattr(f, "__globals__", {}) for f in functions]
    held = [(space, name) for space in spaces for name, v in space.items() if v is unchecked]
    patches = Patches()
    patches.put(np.lib.stride_tricks, "as_strided", _checked)
    for space, name in held:
        space[name] = np.lib.stride_tricks.as_strided
    try:
        with _checked_indices():
            yield
    finally:
        patches.undo()
        for space, name in held:
            space[name] = unchecked


def _checked_indices() -> AbstractContextManager[Any]:
    torch: Any = sys.modules.get("torch")
    return nullcontext() if torch is None else torch.sparse.check_sparse_tensor_invariants()


def _checked(unchecked: Callable[..., Array]) -> Callable[..., Array]:
    @wraps(unchecked)
    def as_strided(x: Any, *args: Any, **kwargs: Any) -> Array:
        view = unchecked(x, *args, **kwargs)
        first, last = _bounds(view)
        start, end = _bounds(_owner(x))
        if view.size and (first < start or last > end):
            raise ValueError(
                f"as_strided: a view of shape {view.shape} and strides {view.strides} leaves the "
                f"memory of its array, which has shape {np.shape(x)}"
            )
        return view

    return as_strided


def _owner(x: Any) -> Array:
    """The array of whose memory another one is a view, over however many views."""
    chain = [x]
    while (base := getattr(chain[-1], "base", None)) is not None:
        chain.append(base)
    arrays = [cast("Array", node) for node in chain if isinstance(node, np.ndarray)]
    return arrays[-1] if arrays else np.asarray(x)


def _bounds(x: Array) -> tuple[int, int]:
    """The addresses of an array's first byte, and of the one after its last."""
    steps = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
    first = int(x.__array_interface__["data"][0])
    last = first + x.itemsize
    return first + sum([min(s, 0) for s in steps]), last + sum([max(s, 0) for s in steps])
