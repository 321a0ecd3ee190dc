"""Is a backward right? Differences of the forward say so, without the verifier.

Central differences of fourth order in float64 of `sum(g * forward(xs))`, one element at a time: no
code of the package takes part, so that a wrong engine or a wrong verifier cannot hide a dud.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from . import modules
from .case import Call

Run = Callable[..., tuple[Any, Callable[[Any], tuple[Any, ...]]]]
"""From arguments to the output and its pullback."""


def runner(face: str, made: ModuleType, call: Call) -> Run:
    """How code of a face is run, on NumPy arrays."""
    if face == "numpy":
        return _layer(made, call) if not call.backward else _pair(made, call)
    from . import tensors

    return tensors.runner(face, made, call)


def _pair(made: ModuleType, call: Call) -> Run:
    forward, backward = getattr(made, call.forward), getattr(made, call.backward)

    def run(*args: Any) -> Any:
        own = copy.deepcopy(args)
        y = forward(*own)
        if call.order == "cache":
            y, kept = y
            return copy.deepcopy(y), lambda g: backward(g, kept)
        if call.order == "g last":
            return copy.deepcopy(y), lambda g: backward(*own, g)
        return copy.deepcopy(y), lambda g: backward(g, *own)

    return run


def _entry(thing: Any, path: str) -> Any:
    """`dW`, `grads.W` or `layers.0.dW` of a layer."""
    for word in path.split("."):
        if word.isdigit():
            thing = thing[int(word)]
        else:
            thing = thing.get(word) if isinstance(thing, dict) else getattr(thing, word, None)
    return thing


def _layer(made: ModuleType, call: Call) -> Run:
    def run(*args: Any) -> Any:
        one, own = modules.layer(made, call, copy.deepcopy(args))
        y = copy.deepcopy(one.forward(*own))

        def pull(g: Any) -> tuple[Any, ...]:
            bars = one.backward(g)
            listed = list(bars) if isinstance(bars, tuple) else [bars]
            listed += [None] * (len(own) - len(listed))
            return (*listed, *[_entry(one, path) for path in call.grads])

        return y, pull

    return run


def _floating(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def places(shape: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Indices of all elements, or of `most` of them in even steps."""
    every = list(np.ndindex(*shape))
    return every[:: max(1, -(-len(every) // most))]


def differences(run: Run, args: Sequence[Any], i: int, g: Any, most: int) -> Any:
    """The gradient of `sum(g * y)` by argument i, from values of the forward only; NaN where it
    was not asked for."""
    grad = np.full_like(args[i], np.nan)
    h = 1e-3
    for at in places(args[i].shape, most):
        total = 0.0
        for step, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = list(copy.deepcopy(args))
            moved[i][at] += step * h
            total += weight * float(np.sum(g * run(*moved)[0]))
        grad[at] = total / (12 * h)
    return grad


def cotangent(y: Any, seed: int, how: str = "") -> Any:
    """A random cotangent; `strided`: with the axes' order in memory turned round."""
    g = np.random.default_rng(seed).normal(size=np.shape(y))
    return np.asfortranarray(g) if how == "strided" and np.ndim(g) else g


def _error(bar: Any, right: Any) -> float:
    """Relative disagreement; infinite if what came back is not even comparable."""
    if bar is None:
        return float(np.nanmax(np.abs(right), initial=0.0) > 0)
    bar = np.asarray(bar, dtype=np.float64)
    if bar.shape != right.shape or not np.isfinite(bar).all():
        return np.inf
    known = ~np.isnan(right)
    bar, right = bar[known], right[known]
    scale = max(float(np.linalg.norm(right)), float(np.linalg.norm(bar)), 1e-300)
    return float(np.linalg.norm(bar - right)) / scale


def cast(x: Any, dtype: str) -> Any:
    """Float arrays in another dtype, anything else as it is."""
    return x.astype(dtype, order="K") if _floating(x) else x


def errors(run: Run, args: Sequence[Any], how: str = "", most: int = 1_000_000) -> dict[int, float]:
    """Relative error of the backward by float argument, at `most` elements of each; all infinite
    if the backward raises."""
    y, _ = run(*args)
    wanted = [i for i, x in enumerate(args) if _floating(x)]
    g = cotangent(y, 7, how)
    right = {i: differences(run, args, i, g, most) for i in wanted}
    low = "float32" if how == "float32" else "float64"
    try:
        bars = run(*[cast(a, low) for a in args])[1](g.astype(low, order="K"))
    except (ValueError, TypeError, RuntimeError, IndexError):
        return dict.fromkeys(wanted, np.inf)
    if isinstance(bars, dict):
        bars = tuple(bars.values())
    listed = bars if isinstance(bars, tuple | list) else (bars,)
    return {i: _error(listed[i], right[i]) for i in wanted}
