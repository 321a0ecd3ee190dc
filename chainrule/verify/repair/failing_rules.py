"""A rule that raises proposes no more; the others go on, and the ledger tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

from chainrule.verify.repair.code.draft import Edit

P = ParamSpec("P")
T = TypeVar("T")
Failures: TypeAlias = dict[str, str]
"""By rule: how it failed last."""


def spare_failures(
    failures: Failures, rule: Callable[P, Iterable[T]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[T]:
    """What a rule proposes until it ends or raises; edits with the rule's name."""
    try:
        for found in rule(*args, **kwargs):
            yield cast("T", _sign(found, name_of(rule)))
    except Exception as error:
        failures[rule.__name__] = f"{type(error).__name__}: {error}"


def name_of(rule: Callable[..., Any]) -> str:
    """A rule by its module and its own name: `axes.other_axis`."""
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


def _sign(found: Any, name: str) -> Any:
    match found:
        case Edit(rule=""):
            return replace(found, rule=name)
        case [Edit(), *_]:
            return [_sign(e, name) for e in found]
        case _:
            return found
