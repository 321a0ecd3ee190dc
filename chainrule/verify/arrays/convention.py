"""How a hand-written backward is called: what each of its parameters gets.

`backward(g, x, w)`, `backward(x, w, g)`, `backward(dout, cache)`, `backward(g, y)`, `backward()`:
each parameter of the backward is bound to a `Slot`, something that a call of the forward has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from chainrule.verify.arrays.values import is_float

RATE = 1024.0
"""The learning rate of backwards that update parameters: the gradient is the change, divided by it.
Large, so that little of it is lost in the difference; a power of two, so that nothing else is."""
Kind = Literal["cotangent", "cotangents", "input", "result", "rest", "rate"]


@dataclass(frozen=True)
class Slot:
    """What a parameter of the backward gets: cotangent `index`, all of them as a tuple, argument
    `index` of the forward, its result `index`, all that it returned after its outputs (`rest`), or
    a learning rate (`rate`).
    """

    kind: Kind
    index: int = 0


@dataclass(frozen=True)
class Convention:
    """How to call a backward. `outputs` of the forward's results are outputs, the others saved."""

    slots: tuple[tuple[str, Slot], ...]
    """Names of parameters that get something, and what."""
    outputs: int
    by_name: bool
    """Whether a parameter is left out in between, so that those after it go by name."""
    at_once: bool = False
    """Whether the backward is the forward itself, which returns gradients behind its output."""
    of_parameters: bool = False
    """Whether a layer's backward gives no gradients of arguments: what it returns in order is the
    parameters'."""

    @property
    def updates(self) -> bool:
        """Whether the backward takes a learning rate, and so changes parameters by itself."""
        return any(slot.kind == "rate" for _, slot in self.slots)

    @property
    def takes_cotangent(self) -> bool:
        """Whether any parameter gets a cotangent; if not, it is 1 by convention."""
        return any(slot.kind in ("cotangent", "cotangents") for _, slot in self.slots)

    def call(
        self,
        backward: Callable[..., Any],
        xs: Sequence[Any],
        results: Sequence[Any],
        gs: Sequence[Any],
    ) -> Any:
        """What `backward` returns for the cotangents `gs` after a forward at `xs`."""
        given = [
            (name, _argument_of(slot, xs, results, gs, self.outputs)) for name, slot in self.slots
        ]
        if self.by_name:
            return backward(**dict(given))
        return backward(*[value for _, value in given])


def _argument_of(
    slot: Slot, xs: Sequence[Any], results: Sequence[Any], gs: Sequence[Any], outputs: int
) -> Any:
    """What a parameter of the backward is given."""
    if slot.kind == "cotangent":
        return gs[slot.index]
    if slot.kind == "cotangents":
        return tuple(gs)
    if slot.kind == "input":
        return xs[slot.index]
    if slot.kind == "result":
        return results[slot.index]
    if slot.kind == "rate":
        return RATE
    rest = results[outputs:]
    return rest[0] if len(rest) == 1 else tuple(rest)


def as_list(result: Any) -> list[Any]:
    """What a forward returned, one thing or several: outputs in a tuple of their own are several,
    `(h, c), cache`."""
    if not isinstance(result, tuple):
        return [result]
    parts = list(cast("tuple[Any, ...]", result))
    return [*parts[0], *parts[1:]] if outputs_in_tuple(parts) else parts


def outputs_in_tuple(result: Any) -> int:
    """How many outputs a forward returned in a tuple of their own; 0 if it did not."""
    parts = cast("Sequence[Any]", result if isinstance(result, tuple | list) else ())
    first = cast("tuple[Any, ...]", parts[0] if parts and isinstance(parts[0], tuple) else ())
    return len(first) if all(is_float(y) for y in first) else 0
