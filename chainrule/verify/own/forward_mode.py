"""The engine's forward mode, held against differences along a few directions.

Along directions v_1 .. v_k the function is one of k numbers: h(s) = f(x + sum of s_j v_j). Forward
mode gives all of its derivatives at once, however many elements x has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.engine.derive import pushforward_nodes
from chainrule.engine.graph import Node, order
from chainrule.verify.own.call import Call
from chainrule.verify.place import Place
from chainrule.verify.subject import Array, Input, Subject

_COUNT = 4
_KIND = "function, forward mode"


@dataclass(frozen=True, eq=False)
class Directions(Subject):
    """`call` along a few directions for each of its wanted inputs, where it is forward mode's."""

    call: Call
    name: str
    inputs: tuple[Input, ...]
    directions: tuple[Array | None, ...]
    """For each input of `call` (k, *its shape), None where not wanted."""
    kind: str = _KIND
    place: Place | None = None
    backward_place: Place | None = None

    def _moved(self, ss: Sequence[Any]) -> list[Any]:
        """The inputs of `call` at s, in the dtype that s has beside the input's own."""
        xs: list[Any] = []
        for x, s, v in zip(self.call.inputs, ss, self.directions, strict=True):
            if v is None:
                xs.append(x.value)
                continue
            wide = np.asarray(s).dtype
            step = np.tensordot(np.asarray(s), v.astype(wide), 1)
            xs.append((x.value.astype(wide) + step).astype(wide))
        return xs

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """f(x + sum of s_j v_j)."""
        return self.call.forward(self._moved(xs))

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """<g, jvp v_j> for each direction."""
        outs, nodes = self.call.run(self._moved(xs))
        tops = [o.node for o in outs]
        leaves = [n for n in nodes if n is not None]
        walk = order([n for n in tops if n is not None], leaves)
        bars: list[Array | None] = []
        for node, v, s in zip(nodes, self.directions, xs, strict=True):
            if node is None or v is None:
                bars.append(None)
                continue
            dots = [self._pushed(walk, node, one, tops, gs) for one in v]
            bars.append(np.asarray(dots).astype(np.asarray(s).dtype))
        return tuple(bars)

    def _pushed(
        self,
        walk: Sequence[Node],
        node: Node,
        v: Array,
        tops: Sequence[Node | None],
        gs: Sequence[Array],
    ) -> Any:
        got = pushforward_nodes(walk, {node: v.astype(node.dtype)}, record=False)
        pairs = [(got[n], g) for n, g in zip(tops, gs, strict=True) if n is not None and n in got]
        return sum([_inner(d, g) for d, g in pairs])

    @property
    def fixed(self) -> str:
        """The directions have the shapes of the inputs."""
        return "its directions have the shapes of the arguments"


def forward_mode_of(call: Call) -> Directions | None:
    """The forward mode of `call` along a few fixed random directions; None for complex numbers."""
    if any(x.wanted and x.value.dtype.kind == "c" for x in call.inputs):
        return None
    rng = np.random.Generator(np.random.PCG64(11))
    vs: list[Array | None] = []
    inputs: list[Input] = []
    for x in call.inputs:
        if not x.wanted:
            vs.append(None)
            inputs.append(x)
            continue
        vs.append(sixteenths(rng, (_COUNT, *x.value.shape)) * _size(x.value))
        inputs.append(Input(f"s of {x.name}", np.zeros(_COUNT, x.value.dtype), wanted=True))
    return Directions(
        call, f"{call.name}, forward mode", tuple(inputs), tuple(vs), place=call.place
    )


def sixteenths(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random float64 numbers that every floating-point dtype can hold exactly."""
    return np.asarray(np.rint(16 * rng.normal(size=shape)) / 16)


def _size(x: Array) -> float:
    """The power of two next to the root mean square of the elements, 1 where there are none."""
    size = float(np.linalg.norm(x.astype(np.float64)) / max(x.size, 1) ** 0.5)
    return 2.0 ** round(math.log2(size)) if size and math.isfinite(size) else 1.0


def _inner(d: Any, g: Array) -> float:
    """Re<d, g>, in double precision."""
    return float(np.vdot(np.asarray(d, np.complex128), np.asarray(g, np.complex128)).real)
