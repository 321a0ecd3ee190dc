"""Many calls of a compiled function as few native ones, and their results together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from chainrule.compile.runtime.call.recorded_call import RecordedCall
from chainrule.compile.runtime.call.steady_call import Steady
from chainrule.engine.graph import around, variable
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.shapes.joining import concat, stack
from chainrule.tree import flatten


def call_many(
    f: Callable[..., Any],
    latest: Callable[[], Steady | RecordedCall | None],
    batches: Iterator[Sequence[Any]],
) -> Any:
    """The results of `f(*batch)` for all batches; `latest` is the short way, as it is now."""
    parts: list[list[Any]] = []
    structure: Any = None
    batch: Any = next(batches, None)
    if batch is None:
        raise ConfigError("loop: there is no batch, so what the results would be is not known")
    while batch is not None:
        result = f(*_arguments(batch))
        leaves, now = flatten(result)
        arrays = [stack([asarray(x)]) for x in leaves]
        if parts:
            _check_alike(parts[0], arrays, structure == now, sum([len(p[0]) for p in parts if p]))
        structure = now
        parts.append(arrays)
        short = latest()
        batch = None
        if isinstance(short, Steady) and short.repeats and around.get() is None and short.holds():
            found, batch = short.loop(batches)
            if found is not None:
                parts.append([variable(x) for x in found])
        if batch is None:
            batch = next(batches, None)
    return structure.unflatten([_concat(xs) for xs in zip(*parts, strict=True)])


def _arguments(batch: Any) -> Sequence[Any]:
    if isinstance(batch, tuple | list):
        return cast("Sequence[Any]", batch)
    what = "a tensor" if isinstance(batch, Tensor) else type(batch).__name__
    raise ConfigError(f"loop: each batch is a tuple of arguments, not {what}: write (x,)")


def _check_alike(first: Sequence[Any], found: Sequence[Any], same: bool, number: int) -> None:
    """Raise where the results of batch `number` cannot be stacked on those of the first one."""
    then, now = ([f"{x.dtype} {x.shape[1:]}" for x in xs] for xs in (first, found))
    if not same or then != now:
        raise ShapeError(
            f"loop: batch {number} returns {', '.join(now)}, the first one {', '.join(then)}: the "
            "results are stacked, so all must be alike; call the function batch by batch instead"
        )


def _concat(xs: Sequence[Any]) -> Any:
    return xs[0] if len(xs) == 1 else concat(list(xs), axis=0)
