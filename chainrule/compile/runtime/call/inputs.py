"""What a call of a compiled function would give its program: copies, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, final

import numpy as np

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.runtime.call.sized_program import Sized
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.trace.state_inputs import HeldGrad
from chainrule.compile.trace.variant import Variant
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError


@final
@dataclass(frozen=True, slots=True)
class Inputs:
    """The arrays of a call, in the order of the program's inputs, and the sizes that it says."""

    arrays: list[Array]
    symbols: dict[str, int]


def nothing(f: Callable[..., Any], name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """No arguments, for `f`, which was not called yet; raises `ConfigError` if it needs some."""
    try:
        signature(f).bind()
    except TypeError as cause:
        raise ConfigError(
            f"{name} has not been called yet, so there is no program to tell of: call it once, or "
            "give the arguments of a call"
        ) from cause
    return (), {}


def native_of(variant: Variant) -> Native:
    """The program of a variant."""
    run: Any = variant.run
    return run.run if isinstance(run, Sized) else run


def inputs(variant: Variant, leaves: Sequence[Any]) -> Inputs | None:
    """What `variant` would be run on; None if it cannot be, as the state is now."""
    if variant.read.changed() is not None:
        return None
    found: list[Any] = [_copy(leaves[i]) for i in variant.args]
    for h in variant.held:
        t = h.tensor()
        if t is None or t.value.shape != h.spec.shape or t.value.dtype != h.spec.dtype:
            return None
        found.append(_copy(t))
    found += [_gradient(h) for h in variant.grads if h.read or h.written]
    if any(x is None for x in found):
        return None
    found += [np.array(n.read(), n.array.dtype) for n in variant.numbers]
    symbols = _symbols(variant, found)
    objects = native_of(variant).loaded.layout.objects
    drawn = [b for b, _ in zip(objects[len(found) :], _read(variant), strict=False)]
    return Inputs([*found, *[_anything(b, symbols) for b in drawn]], symbols)


def _copy(x: Any) -> Array:
    return np.array(x.value if isinstance(x, Tensor) else x, order="C")


def _gradient(h: HeldGrad) -> Array | None:
    """The gradient, or memory for it; None if there is none that the program can read."""
    t = h.tensor()
    if t is None:
        return None
    g = t.grad
    if g is not None and g.shape == h.spec.shape and g.dtype == h.spec.dtype:
        return _copy(g)
    return None if h.read else np.zeros(h.spec.shape, h.spec.dtype)


def _symbols(variant: Variant, found: Sequence[Array]) -> dict[str, int]:
    run: Any = variant.run
    places = run.places if isinstance(run, Sized) else []
    return {s: found[i].shape[a] for s, i, a in places}


def _read(variant: Variant) -> list[Any]:
    return [d for d in variant.draws if d.read]


def _anything(b: Buffer, symbols: dict[str, int]) -> Array:
    """Numbers in place of random ones, which are not drawn: that would change what comes next.
    Whole numbers are 0, which is a valid place in anything."""
    shape = [size_at(n, symbols) for n in b.shape]
    if b.dtype.kind != "f":
        return np.zeros(shape, b.dtype)
    return np.random.default_rng(0).random(shape).astype(b.dtype)
