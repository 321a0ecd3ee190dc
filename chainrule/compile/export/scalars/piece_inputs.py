"""Where pieces of a program meet: a piece reads what lies in other arrays, or a copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from chainrule.compile.export.scalars.copies import Places, copied, filled, is_row, whole
from chainrule.compile.export.scalars.pieces import Piece
from chainrule.compile.export.scalars.segments import (
    Segment,
    Splitter,
    StraddlesError,
    with_segments,
)
from chainrule.compile.loops.expressions import Affine, Buffer
from chainrule.compile.loops.statements import Kernel


@final
@dataclass(frozen=True, slots=True)
class Feed:
    """What a piece finds at `places` of its leaves: the numbers of a buffer at `sources`, or 0
    where that is negative."""

    places: Places
    buffer: Buffer
    sources: Places


def fed(piece: Piece, feeds: Sequence[Feed]) -> Piece:
    """The piece with its leaves in the arrays that they come from, if each access stays within one
    of them; else with copies of them."""
    before: list[Kernel] = []
    segments: list[Segment] = []
    for feed in [f for f in feeds if len(f.places)]:
        row = is_row(feed.places) and is_row(feed.sources) and feed.sources[0] >= 0
        if row:
            segments.append(
                Segment(int(feed.places[0]), len(feed.places), feed.buffer, int(feed.sources[0]))
            )
        else:
            compact = Buffer(
                f"{feed.buffer}_in_order", feed.buffer.dtype, feed.places.shape, "scratch"
            )
            before += _gathered(compact, whole(len(feed.places)), feed)
            if is_row(feed.places):
                segments.append(Segment(int(feed.places[0]), len(feed.places), compact))
            else:
                return _copied(piece, feeds)
    try:
        return _moved(piece, before, segments)
    except StraddlesError:
        return _copied(piece, feeds)


def _moved(piece: Piece, before: Sequence[Kernel], segments: Sequence[Segment]) -> Piece:
    of = {piece.x: segments}
    forward, backward = [
        with_segments(kernels, of, piece.ranges) for kernels in (piece.forward, piece.backward)
    ]
    splitter = Splitter(segments, {})
    results: list[tuple[Buffer, int]] = []
    for buffer, at in piece.results:
        if buffer is piece.x:
            buffer, minus = splitter(Affine(at))
            at -= minus
        results.append((buffer, at))
    return Piece(piece.x, [*before, *forward], results, backward, piece.dx, piece.ranges)


def _copied(piece: Piece, feeds: Sequence[Feed]) -> Piece:
    before = [k for f in feeds if len(f.places) for k in _gathered(piece.x, f.places, f)]
    forward = [*before, *piece.forward]
    return Piece(piece.x, forward, piece.results, piece.backward, piece.dx, piece.ranges)


def _gathered(to: Buffer, places: Places, feed: Feed) -> list[Kernel]:
    there = feed.sources >= 0
    out: list[Kernel] = []
    if there.any():
        out.append(copied(to, places[there], feed.buffer, feed.sources[there]))
    if not there.all():
        out.append(filled(to, places[~there], 0.0))
    return out


def moved_results(
    results: Sequence[tuple[Buffer, int]], to: Buffer, places: Places
) -> list[Kernel]:
    """Kernels that copy results to `places` of a buffer, but for those that are there."""
    by_source: dict[Buffer, list[int]] = {}
    for i, (buffer, at) in enumerate(results):
        if buffer is not to or at != places[i]:
            by_source.setdefault(buffer, []).append(i)
    out: list[Kernel] = []
    for buffer, found in by_source.items():
        sources = np.array([results[i][1] for i in found], np.int64)
        out.append(copied(to, places[found], buffer, sources))
    return out
