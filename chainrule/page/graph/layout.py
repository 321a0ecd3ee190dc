"""Where the cards of a picture go: a layered drawing in the manner of Sugiyama.

Layers by longest path from the result; crossings reduced by barycenter sweeps (Sugiyama, Tagawa,
Toda, "Methods for visual understanding of hierarchical system structures", 1981). Coordinates
within a layer are a least squares problem, as in Gansner, Koutsofios, North, Vo, "A technique for
drawing directed graphs", 1993, whose weights keep long edges straight. Each box wants to be where
its neighbours are; boxes keep their order and their distance. The problem is solved exactly, layer
by layer, by pooling adjacent violators (Ayer et al., 1955).

Two axes: `along` goes from layer to layer, `across` within one. Nothing here knows of text or SVG.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

SWEEPS = 8
LONGEST = 64
"""An edge over more layers than this is drawn straight through: bends for it would cost layers
times edges, and nobody can follow it anyway."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`centers[i]` is the center (along, across) of box i, `bands[i]` where its layer begins and
    ends; `bends[e]` the points that edge e passes between its ends, two for each layer that it
    crosses; `extent` the size of the whole, whose origin is (0, 0).

    An edge that bends only between bands meets no box.
    """

    centers: tuple[tuple[float, float], ...]
    bands: tuple[tuple[float, float], ...]
    bends: tuple[tuple[tuple[float, float], ...], ...]
    extent: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Free space between layers, between boxes, and around an edge that passes between boxes."""

    along: float
    across: float
    edge: float


class _Net:
    """The graph with a dummy box wherever an edge crosses a layer, so that every link joins
    neighbouring layers. Layer 0 holds the result; inputs have higher layers."""

    def __init__(self, depth: Sequence[int], edges: Sequence[tuple[int, int, float]]) -> None:
        self.depth = list(depth)
        self.real = len(depth)
        self.above: list[list[tuple[int, float]]] = [[] for _ in depth]
        """For each box its links towards the result, each with its port there (0 to 1)."""
        self.below: list[list[int]] = [[] for _ in depth]
        self.chains: list[list[int]] = []
        for source, target, port in edges:
            chain = self._dummies(source, target)
            self.chains.append(chain)
            path = [target, *chain, source]
            for i in range(len(path) - 1):
                self.above[path[i + 1]].append((path[i], port if i == 0 else 0.5))
                self.below[path[i]].append(path[i + 1])

    def _dummies(self, source: int, target: int) -> list[int]:
        first, last = self.depth[target] + 1, self.depth[source]
        if last - first > LONGEST:
            return []
        made = list(range(len(self.depth), len(self.depth) + last - first))
        for layer in range(first, last):
            self.depth.append(layer)
            self.above.append([])
            self.below.append([])
        return made

    def layers(self) -> list[list[int]]:
        """Boxes by layer in a first order: depth first from the result, inputs in order."""
        out: list[list[int]] = [[] for _ in range(max(self.depth, default=0) + 1)]
        seen = [False] * len(self.depth)
        stack = [0] if self.depth else []
        while stack:
            i = stack.pop()
            if not seen[i]:
                seen[i] = True
                out[self.depth[i]].append(i)
                stack.extend(reversed(self.below[i]))
        return out


def arrange(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int, float]], gaps: Gaps
) -> Layout:
    """Lay out boxes of `sizes` (along, across), all of which box 0 depends on.

    An edge is (source, target, port): `port`, from 0 to 1, says where on the target's side it ends.
    """
    depth = depths(len(sizes), edges)
    net = _Net(depth, edges)
    layers = net.layers()
    _reduce_crossings(net, layers)
    room = [sizes[i][1] + gaps.across if i < net.real else gaps.edge for i in range(len(net.depth))]
    across = _coordinates(net, layers, room)
    bands, length = _stack(layers, sizes, gaps.along)
    low = min([across[i] - sizes[i][1] / 2 for i in range(net.real)], default=0.0)
    low = min([low, *[across[i] for i in range(net.real, len(across))]])
    across = [x - low for x in across]
    high = max([across[i] + sizes[i][1] / 2 for i in range(net.real)], default=0.0)
    high = max([high, *across])
    band = [bands[d] for d in net.depth]
    centers = [(sum(band[i]) / 2, across[i]) for i in range(net.real)]
    bends = [tuple([(x, across[i]) for i in reversed(c) for x in band[i]]) for c in net.chains]
    return Layout(tuple(centers), tuple(band[: net.real]), tuple(bends), (length, high))


def depths(count: int, edges: Sequence[tuple[int, int, float]]) -> list[int]:
    """For each box the length of the longest path from it to box 0."""
    inputs: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target, _ in edges:
        inputs[target].append(source)
        waiting[source] += 1
    depth = [0] * count
    ready = [i for i in range(count) if not waiting[i]]
    while ready:
        i = ready.pop()
        for j in inputs[i]:
            depth[j] = max(depth[j], depth[i] + 1)
            waiting[j] -= 1
            if not waiting[j]:
                ready.append(j)
    return depth


# --- Crossings -----------------------------------------------------------------------------------


def _reduce_crossings(net: _Net, layers: list[list[int]]) -> None:
    """Sort layers by the mean place of their neighbours, back and forth; keep the best order."""
    best = [list(layer) for layer in layers]
    fewest = _all_crossings(net, layers)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        place = _places(layers, len(net.depth))
        towards = sweep % 2 == 0  # first each layer by the one nearer the result, then back
        for layer in layers if towards else reversed(layers):
            mean = _means(net, layer, place, towards)
            layer.sort(key=mean.__getitem__)  # stable: a tie keeps the order of the inputs
            for p, i in enumerate(layer):
                place[i] = p
        found = _all_crossings(net, layers)
        if found < fewest:
            fewest, best = found, [list(layer) for layer in layers]
    layers[:] = best


def _places(layers: Sequence[Sequence[int]], count: int) -> list[int]:
    place = [0] * count
    for layer in layers:
        for p, i in enumerate(layer):
            place[i] = p
    return place


def _means(net: _Net, layer: Sequence[int], place: list[int], towards: bool) -> dict[int, float]:
    out: dict[int, float] = {}
    for i in layer:
        if towards:
            near = [place[j] + port for j, port in net.above[i]]
        else:
            near = [float(place[j]) for j in net.below[i]]
        out[i] = sum(near) / len(near) if near else float(place[i])
    return out


def _all_crossings(net: _Net, layers: Sequence[Sequence[int]]) -> int:
    place = _places(layers, len(net.depth))
    return sum([_crossings(net, layer, place) for layer in layers])


def _crossings(net: _Net, layer: Sequence[int], place: Sequence[int]) -> int:
    """How many pairs of links from `layer` towards the result cross: inversions, by insertion."""
    seen: list[float] = []
    count = 0
    for i in layer:
        ends = sorted([place[j] + port for j, port in net.above[i]])
        for end in ends:
            count += len(seen) - bisect_right(seen, end)
        for end in ends:
            insort(seen, end)
    return count


# --- Coordinates ---------------------------------------------------------------------------------


def _coordinates(net: _Net, layers: list[list[int]], room: Sequence[float]) -> list[float]:
    """Centers across: sweeps in which each layer takes its best places given its neighbours'."""
    across = [0.0] * len(net.depth)
    for layer in layers:
        _settle(layer, [0.0] * len(layer), [1.0] * len(layer), room, across)
    for sweep in range(SWEEPS + 1):  # ends with a sweep away from the result
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wish: list[float] = []
            weights: list[float] = []
            for i in layer:
                place, weight = _wish(net, i, room, across, sweep)
                wish.append(place)
                weights.append(weight)
            _settle(layer, wish, weights, room, across)
    return across


def _wish(
    net: _Net, i: int, room: Sequence[float], across: Sequence[float], sweep: int
) -> tuple[float, float]:
    """Where box i wants to be, and how much: by the side that the sweep comes from, or by both in
    the last two sweeps, which even out."""
    total = weight = 0.0
    both = sweep >= SWEEPS - 1
    if both or sweep % 2 == 0:
        for j, port in net.above[i]:
            w = _weight(net, i, j)
            total += w * (across[j] + (port - 0.5) * room[j] * 0.5)
            weight += w
    if both or sweep % 2 == 1:
        for j in net.below[i]:
            w = _weight(net, i, j)
            total += w * across[j]
            weight += w
    return (total / weight, weight) if weight else (across[i], 0.1)


def _weight(net: _Net, i: int, j: int) -> float:
    """1, 2 or 8 by how many ends of a link are dummies (Gansner et al., section 4)."""
    return (1.0, 2.0, 8.0)[(i >= net.real) + (j >= net.real)]


def _settle(
    layer: Sequence[int],
    wish: Sequence[float],
    weights: Sequence[float],
    room: Sequence[float],
    across: list[float],
) -> None:
    """Put the boxes of `layer` as near to their wishes as order and room allow (least squares).

    With the needed distances subtracted, the places must not decrease: isotonic regression.
    """
    offset = 0.0
    offsets: list[float] = []
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for k, i in enumerate(layer):
        if k:
            offset += (room[layer[k - 1]] + room[i]) / 2
        offsets.append(offset)
        mean, weight, count = wish[k] - offset, weights[k], 1
        while blocks and blocks[-1][0] > mean:
            m, w, c = blocks.pop()
            mean = (m * w + mean * weight) / (w + weight)
            weight, count = w + weight, c + count
        blocks.append((mean, weight, count))
    k = 0
    for mean, _, count in blocks:
        for i in layer[k : k + count]:
            across[i] = mean + offsets[k]
            k += 1


def _stack(
    layers: Sequence[Sequence[int]], sizes: Sequence[tuple[float, float]], gap: float
) -> tuple[list[tuple[float, float]], float]:
    """Where each layer begins and ends, inputs first, and the length of all."""
    bands = [(0.0, 0.0)] * len(layers)
    at = 0.0
    for k in range(len(layers) - 1, -1, -1):
        size = max([sizes[i][0] for i in layers[k] if i < len(sizes)], default=0.0)
        bands[k] = (at, at + size)
        at += size + gap
    return bands, max(at - gap, 0.0)
