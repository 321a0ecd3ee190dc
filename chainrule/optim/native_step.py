"""A rule's step on long vectors as one kernel, in which each number is read and written once.

The kernel is the rule itself, run once on `Vector`s. It is for vectors of all lengths and for all
values of the settings but 0, for which a rule may leave something out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from chainrule.engine.dtypes import Dtype, float32, float64
from chainrule.engine.graph import tracer
from chainrule.engine.op import Array
from chainrule.ops.eager_kernels import Kernel, Run, has_kernels, is_on, updater
from chainrule.optim.traced_step import Rule, Vector, flush_subnormal

LEAST = 1 << 12
"""Elements of a vector from which on a kernel is worth loading."""
ANY = "any number"
"""Stands for a number that a kernel is given."""
Pattern = tuple[tuple[str, Any], ...]
"""The settings by name: `ANY`, a tuple with it, or what they are."""


def is_native(rule: Rule, group: Mapping[str, Any], p: Array) -> bool:
    """Whether a step of such parameters is a kernel: of long vectors, by rules of this package,
    whose names say what they compute."""
    long = p.size >= LEAST and p.dtype in (float32, float64)
    if not long or not type(rule).__module__.startswith("chainrule.") or not is_on():
        return False
    return has_kernels() and all(_is_plain(x) for name, x in group.items() if name != "params")


def native_step(
    rule: Rule, group: Mapping[str, Any], step: int, p: Array, g: Array,
    state: Mapping[str, Array], numbers: Mapping[str, Any],
) -> None:  # fmt: skip
    """Change vectors of parameters `p` and of what is remembered, as `rule.update`; `g` stays."""
    values: list[float] = []
    settings = {**group, **numbers, "step": step}
    del settings["params"]
    pattern = tuple([(name, _pattern_of(x, values)) for name, x in settings.items()])
    kernel = _kernel(type(rule), pattern, tuple(state), tuple(numbers), p.dtype)
    vectors = (p, *state.values(), g)
    run = _at(kernel, len(p), len(vectors), len(values)).direct
    made = run((*vectors, *[np.asarray(x) for x in values]))
    assert made is not None, "vectors of other lengths than their optimizer's"


def _is_plain(x: Any) -> bool:
    if isinstance(x, tuple):
        return all(map(_is_plain, cast("tuple[Any, ...]", x)))
    return x is None or isinstance(x, bool | int | float | str)


def _pattern_of(x: Any, values: list[float]) -> Any:
    """A setting in a `Pattern`; its numbers are added to the values."""
    if isinstance(x, tuple):
        return tuple([_pattern_of(each, values) for each in cast("tuple[Any, ...]", x)])
    if isinstance(x, bool) or not isinstance(x, int | float) or x == 0:
        return x
    values.append(float(x))
    return ANY


def _setting(x: Any, values: Any) -> Any:
    """A setting again, with the next of other values."""
    if isinstance(x, tuple):
        return tuple([_setting(each, values) for each in cast("tuple[Any, ...]", x)])
    return next(values) if x == ANY else x


def _number(by: Any, x: Any) -> Vector:
    """A number that is not 0, as a rule may ask."""
    y = by.as_number(x)
    by.known_truths[y.node] = lambda: True
    return Vector(y)


@lru_cache(maxsize=1024)
def _at(kernel: Kernel, size: int, vectors: int, numbers: int) -> Run:
    return kernel.at([(size,)] * vectors + [()] * numbers, [])


@lru_cache(maxsize=256)
def _kernel(
    kind: Any, pattern: Pattern, state: tuple[str, ...], numbers: tuple[str, ...], dtype: Dtype
) -> Kernel:
    """The kernel of one step of the rule `kind`: it updates a vector of parameters and those of
    `state`, from the gradient and the settings that may change."""
    count, scalars = 2 + len(state), repr(pattern).count(repr(ANY))

    def f(xs: Sequence[Any]) -> list[Any]:
        by: Any = tracer()
        vectors = [Vector(x) for x in xs[:count]]
        p, *memory, g = vectors
        values = iter([_number(by, x) for x in xs[count:]])
        group = {name: _setting(x, values) for name, x in pattern}
        known = dict(zip(state, memory, strict=True)) | {n: group[n] for n in numbers}
        kind.update(object.__new__(kind), group, group["step"], p, g, known)
        return [p.tensor, *[flush_subnormal(v.tensor) for v in memory]]

    letters, dtypes = ["N"] * count + [""] * scalars, [dtype] * count + [float64] * scalars
    name = f"step of {kind.__name__} with {pattern}, {state} and {numbers}"
    return updater()(name, f, letters, dtypes)
