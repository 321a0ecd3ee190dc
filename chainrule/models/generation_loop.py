"""Generating text: one loop in which several sequences at a time go on, each token from the last.

The work is a list of documents, each a prompt and what is drawn after it. G of them are worked on
at a time, each in a lane. An iteration reads one token of each lane and gives the logits of the
next; where the next one is known, as within a prompt, these are not used. A lane whose document
ends begins the next document. Keys and values are kept, the cache, so that no position is computed
twice. Past `block_size` positions they all change with each token: there a lane begins to read at
the first token of its window again. The prompts of the first documents may be read before the loop,
in one pass: prefill.

Nothing in it knows whether it is compiled: eager ops run the same loop.

Notation: G lanes; V tokens; W positions that are kept; A tokens of memory; R rows, of which the
last that is used belongs to no document: lanes without work are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.scattering import index_put
from chainrule.ops.indexing.selection import take, where
from chainrule.ops.reductions import reduction as red
from chainrule.ops.reductions.scan import cumsum
from chainrule.ops.shapes.shaping import astype, reshape
from chainrule.transforms.functional import no_grad
from chainrule.transforms.while_loop import while_loop

if TYPE_CHECKING:
    from chainrule.models.gpt import GPT


class Work(NamedTuple):
    """Documents, as arrays whose sizes do not depend on them.

    `tokens` (A) holds a row of `width` tokens for each of `count` documents, which begins with its
    prompt. By document, (R): `lengths` of prompts, `starts`, where reading begins, `limits`, the
    length at which it ends. `numbers` (A) are drawn from; a document's begin `draws` after those
    of the one before it, or, with 0, where those end. `stop` is -1 if there is none.
    """

    tokens: Any
    lengths: Any
    starts: Any
    limits: Any
    numbers: Any
    count: Any
    width: Any
    draws: Any
    stop: Any
    temperature: Any


class State(NamedTuple):
    """Where the loop is; by lane, (G): the document, the place `at` in it of the token that is
    read, its `position` in the window, the document's `length`, the place of the next number."""

    tokens: Any
    lengths: Any
    document: Any
    at: Any
    position: Any
    length: Any
    used: Any
    following: Any
    finite: Any
    cache: Any


class Generated(NamedTuple):
    """Rows of tokens and their lengths; numbers that were used; whether all logits were finite."""

    tokens: Any
    lengths: Any
    used: Any
    finite: Any


class Sizes(NamedTuple):
    """What a loop is made for: how many lanes; how many positions each has room for; of how many
    tokens its first document's prompt is read in one pass, at most: 0 if in the loop."""

    lanes: int
    positions: int
    prefill: int


def loop(model: GPT, sizes: Sizes) -> Callable[..., Generated]:
    """The function that does all the work, whose arguments are the fields of a `Work`."""

    def run(*fields: Any) -> Generated:
        work = Work(*fields)
        with no_grad():
            s: State = while_loop(
                lambda s: s.finite & red.any(s.document < work.count),
                lambda s: _advance(model, work, s),
                _begin(model, work, sizes),
            )
        return Generated(s.tokens, s.lengths, s.used, s.finite)

    return run


def _begin(model: GPT, work: Work, sizes: Sizes) -> State:
    """The first documents, none of whose tokens was read, or all but the last of their prompts."""
    lanes, positions, prefill = sizes
    document = ew.minimum(np.arange(lanes), work.count)
    start, length = take(work.starts, document), take(work.lengths, document)
    at = length - 1 if prefill else start
    if prefill:
        first = reshape(document * work.width + start, (lanes, 1))
        within = ew.minimum(first + np.arange(prefill), work.tokens.shape[0] - 1)
        cache = model.prefill(take(work.tokens, within), positions)
    else:
        cache = model.empty_cache(lanes, positions)
    return State(
        tokens=work.tokens,
        lengths=work.lengths,
        document=document,
        at=at,
        position=at - start,
        length=length,
        used=document * work.draws,
        following=np.array(lanes),
        finite=np.array(True),
        cache=cache,
    )


def _advance(model: GPT, work: Work, s: State) -> State:
    """One token of each lane is read; one is drawn where the next is not known."""
    here = s.document * work.width + s.at
    logits, cache = model.step(take(s.tokens, here), s.position, s.cache)
    token, finite = _choose(logits, take(work.numbers, s.used), work.temperature)
    busy = s.document < work.count
    drawing = s.at + 1 >= s.length
    stopped = drawing & (token == work.stop)
    new = drawing & ~stopped & busy
    following = take(s.tokens, here + 1)
    length = s.length + astype(new, np.int64)
    ended = stopped | (drawing & (length >= take(work.limits, s.document)))
    return _move_on(work, model.config.block_size, drawing, ended, s._replace(
        tokens=index_put(s.tokens, here + 1, where(new, token, following)),
        lengths=index_put(s.lengths, s.document, length),
        length=length,
        finite=red.all(finite | ~busy),
        cache=cache,
    ))  # fmt: skip


def _move_on(work: Work, block_size: int, drawing: Any, ended: Any, s: State) -> State:
    """Each lane at the token that it reads next: lanes whose document has `ended` in others."""
    count = astype(ended, np.int64)
    next_one = s.following + cumsum(count) - count
    document = where(ended, ew.minimum(next_one, work.count), s.document)
    begun = ew.minimum(document, work.count - 1) * work.draws
    full = drawing & (s.position + 1 >= block_size)  # the window moves on, and is read anew
    onward = where(full, s.at + (2 - block_size), s.at + 1)
    return s._replace(
        document=document,
        at=where(ended, take(work.starts, document), onward),
        position=where(ended | full, 0, s.position + 1),
        length=where(ended, take(s.lengths, document), s.length),
        used=where(ended & (work.draws > 0), begun, s.used + astype(drawing, np.int64)),
        following=s.following + red.sum(count),
    )


def _choose(logits: Any, numbers: Any, temperature: Any) -> tuple[Any, Any]:
    """A token for each row of logits, as `random.choices` draws it with weights softmax(logits /
    temperature) and these numbers; at temperature 0 the first of the most probable. And whether the
    logits are finite."""
    x = astype(logits, np.float64)
    top = red.max(x, axis=-1, keepdims=True)
    warm = temperature > 0
    drawn = ew.exp((x - top) / where(warm, temperature, 1.0))
    weights = where(warm, drawn, astype(x == top, np.float64))
    sums = cumsum(weights, axis=-1)
    total = sums[:, -1]
    aim = where(warm, numbers, 0.0) * total
    below = sums[:, :-1] <= reshape(aim, (-1, 1))
    return red.sum(astype(below, np.int64), axis=-1), red.all(ew.isfinite(logits), axis=-1)
