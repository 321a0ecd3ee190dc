"""The state in which a call was made, and how to be in it again."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from chainrule.verify.pytorch.convert import elements
from chainrule.verify.pytorch.float64_code import running_in, widest
from chainrule.verify.pytorch.intended_gradients import IntendedGradients
from chainrule.verify.streams import moved_streams, numpy_and_python, replay, stream

_SMALL = 200_000
"""Numbers up to which a second thread costs more than it saves."""


@dataclass(frozen=True, eq=False)
class Replay:
    """Random streams and dtype at the point. Autocast is off when something is run again: a
    derivative is a statement about the function, not about the dtypes it was rounded to."""

    streams: Streams
    dtype: torch.dtype | None
    _plain: list[bool] = field(default_factory=list[bool])
    """Holds True once a run has used no op of `intended_gradients.py`."""

    @classmethod
    def of(cls, args: Any) -> Replay:
        """For a call with these arguments that is about to be made now."""
        generators = [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Generator)]
        return cls(Streams(generators), widest(args))

    @contextmanager
    def running(self, args: Sequence[Any]) -> Generator[None]:
        """Inside, the call with `args`, of the same or a wider dtype, runs as it did; its warnings
        are those that the program's own run has given already."""
        with (
            one_thread(args),
            _quiet(),
            self.streams.replayed(),
            torch.autocast("cpu", enabled=False),
            running_in(widest(args), self.dtype),
            self._meant(),
        ):
            yield

    @contextmanager
    def _meant(self) -> Generator[None]:
        if self._plain:
            yield
            return
        with IntendedGradients() as mode:
            yield
        if not mode.used:
            self._plain.append(True)


@contextmanager
def _quiet() -> Generator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def one_thread(args: Any) -> Generator[None]:
    """Inside, PyTorch uses one thread if the arguments are small: on a busy machine, a pass that
    takes microseconds would wait for milliseconds until a second one has had its turn."""
    before = torch.get_num_threads()
    small = elements(pytree.tree_leaves(args)) < _SMALL
    if before == 1 or not small:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Streams:
    """PyTorch's, NumPy's and Python's global generators, and those given, as they stand now.

    Setting NumPy's takes longer than many a forward: after the first run, streams from which it
    drew nothing are left alone.
    """

    def __init__(self, generators: Iterable[torch.Generator] = ()) -> None:
        given = [stream(g.get_state, g.set_state) for g in generators]
        self._always = [stream(torch.get_rng_state, torch.set_rng_state), *given]
        self._others = numpy_and_python()
        self._known = False

    @contextmanager
    def replayed(self) -> Generator[None]:
        """Inside, random numbers are those that were drawn from here; outside, nothing happened."""
        with replay([*self._always, *self._others]):
            try:
                yield
            finally:
                if not self._known:
                    self._known = True
                    self._others = moved_streams(self._others)
