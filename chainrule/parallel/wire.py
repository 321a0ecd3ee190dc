"""The wire: NumPy's memory sent to and received from other workers, by gloo.

`torch.from_numpy` shares the memory, so nothing is copied on the way. Only bytes of arrays travel:
never a pickle. What fails says which worker it was and whether it was too late or gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.optional import require
from chainrule.parallel.shared_memory import Shared, connect

_NONE = np.empty(0, np.uint8)


class LostError(Exception):
    """Nothing can be sent to worker `peer`, or received from it; `late` if it only did not come."""

    def __init__(self, peer: int, late: bool, reason: str) -> None:
        super().__init__(reason)
        self.peer, self.late = peer, late


@final
class Wire:
    """Worker `rank`'s connections to the other workers."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float, *, local: bool) -> None:
        """Connect; all workers do so at once. `local`: through this machine's loopback only."""
        dist = require("torch.distributed", "training on several workers")
        self.rank, self.size = rank, size
        self._spare: dict[int, Array] = {}
        self.shared: Shared | None = None
        self._share = require("torch", "training on several workers").from_numpy
        self._timeout = timedelta(seconds=timeout)
        gloo = dist.ProcessGroupGloo
        try:
            if local:
                options = gloo._Options()
                options._devices = [gloo.create_device(hostname="127.0.0.1")]
                options._timeout = self._timeout
                self._group = gloo(store, rank, size, options)
            else:
                self._group = gloo(store, rank, size, self._timeout)
            self.shared = connect(store, rank, size) if local else None
        except RuntimeError as cause:
            raise _lost_error(-1, cause) from cause

    def swap(
        self,
        sends: Sequence[tuple[int, Array]],
        receives: Sequence[tuple[int, Array]],
    ) -> None:
        """Send arrays to workers and receive arrays from workers, all at once."""
        works: list[tuple[int, Any]] = []
        peer = self.rank
        try:
            for peer, array in receives:
                works.append((peer, self._group.recv([self._bytes(array)], peer, 0)))
            for peer, array in sends:
                works.append((peer, self._group.send([self._bytes(array)], peer, 0)))
            for peer, work in works:  # noqa: B007  (the error names it)
                work.wait(self._timeout)
        except RuntimeError as cause:
            raise _lost_error(peer, cause) from cause

    def spare(self, number: int, dtype: np.dtype[Any], size: int) -> Array:
        """Memory to receive into, the same at every call: new memory costs as much as a message."""
        bytes_ = size * dtype.itemsize
        if self._spare.get(number, _NONE).size < bytes_:
            self._spare[number] = np.empty(bytes_, np.uint8)
        return self._spare[number][:bytes_].view(dtype)

    def close(self) -> None:
        """End all connections, so that whoever waits for this worker learns of it."""
        self._group.abort()

    def _bytes(self, array: Array) -> Any:
        flat = array.view(np.uint8)
        return self._share(flat if flat.flags.writeable else np.asarray(_Alias(flat)))


@final
class _Alias:
    """The memory of a read-only array, for who will not write but asks for an array that can be."""

    def __init__(self, array: Array) -> None:
        self._array = array
        known = array.__array_interface__
        self.__array_interface__ = {**known, "data": (known["data"][0], False)}


def _lost_error(peer: int, cause: RuntimeError) -> LostError:
    text = " ".join(str(cause).split())
    return LostError(peer, "imed out" in text or "imeout" in text, text)
