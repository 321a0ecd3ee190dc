"""An optimizer's step while it is traced: the same rule, on things that stand for arrays.

A rule is written with in-place operators and NumPy's ufuncs. On a `Vector` those record ops, and
the vector has their result from then on. Numbers in the optimizer's groups become inputs of the
compiled step, so that a learning rate may change between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, cast, final

import numpy as np

from chainrule.engine.dtypes import finfo
from chainrule.engine.tensors import Tensor
from chainrule.ops import elementwise as ew
from chainrule.ops.families import rows
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import astype, reshape
from chainrule.optim.bucket import Bucket


class Rule(Protocol):
    """What of an optimizer's rule a traced step asks for; see `Bucketed`."""

    def update(self, group: Any, step: Any, p: Any, g: Any, state: Mapping[str, Any]) -> None:
        """Change parameters and what is remembered of them."""

    def limits(self, name: str) -> tuple[float, float] | None:
        """A range of a setting of which every float passes its check, if there is one."""
        ...

    def next_numbers(self, group: Any, step: Any, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers after the step."""
        ...


@final
class Vector(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor in the place of an array that is written to: `out=` and `+=` replace it."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """As the tensor."""
        return self.tensor.shape

    @property
    def dtype(self) -> Any:
        """As the tensor."""
        return self.tensor.dtype

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        (out,) = kwargs.pop("out", (None,))
        xs = [x.tensor if isinstance(x, Vector) else x for x in inputs]
        row = None if kwargs or method != "__call__" else _rows_by_ufunc().get(ufunc)
        y = row(*xs) if row is not None else getattr(ufunc, method)(*xs, **kwargs)
        if out is None:
            return Vector(y)
        out.tensor = y if y.dtype == out.dtype else astype(y, out.dtype)
        return out


@cache
def _rows_by_ufunc() -> dict[Any, Any]:
    """Ops by the ufunc that they are on arrays: the way of a tensor's `__array_ufunc__` without all
    of NumPy's functions, which take longer to load than most steps to trace."""
    return {row.fn: row for row in rows.values() if isinstance(row.fn, np.ufunc)}


@final
class Settings(Mapping[str, Any]):
    """A group of an optimizer whose numbers are read again at every call.

    What else stands in it (a bool, say) is part of the trace, which holds only as long as that is
    the same.
    """

    def __init__(
        self, by: Any, group: Mapping[str, Any], check: Callable[[], None], rule: Rule
    ) -> None:
        self._by = by
        self._group = group
        self._check = check
        self._limits = rule.limits

    def __getitem__(self, key: str) -> Any:
        group = self._group
        value: Any = group[key]
        if _is_number(value):
            return self._number(key)
        if isinstance(value, tuple | list) and _are_numbers(value):
            return tuple([self._number(key, i) for i in range(len(group[key]))])
        return self.fixed(key)

    def fixed(self, key: str) -> Any:
        """A setting as it is: the trace holds only as long as it stays so."""
        self._by.reads(self._group, key, f"the setting {key!r} of an optimizer")
        return self._group[key]

    def _number(self, key: str, item: int | None = None) -> Vector:
        limits = self._limits(key) if item is None else None
        return Vector(self._by.number((self._group, key, item), self._check, limits))

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


def fixed(group: Mapping[str, Any], key: str) -> Any:
    """A setting of a rule that decides how often something is done, say: never a `Vector`."""
    return group.fixed(key) if isinstance(group, Settings) else group[key]


def choose(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition is true, else b: of numbers, arrays or `Vector`s."""
    if isinstance(condition, np.ndarray):
        return cast(Any, np.where)(condition, a, b)
    if not isinstance(condition, Vector):
        return a if condition else b
    a, b = [x.tensor if isinstance(x, Vector) else x for x in (a, b)]
    return Vector(where(condition.tensor, a, b))


def _are_numbers(values: Any) -> bool:
    return all(_is_number(v) for v in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def traced_step(
    by: Any, bucket: Bucket, group: Mapping[str, Any], check: Callable[[], None], rule: Rule
) -> None:
    """One step of the parameters in `bucket`, traced `by`."""
    bucket.release()
    bucket.count.data = bucket.count + 1
    step = Vector(by.as_number(astype(bucket.count, np.float64)))
    known = {name: Vector(by.as_number(t)) for name, t in bucket.numbers.items()}
    settings = Settings(by, group, check, rule)
    numbers = rule.next_numbers(settings, step, known)
    for name, t in bucket.numbers.items():
        t.data = numbers[name].tensor
    _each(bucket, settings, step, numbers, rule)


def whole_step(bucket: Bucket, group: Mapping[str, Any], rule: Rule) -> None:
    """One step of the parameters in `bucket` by a rule that needs them whole."""
    bucket.steps += 1
    with np.errstate(all="ignore"):
        _each(bucket, group, bucket.steps, {}, rule)


def _each(
    bucket: Bucket, settings: Mapping[str, Any], step: Any, numbers: Mapping[str, Any], rule: Rule
) -> None:
    """The rule applied to one parameter after the other.

    What is remembered is taken apart by parameter and put together again, so that each parameter's
    arithmetic can follow that of its gradient.
    """
    whole = {name: t.detach() for name, t in bucket.state.items()}
    after: dict[str, list[Any]] = {name: [] for name in whole}
    for i, p in enumerate(bucket.params):
        parts: dict[str, Any] = {
            name: Vector(reshape(t[bucket.slice(name, i)], bucket.shape(name, i)))
            for name, t in whole.items()
        }
        new = Vector(p.detach())
        rule.update(settings, step, new, Vector(_gradient(p)), {**parts, **numbers})
        p.data = new.tensor
        for name, part in parts.items():
            after[name].append(reshape(flush_subnormal(part.tensor), (-1,)))
    for name, t in bucket.state.items():
        t.data = concat(after[name])


def _gradient(p: Tensor) -> Any:
    assert p.grad is not None
    g = p.grad.detach()
    return g if g.dtype == p.dtype else astype(g, p.dtype)


def flush_subnormal(t: Any) -> Any:
    """0 where the eager step would set it to 0 in time: see `Bucket.flush`."""
    return where(ew.abs(t) < finfo(t.dtype).smallest_normal, 0, t)
