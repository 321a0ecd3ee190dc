"""Walks over graphs of any depth, of terms or of nodes: none of them calls itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def post_order(roots: Iterable[T], below: Callable[[T], Sequence[T]]) -> list[T]:
    """What `roots` depend on, each after what it is made of, which `below` says; roots included."""
    done: dict[T, None] = {}
    stack: list[tuple[T, bool]] = [(r, False) for r in reversed(list(roots))]
    while stack:
        x, ready = stack.pop()
        if x in done:
            continue
        if ready:
            done[x] = None
        else:
            stack.append((x, True))
            stack += [(y, False) for y in reversed(below(x)) if y not in done]
    return list(done)


def reachable(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> set[T]:
    """What one comes to from `starts` by one step or more; these only if a step leads there."""
    found: set[T] = set()
    stack = [y for x in starts for y in following(x)]
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += following(x)
    return found
