"""A rule that raises proposes no more; the others go on, and the ledger tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Failures: TypeAlias = dict[str, str]
"""By rule: how it failed last."""


def spared(
    failures: Failures, rule: Callable[P, Iterable[T]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[T]:
    """What a rule proposes until it ends or raises."""
    try:
        yield from rule(*args, **kwargs)
    except Exception as error:
        failures[rule.__name__] = f"{type(error).__name__}: {error}"
