"""The first call with other ints than those of a recording: the program runs too, and decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import isclose, isnan
from typing import Any, Protocol

from chainrule.compile.scalars.gathers import Chosen
from chainrule.compile.scalars.steps.step import Step
from chainrule.scalar import Value
from chainrule.tree import Structure, flatten


class Proved(Protocol):
    """What is tried."""

    proven: bool
    step: Step | None

    def chosen(self, ints: Sequence[int]) -> Chosen | None:
        """What ints choose; None if they lead to something else."""
        ...

    def call(self, leaves: Sequence[Any], chosen: Chosen) -> Any:
        """What it gives."""
        ...


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


def prove(
    f: Callable[..., Any],
    variant: Proved,
    given: tuple[Sequence[Any], Structure],
    others: Sequence[Sequence[int]],
) -> None:
    """Let the program run for the first of `others` that the recording is for, too, and note
    whether both do the same; all that it trains is as it was then. Ints that a step changes are
    others."""
    leaves, structure = given
    state = None if variant.step is None else variant.step.state
    counts = [] if state is None else state.counts
    now = [x for x in leaves if type(x) is int]
    put_back = None if state is None else state.saved()
    try:
        for c in counts:
            c.write(c.value + 1)
        for ints in [*([now] if counts else []), *others]:
            different = len(ints) == len(now) and (bool(counts) or list(ints) != now)
            chosen = _chosen(variant, ints) if different else None
            if chosen is None:
                continue
            rest = iter(ints)
            here = [next(rest) if type(x) is int else x for x in leaves]
            args, kwargs = structure.unflatten(here)
            proof = proven if state is None else proven_step
            with suppress(Exception):  # a program that fails has not done the same
                proof(f, args, kwargs, variant, lambda x=here, c=chosen: variant.call(x, c))
            return
    finally:
        if put_back is not None:
            put_back()


def _chosen(variant: Proved, ints: Sequence[int]) -> Chosen | None:
    """What ints choose; None also where they divide by 0."""
    try:
        return variant.chosen(ints)
    except ArithmeticError:
        return None


def other_ints(ints: Sequence[int]) -> Iterator[list[int]]:
    """Ints that a program may take in the place of these."""
    n = len(ints)
    for k in range(1, n):
        yield [*ints[k:], *ints[:k]]
    for more in (1, -1, 2, 3, 10):
        yield [x + more for x in ints]
    for i in range(n):
        for more in (1, -1, 2):
            yield [x + more if i == k else x for k, x in enumerate(ints)]


def _alike(wanted: Any, found: Any) -> bool:
    (xs, structure), (ys, other) = flatten(wanted), flatten(found)
    pairs = zip(xs, ys, strict=False)
    return structure == other and all(_same(_number(x), _number(y)) for x, y in pairs)


def _number(x: Any) -> Any:
    return x.data if isinstance(x, Value) else x


def _same(a: float, b: float) -> bool:
    return isclose(a, b, rel_tol=1e-9, abs_tol=1e-15) or (isnan(a) and isnan(b))
