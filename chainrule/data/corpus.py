"""Documents made ready for training: shuffled, split, as tokens, in batches.

Notation: B documents of a batch, T positions of the longest of them.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from chainrule.data.tokenizer import CharTokenizer
from chainrule.engine.op import Array
from chainrule.errors import ConfigError

IGNORE = -1
"""The target of a position that only fills up a batch."""


@final
@dataclass(frozen=True)
class Batch:
    """Documents as tokens with `bos` at both ends, cut to what the model can see.

    >>> batch = cr.data.Batch(((4, 0, 1, 4), (4, 2, 4)))
    >>> batch.tokens, batch.targets
    (array([[4, 0, 1],
           [4, 2, 0]]), array([[ 0,  1,  4],
           [ 2,  4, -1]]))
    """

    documents: tuple[tuple[int, ...], ...]
    rows: int = 0
    """At least so many rows: those beyond the documents are filling."""

    @property
    def positions(self) -> int:
        """Number of real positions: each predicts one token."""
        return sum([len(d) - 1 for d in self.documents])

    def chunk(self, count: int, i: int) -> Batch:
        """The i-th of `count` nearly equal parts: some of the documents."""
        n = len(self.documents)
        return Batch(self.documents[i * n // count : (i + 1) * n // count])

    @cached_property
    def tokens(self) -> Array:
        """(B, T) int64: what is read. Shorter documents are filled up with token 0."""
        return self._pad(0, 0)

    @cached_property
    def targets(self) -> Array:
        """(B, T) int64: what is to be predicted, `IGNORE` beyond a document's end."""
        return self._pad(1, IGNORE)

    def _pad(self, first: int, fill: int) -> Array:
        count, length = max(self.rows, len(self.documents)), max(map(len, self.documents)) - 1
        rows = np.full((count, length), fill, np.int64)
        for row, document in zip(rows, self.documents, strict=False):
            row[: len(document) - 1] = document[first : first + len(document) - 1]
        return rows


@final
@dataclass(frozen=True)
class Corpus:
    """Documents to train on, documents held out, and the tokenizer of both.

    `fingerprint` tells whether a run that continues has found the documents that it began with.

    >>> import random
    >>> corpus = cr.data.Corpus.of(["ann", "bob", "eve"], random.Random(0), holdout=0.34)
    >>> len(corpus.training), len(corpus.held_out)
    (2, 1)
    """

    tokenizer: CharTokenizer
    training: tuple[str, ...]
    held_out: tuple[str, ...]
    fingerprint: str

    @classmethod
    def of(
        cls,
        documents: Sequence[str],
        rng: random.Random,
        *,
        holdout: float = 0.0,
        tokenizer: CharTokenizer | None = None,
    ) -> Corpus:
        """Shuffle the documents with `rng` and hold the last `holdout` (a fraction) of them out.

        With a fraction above 0 at least one document is held out and one is kept. The shuffle draws
        the same numbers whatever is held out.
        """
        if len(documents) < 2:
            raise ConfigError(
                f"training needs at least two documents, one a line; here is {len(documents)}"
            )
        if not 0 <= holdout < 1:
            raise ConfigError(f"the held-out fraction is at least 0 and below 1, not {holdout}")
        docs = list(documents)
        rng.shuffle(docs)
        held = min(max(round(holdout * len(docs)), 1), len(docs) - 1) if holdout else 0
        return cls(
            tokenizer or CharTokenizer.of(docs),
            tuple(docs[: len(docs) - held]),
            tuple(docs[len(docs) - held :]),
            hashlib.sha256("\n".join(documents).encode()).hexdigest(),
        )

    def batch(self, step: int, size: int, block_size: int) -> Batch:
        """The documents of step 0, 1, ..: the next `size` in order, over and over."""
        n = len(self.training)
        picked = [self.training[(step * size + i) % n] for i in range(size)]
        return self._batch(picked, block_size)

    def held_out_batches(self, size: int, block_size: int, limit: int | None = None) -> list[Batch]:
        """The held-out documents (the first `limit` of them) in batches of at most `size`.

        Documents of similar length share a batch, so that little of it is filling. All batches have
        the same number of rows, so that one compiled program serves them.
        """
        docs = sorted(self.held_out[:limit], key=len)
        rows = math.ceil(len(docs) / math.ceil(len(docs) / size)) if docs else 1
        starts = range(0, len(docs), rows)
        return [self._batch(docs[i : i + rows], block_size, rows) for i in starts]

    def _batch(self, documents: Sequence[str], block_size: int, rows: int = 0) -> Batch:
        encode = self.tokenizer.document
        return Batch(tuple([tuple(encode(d)[: block_size + 1]) for d in documents]), rows)
