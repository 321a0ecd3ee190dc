"""Where random streams stood at a point, so that a computation can be run again as it was."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

import torch

from chainrule.verify.streams import moved, numpy_and_python, replayed, stream


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
    def again(self) -> Generator[None]:
        """Inside, random numbers are those that were drawn from here; outside, nothing happened."""
        with replayed([*self._always, *self._others]):
            try:
                yield
            finally:
                if not self._known:
                    self._known = True
                    self._others = moved(self._others)
