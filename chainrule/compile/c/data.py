"""The data beside the file: what `main` reads, in the byte order of this machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.compile.c.main import MAGIC
from chainrule.op import Array


def data_of(state: Sequence[Array], batches: Sequence[Sequence[Array]]) -> bytes:
    """The header, the state, and each batch."""
    size = sum([a.nbytes for a in state])
    header = np.array([MAGIC, size, len(batches)], np.int64)
    arrays = [header, *state, *[a for batch in batches for a in batch]]
    return b"".join([a.tobytes() for a in arrays])
