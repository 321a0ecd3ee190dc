"""The data beside the file: what `main` reads, in the byte order of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from chainrule.compile.c.main import MAGIC
from chainrule.op import Array


def write_data(out: BinaryIO, state: Sequence[Array], batches: Sequence[Sequence[Array]]) -> None:
    """The header, the state, and each batch."""
    size = sum([a.nbytes for a in state])
    out.write(np.array([MAGIC, size, len(batches)], np.int64).tobytes())
    for a in state:
        out.write(a.tobytes())
    for batch in batches:
        for a in batch:
            out.write(a.tobytes())
