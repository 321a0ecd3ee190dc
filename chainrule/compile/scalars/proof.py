"""The first call with other ints than those of a recording: the program runs too, and decides."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose, isnan
from typing import Any, Protocol

from chainrule.compile.scalars.steps.step import Step
from chainrule.scalar import Value
from chainrule.tree import flatten


class Proved(Protocol):
    """What is tried."""

    proven: bool
    step: Step | None


def proven(
    f: Callable[..., Any], args: Any, kwargs: Any, variant: Proved, run: Callable[[], Any]
) -> Any:
    """What `run` gives; notes whether f gives that, too."""
    found = run()
    variant.proven = _alike(f(*args, **kwargs), found)
    return found


def proven_step(
    f: Callable[..., Any], args: Any, kwargs: Any, variant: Proved, run: Callable[[], Any]
) -> Any:
    """What a step returns, and leaves, as the program itself does it; notes whether `run` does."""
    assert variant.step is not None
    state = variant.step.state
    put_back = state.saved()
    found = run()
    numbers = state.numbers()
    put_back()
    wanted = f(*args, **kwargs)
    variant.proven = _alike(state.numbers(), numbers) and _alike(wanted, found)
    return found if variant.proven else wanted


def _alike(wanted: Any, found: Any) -> bool:
    (xs, structure), (ys, other) = flatten(wanted), flatten(found)
    pairs = zip(xs, ys, strict=False)
    return structure == other and all(_same(_number(x), _number(y)) for x, y in pairs)


def _number(x: Any) -> Any:
    return x.data if isinstance(x, Value) else x


def _same(a: float, b: float) -> bool:
    return isclose(a, b, rel_tol=1e-9, abs_tol=1e-15) or (isnan(a) and isnan(b))
