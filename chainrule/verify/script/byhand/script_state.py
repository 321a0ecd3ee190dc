"""What the variables of a script hold, so that its code can be run again and again.

For a copy of the process: values get another precision, and what a run has changed is put back.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, cast

import numpy as np

from chainrule.verify.arrays.members import is_object, walk
from chainrule.verify.streams import numpy_and_python, replay, stream
from chainrule.verify.subject import Array


class ScriptState:
    """What the script's variables hold, so that one run of its code says nothing to the next."""

    def __init__(self, scope: dict[str, Any]) -> None:
        things: list[Any] = [scope, *[x for _, x in walk(scope)]]
        self._dicts = [(d, dict(d)) for x in things if (d := _dict_of(x)) is not None]
        lists = [cast("list[Any]", x) for x in things if isinstance(x, list)]
        self._lists = [(x, list(x)) for x in lists]
        tensors = {id(x): x for x in things if is_tensor(x)}
        self._tensors: list[tuple[Any, int, Any]] = [
            (x, x._version, x.detach().clone()) for x in tensors.values()
        ]
        arrays = {id(x): x for x in map(_writeable_array, things) if x is not None}
        self._arrays = [(x, x.copy()) for x in arrays.values()]
        streams = map(_restorer, {id(x): x for x in things}.values())
        self._streams = [restore for restore in streams if restore is not None]

    def of_shape(self, shape: tuple[int, ...]) -> list[Array]:
        """Arrays of a shape, as they were."""
        tensors = [before.numpy() for _, _, before in self._tensors if before.shape == shape]
        return [before for _, before in self._arrays if before.shape == shape] + tensors

    def restore(self) -> None:
        """As it was."""
        for now, before in self._dicts:
            if now.keys() != before.keys() or any(now[k] is not v for k, v in before.items()):
                now.clear()
                now.update(before)
        for now, before in self._lists:
            now[:] = before
        for i, (x, version, before) in enumerate(self._tensors):
            if x._version != version:
                x.data.copy_(before)
                self._tensors[i] = (x, x._version, before)
        for now, before in self._arrays:
            now[...] = before
        for restore in self._streams:
            restore()


def _writeable_array(x: Any) -> Array | None:
    array = cast("Array", x) if isinstance(x, np.ndarray) else None
    fine = array is not None and array.flags.writeable and not array.dtype.hasobject
    return array if fine else None


def _dict_of(x: Any) -> dict[Any, Any] | None:
    """A dict, or that of an object's attributes."""
    if isinstance(x, dict):
        return cast("dict[Any, Any]", x)
    own: dict[Any, Any] | None = getattr(x, "__dict__", None)
    return own if is_object(x) and not is_tensor(x) else None


def _restorer(x: Any) -> Callable[[], object] | None:
    """What sets a generator of random numbers back to where it is now; None of anything else."""
    if isinstance(x, np.random.Generator):
        bits, state = x.bit_generator, copy.deepcopy(x.bit_generator.state)
        return lambda: setattr(bits, "state", state)
    of_torch = type(x).__name__ == "Generator" and type(x).__module__.startswith("torch")
    if not (of_torch or isinstance(x, np.random.RandomState | random.Random)):
        return None
    names = ("getstate", "setstate") if hasattr(x, "getstate") else ("get_state", "set_state")
    ask, put = (getattr(x, name) for name in names)
    now = ask()
    return lambda: put(now)


def is_tensor(x: Any) -> bool:
    """Whether it is one of PyTorch's, which may not even be there."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def array_of(x: Any) -> Array | None:
    """The array that an array or a tensor is, with the same memory; None of anything else."""
    if isinstance(x, np.ndarray):
        return cast("Array", x)
    return cast("Array", x.detach().numpy()) if is_tensor(x) else None


def bytes_of(scope: Mapping[str, Any]) -> int:
    """How much memory the arrays and tensors of a scope have."""
    things = {id(x): array_of(x) for _, x in walk(dict(scope))}
    return sum([x.nbytes for x in things.values() if x is not None])


def widen(scope: dict[str, Any], parameters: Sequence[Any] = ()) -> None:
    """Give all that the script holds the precision of differences."""
    wide = dict[int, Any]()
    for way, x in list(walk(scope)):
        array = None if is_tensor(x) else array_of(x)
        if array is not None and array.dtype == np.float32:
            with suppress(TypeError, AttributeError):  # a tuple stays as it is
                way.put(scope, wide.setdefault(id(array), array.astype(np.float64)))
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    torch.set_default_dtype(torch.float64)
    held = [x for _, x in walk(scope) if is_tensor(x)]
    for x in [*held, *parameters]:
        if x.dtype is torch.float32:
            grad, x.grad = x.grad if x.is_leaf else None, None
            x.data = x.data.double()
            x.grad = None if grad is None else grad.double()


@contextmanager
def same_draws() -> Generator[None]:
    """Within it random numbers are drawn that are drawn again next time, and PyTorch records no
    graph."""
    torch: Any = sys.modules.get("torch")
    drawn = numpy_and_python()
    if torch is not None:
        drawn.append(stream(torch.get_rng_state, torch.set_rng_state))
    with replay(drawn), nullcontext() if torch is None else torch.no_grad():
        yield
