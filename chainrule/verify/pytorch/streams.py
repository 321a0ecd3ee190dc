"""Where random streams stood at a point, so that a computation can be run again as it was."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class _Stream:
    get: Callable[[], Any]
    put: Callable[[Any], Any]
    start: Any

    def moved(self) -> bool:
        return not _same(self.get(), self.start)


class Streams:
    """PyTorch's, NumPy's and Python's global generators, and those given, as they stand now.

    Setting NumPy's takes longer than many a forward: after the first run, streams from which it
    drew nothing are left alone.
    """

    def __init__(self, generators: Iterable[torch.Generator] = ()) -> None:
        own = [_of(g) for g in generators]
        self._always = [_stream(torch.get_rng_state, torch.set_rng_state), *own]
        numpy: Callable[[], Any] = lambda: np.random.get_state(legacy=False)
        self._others = [
            _stream(numpy, np.random.set_state),
            _stream(random.getstate, random.setstate),
        ]
        self._known = False

    @contextmanager
    def again(self) -> Generator[None]:
        """Inside, random numbers are those that were drawn from here; outside, nothing happened."""
        streams = [*self._always, *self._others]
        before = [s.get() for s in streams]
        for s in streams:
            s.put(s.start)
        try:
            yield
        finally:
            if not self._known:
                self._known = True
                self._others = [s for s in self._others if s.moved()]
            for s, state in zip(streams, before, strict=True):
                s.put(state)


def _stream(get: Callable[[], Any], put: Callable[[Any], Any]) -> _Stream:
    return _Stream(get, put, get())


def _of(generator: torch.Generator) -> _Stream:
    return _stream(generator.get_state, generator.set_state)


def _same(a: Any, b: Any) -> bool:
    """Whether two states are equal; they are nested dicts, tuples, arrays and numbers."""
    if isinstance(a, dict):
        return all(_same(a[k], b[k]) for k in a)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return bool(a == b)
