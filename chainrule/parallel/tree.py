"""The sum over workers, in a fixed binary tree.

Notation: W workers, r this one's rank, d = 1, 2, 4, .. the distance of a round.

In the round of distance d a worker has the sum over its block of d neighbours, and gets that of the
sibling block: those with r ^ d. Both add lower block + upper block, so everybody has the same bits,
and what is added to what does not depend on how many neighbours one worker stands for. Where W is
no power of two the last sibling has fewer workers, of which the last serves who lacks a partner.

Large arrays of workers on one machine are added in memory that they share. Others are halved: each
worker keeps the half that is its own, adds that, and at the end the halves are collected on the way
back. Each element is added in the same tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chainrule.engine.op import Array
from chainrule.parallel.shared_memory import NOTES
from chainrule.parallel.wire import Wire

INLINE = 1 << 14
"""Bytes of small arrays that go with the first message of a round, behind digest and notes."""
LARGE = 1 << 16
"""Bytes from which halving pays: it sends less, in twice as many messages."""
Combine = Callable[..., object]
"""(lower, upper, *, out): what is done with the values of two blocks; a ufunc."""
Span = tuple[int, int]


def reduce(
    wire: Wire,
    arrays: Sequence[Array],
    combine: Combine,
    digest: Array,
    differ: Callable[[int], Exception],
    scale: float | None = None,
) -> None:
    """Give every worker the tree of all workers' `arrays`, in place. Shapes: [(n_i)].

    In each round partners first compare what they are about to do, which `digest` stands for; if
    it is another partner's, `differ(partner)` is raised.

    With a `scale` it is a weighted average: the first array begins with this worker's weight; the
    others are multiplied by `scale` before they are added, and divided by the sum of weights.
    """
    shared = wire.shared
    small, whole, large = _sort_by_size(wire, arrays, averaged=scale is not None)
    halved = [] if shared else large
    sent = [a for a in arrays if not shared or not any(a is b for b in large)]
    if scale is not None and scale != 1:
        for a in sent[1:]:
            np.multiply(a, scale, out=a)
    notes: list[Array] = []
    if shared and large:
        notes = [shared.put(large, 1.0 if scale is None else scale)]
    _rounds(wire, (notes, small, whole, halved), combine, digest, differ)
    if shared and large:  # everybody has put its part: the rounds have seen to it
        shared.add(large, notes[0], combine, None if scale is None else float(arrays[0][0]))
        meet(wire)
        shared.take(large)
    finish(sent, scale)


def finish(arrays: Sequence[Array], scale: float | None) -> None:
    """Divide arrays by the sum of weights that the first one begins with, if there are weights."""
    if scale is not None:
        for a in arrays[1:]:
            np.divide(a, arrays[0][0], out=a, dtype=a.dtype, casting="same_kind")


def _rounds(
    wire: Wire,
    arrays: tuple[list[Array], list[Array], list[Array], list[Array]],
    combine: Combine,
    digest: Array,
    differ: Callable[[int], Exception],
) -> None:
    """Reduce arrays by messages: notes, which are summed; small ones; whole ones; halved ones."""
    notes, small, whole, halved = arrays
    spans = [(0, a.size) for a in halved]
    trail: list[tuple[int, list[Span], list[Span]]] = []
    distance = 1
    while distance < wire.size:
        source, targets = partners(wire.rank, wire.size, distance)
        low = wire.rank & distance == 0
        if source is not None:
            others = _begin(wire, digest, [*notes, *small], source, targets, differ)
            others += _swap_whole(wire, whole, source, targets)
            for mine, other in zip(notes, others[: len(notes)], strict=True):
                mine += other
            for mine, other in zip([*small, *whole], others[len(notes) :], strict=True):
                _combine(combine, low, mine, other)
        if halved:
            assert source is not None
            spans, given = _halve(wire, halved, spans, combine, distance)
            trail.append((source, spans, given))
        distance *= 2
    for peer, mine, theirs in reversed(trail):
        sends = [(peer, a[i:j]) for a, (i, j) in zip(halved, mine, strict=True)]
        wire.swap(sends, [(peer, a[i:j]) for a, (i, j) in zip(halved, theirs, strict=True)])


def meet(wire: Wire) -> None:
    """Return when every worker has come here."""
    distance = 1
    while distance < wire.size:
        source, targets = partners(wire.rank, wire.size, distance)
        peers = [] if source is None else sorted({source, *targets})
        note = np.zeros(1, np.uint8)
        wire.swap([(p, note) for p in peers], [(p, np.empty(1, np.uint8)) for p in peers])
        distance *= 2


def _sort_by_size(
    wire: Wire, arrays: Sequence[Array], *, averaged: bool
) -> tuple[list[Array], list[Array], list[Array]]:
    """Those that go with the first message, those that are sent as they are, and large ones.

    Of an average the first array is never a large one: it says what the others are divided by.
    """
    small: list[Array] = []
    whole: list[Array] = []
    large: list[Array] = []
    divides = wire.shared is not None or wire.size & (wire.size - 1) == 0
    room = INLINE
    for i, a in enumerate(arrays):
        if a.nbytes <= room:
            room -= a.nbytes
            small.append(a)
        elif divides and a.nbytes >= LARGE and (i or not averaged):
            large.append(a)
        else:
            whole.append(a)
    return small, whole, large


def _begin(
    wire: Wire,
    digest: Array,
    small: Sequence[Array],
    source: int,
    targets: Sequence[int],
    differ: Callable[[int], Exception],
) -> list[Array]:
    """Exchange digests and small arrays with all partners; those of `source`.

    A message has one size, whatever is in it: whoever is about to do something else can read it.
    """
    message = np.zeros(digest.size + 8 * NOTES * wire.size + INLINE, np.uint8)
    parts = [digest, *[a.view(np.uint8) for a in small]]
    content = np.concatenate(parts)
    message[: content.size] = content
    answers = {peer: np.empty_like(message) for peer in sorted({source, *targets})}
    wire.swap([(peer, message) for peer in answers], list(answers.items()))
    for peer, answer in answers.items():
        if (answer[: digest.size] != digest).any():
            raise differ(peer)
    found: list[Array] = []
    start = digest.size
    for a in small:
        found.append(np.frombuffer(answers[source].data, a.dtype, a.size, start))
        start += a.nbytes
    return found


def partners(rank: int, size: int, distance: int) -> tuple[int | None, list[int]]:
    """Whom a worker gets the sibling block's sum of in a round, and who gets this block's of it.

    >>> partners(0, 4, 2)
    (2, [2])
    >>> [partners(r, 3, 2) for r in range(3)]  # worker 2 stands alone, and serves both
    [(2, [2]), (2, []), (0, [0, 1])]
    """
    start = (rank // distance ^ 1) * distance
    sibling = range(start, min(start + distance, size))
    if not sibling:
        return None, []
    served = [q for q in sibling if min(q ^ distance, size - 1) == rank]
    return min(rank ^ distance, size - 1), served


def _swap_whole(
    wire: Wire, arrays: Sequence[Array], source: int, targets: Sequence[int]
) -> list[Array]:
    """Exchange whole arrays; those of `source`."""
    others = [np.empty_like(a) for a in arrays]
    if arrays:
        sends = [(target, a) for target in targets for a in arrays]
        wire.swap(sends, [(source, b) for b in others])
    return others


def _halve(
    wire: Wire,
    arrays: Sequence[Array],
    spans: Sequence[Span],
    combine: Combine,
    distance: int,
) -> tuple[list[Span], list[Span]]:
    """Exchange halves of spans of the arrays, and combine one's own; own and other spans."""
    low, peer = wire.rank & distance == 0, wire.rank ^ distance
    halves = [((i, (i + j) // 2), ((i + j) // 2, j)) for i, j in spans]
    mine = [h[0] if low else h[1] for h in halves]
    theirs = [h[1] if low else h[0] for h in halves]
    others = [
        wire.spare(k, a.dtype, j - i)
        for k, (a, (i, j)) in enumerate(zip(arrays, mine, strict=True))
    ]
    sends = [(peer, a[i:j]) for a, (i, j) in zip(arrays, theirs, strict=True)]
    wire.swap(sends, [(peer, b) for b in others])
    for a, b, (i, j) in zip(arrays, others, mine, strict=True):
        _combine(combine, low, a[i:j], b)
    return mine, theirs


def _combine(combine: Combine, low: bool, mine: Array, other: Array) -> None:
    lower, upper = (mine, other) if low else (other, mine)
    combine(lower, upper, out=mine)


def hand_on(wire: Wire, arrays: Sequence[Array]) -> None:
    """Give every worker worker 0's `arrays`, in place: in each round those who have them send.

    A worker has them after the round of the distance that is its lowest bit.
    """
    distance = 1
    while distance < wire.size:
        distance *= 2
    for a in arrays:
        flat = a.reshape(-1)
        d = distance
        while d := d // 2:
            if wire.rank % (2 * d) == d:
                wire.swap([], [(wire.rank - d, flat)])
            elif wire.rank % (2 * d) == 0 and wire.rank + d < wire.size:
                wire.swap([(wire.rank + d, flat)], [])
