"""Values of the user's, of whatever library, as numbers that formulas are compared by.

A value is kept as the program has it (`fresh` copies it for each run, `wide` gives it the precision
of differences) and read as an array of NumPy's (`array_of`). `moved` gives another one that may
stand in its place: probabilities stay probabilities, labels labels, what is sorted stays sorted.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.op import Array

MOST = 200_000
"""Elements of a value that is copied."""
_LONG = 4096
"""Items of a list that is."""
_TINY = 1e-3
"""A number up to which it is there against a division by zero."""
_NEAR = 1e-6


def _numpy(x: Any) -> Any:
    """An array of NumPy's; None if it is none."""
    return cast("Any", x) if isinstance(x, np.ndarray) else None


def _is_tensor(x: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_native(x: Any) -> bool:
    """Whether it is a tensor of chainrule's."""
    return type(x).__module__.startswith("chainrule.engine") and type(x).__name__ == "Tensor"


def is_number(x: Any) -> bool:
    """Whether it is one of Python's or NumPy's."""
    return isinstance(x, int | float | np.number) and not isinstance(x, bool)


def is_plain(x: Any, deep: int = 3) -> bool:
    """Whether a value can be copied, and is made of numbers."""
    if is_number(x) or isinstance(x, bool):
        return True
    if _is_tensor(x):
        return x.layout is _strided() and 0 < x.numel() <= MOST
    if (array := _numpy(x)) is not None:
        return array.dtype.kind in "fiub" and 0 < array.size <= MOST
    if isinstance(x, list | tuple | deque):
        items = cast("Sequence[Any]", x)
        return deep > 0 and len(items) <= _LONG and all(is_plain(i, deep - 1) for i in items)
    return _is_native(x)


def _strided() -> Any:
    return sys.modules["torch"].strided


def fresh(value: Any) -> Any:
    """A copy of what a run may write into; anything else as it is."""
    x: Any = value
    if _is_tensor(x):
        return x.detach().clone() if is_plain(x) else x
    if (array := _numpy(x)) is not None:
        return array.copy() if is_plain(x) else array
    items = _items(x)
    return x if items is None or len(items) > _LONG else _rebuilt(items, fresh)


def _items(value: Any) -> Any:
    """A list, a tuple or their like; None of anything else."""
    return cast("Any", value) if isinstance(value, list | tuple | deque) else None


def _rebuilt(x: Any, of: Callable[[Any], Any]) -> Any:
    """A list, or its like, of other items."""
    items = [of(i) for i in x]
    if isinstance(x, deque):
        return deque(items, cast("deque[Any]", x).maxlen)
    if isinstance(x, tuple) and hasattr(cast("Any", x), "_fields"):
        return type(cast("Any", x))(*items)
    return tuple(items) if isinstance(x, tuple) else items


def wide(value: Any) -> Any:
    """The same with the precision of differences."""
    x: Any = value
    if _is_tensor(x):
        return x.detach().double() if x.is_floating_point() and is_plain(x) else x
    if (array := _numpy(x)) is not None:
        return array.astype(np.float64) if array.dtype.kind == "f" else array
    if isinstance(x, np.floating):
        return np.float64(cast("Any", x))
    items = _items(x)
    return x if items is None or len(items) > _LONG else _rebuilt(items, wide)


def array_of(x: Any) -> Array | None:
    """The numbers of a value in float64; None if it has none, or is ragged."""
    try:
        if _is_tensor(x):
            return np.asarray(x.detach().double().cpu().numpy())
        if _is_native(x):
            return np.asarray(x.detach().numpy(), np.float64)
        if (array := _numpy(x)) is not None:
            return array.astype(np.float64) if array.dtype.kind in "fiub" else None
        if is_number(x) or isinstance(x, bool):
            return np.asarray(float(x))
        if isinstance(x, list | deque) and len(cast("Sequence[Any]", x)) and is_plain(x):
            rows = [array_of(i) for i in cast("Sequence[Any]", x)]
            fine = [r for r in rows if r is not None and r.shape == cast("Array", rows[0]).shape]
            return np.stack(fine) if len(fine) == len(rows) else None
    except (TypeError, ValueError, RuntimeError):
        return None
    return None


def kind_of(value: Any) -> str:
    """Of what its elements are: "float", "int", or "bool" where all are 0 and 1."""
    x: Any = value
    if items := _items(x):
        kinds = {kind_of(i) for i in items}
        return "float" if "float" in kinds else next(iter(sorted(kinds, reverse=True)))
    if isinstance(x, bool) or str(getattr(x, "dtype", "")).endswith("bool"):
        return "bool"
    dtype = str(getattr(x, "dtype", ""))
    return "int" if "int" in dtype or isinstance(x, int) else "float"


def is_mask(x: Array) -> bool:
    """Whether all its elements are 0 and 1."""
    return x.size > 1 and bool(np.isin(x, (0.0, 1.0)).all())


def same(a: Any, b: Any, rtol: float = 1e-5) -> bool:
    """Whether two values are made of the same numbers."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        xs, ys = cast("tuple[Any, ...]", a), cast("tuple[Any, ...]", b)
        return len(xs) == len(ys) and all(same(x, y) for x, y in zip(xs, ys, strict=True))
    x, y = array_of(a), array_of(b)
    if x is None or y is None:
        return a is b
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=rtol, atol=1e-7, equal_nan=True))


def moved(value: Any, random: np.random.Generator) -> Any:
    """Another value of its kind; itself where there is no other."""
    x: Any = value
    if isinstance(x, bool) or (is_number(x) and not isinstance(x, float)):
        return x
    if isinstance(x, float):
        return float(_moved_floats(np.asarray(x), random)) if abs(x) > _TINY else x
    array = array_of(x)
    if (items := _items(x)) is not None:
        if array is None or array.ndim != 1 or not all(map(is_number, items)):
            return _rebuilt(items, lambda i: moved(i, random))
        new = iter(_moved_array(array, kind_of(x), random))
        return _rebuilt(items, lambda i: type(i)(next(new)))
    if array is None or not is_plain(x) or not np.isfinite(array).all():
        return x
    return _like(x, _moved_array(array, kind_of(x), random))


def _like(x: Any, new: Array) -> Any:
    """Numbers as a value of the same library, with the precision of differences."""
    if _is_tensor(x):
        torch: Any = sys.modules["torch"]
        return torch.tensor(new, dtype=torch.float64 if x.is_floating_point() else x.dtype)
    if (array := _numpy(x)) is not None:
        return new if array.dtype.kind == "f" else new.astype(array.dtype)
    return x


def _moved_array(x: Array, kind: str, random: np.random.Generator) -> Array:
    if is_mask(x):
        flips = cast("Array", random.random(x.shape)) < 0.3
        return np.where(flips, 1 - x, x)
    if kind != "float":
        return random.permutation(x.reshape(-1)).reshape(x.shape)
    return _moved_floats(x, random)


def _moved_floats(x: Array, random: np.random.Generator) -> Array:
    """Other numbers in the range and of the sums that the old ones have."""
    u = cast("Array", random.normal(size=x.shape)) * 0.25
    if x.size and x.min() > 0 and x.max() < 1:
        odds = x / (1 - x) * np.exp(u)
        new = odds / (1 + odds)
    elif x.size and (x.min() >= 0 or x.max() <= 0):
        new = np.minimum(x * np.exp(u), 1.0) if x.min() >= 0 and x.max() <= 1 else x * np.exp(u)
    else:
        new = x + u * (x.std() if x.size > 1 else abs(x))
    if x.ndim and x.shape[-1] > 1:
        if np.abs(x.sum(-1) - 1).max() < _NEAR * 10 and x.min() >= 0:
            new /= new.sum(-1, keepdims=True)
        elif np.abs((x * x).sum(-1) - 1).max() < _NEAR * 10:
            new /= np.sqrt((new * new).sum(-1, keepdims=True))
        elif x.max() <= 0 and np.abs(np.exp(x).sum(-1) - 1).max() < _NEAR * 10:
            new -= np.log(np.exp(new).sum(-1, keepdims=True))
    if x.ndim == 1 and x.size > 2 and np.ptp(x):
        steps = np.diff(x)
        if (steps >= 0).all():
            new = np.sort(new)
        elif (steps <= 0).all():
            new = np.sort(new)[::-1].copy()
    return new
