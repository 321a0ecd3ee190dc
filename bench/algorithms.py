"""How fast are sorting, searching, factorizations and Fourier transforms in compiled programs,
beside NumPy's?

One thread each. Every call gets other numbers than the one before: with the same ones again a
processor learns the branches of a comparison sort by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

import chainrule as cr
from bench.pairs import Row, pair, row

SIZES = (1_000, 100_000, 1_000_000)
TRANSFORMS = ((64,), (1_024,), (65_536,), (32, 1_024), (32, 4_096), (1_009,))
SHAPES = ((4, 4), (32, 32), (512, 512), (1_000, 4, 4))


def in_turn(f: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> Callable[[], Any]:
    """Calls of `f`, each with the next arguments."""
    rest = cycle(given)
    return lambda: f(*next(rest))


def compared(
    what: str, f: Callable[..., Any], peer: Callable[..., Any], arrays: Sequence[tuple[Any, ...]]
) -> Row:
    """`f`, compiled, beside `peer` on the same arrays."""
    runs = max(1, min(200, 300_000 // sum([x.size for x in arrays[0]])))
    tensors = [tuple([cr.asarray(x) for x in xs]) for xs in arrays]
    mine, theirs = pair(in_turn(cr.jit(f), tensors), in_turn(peer, arrays), blocks=5, runs=runs)
    return row(what, mine, theirs, "≤ 1")


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for n in SIZES:
        count = max(2, min(300, 600_000 // n))
        for dtype in (np.float32, np.float64, np.int64):
            xs = [((rng.standard_normal(n) * 1000).astype(dtype),) for _ in range(count)]
            name = np.dtype(dtype).name
            rows.append(compared(f"argsort {n:,} {name}", cr.argsort, stable, xs))
        pairs = [(np.sort(rng.standard_normal(n)), rng.standard_normal(n)) for _ in range(2)]
        rows.append(
            compared(f"searchsorted {n:,} in {n:,}", cr.searchsorted, np.searchsorted, pairs)
        )
    for shape in SHAPES:
        a = rng.standard_normal(shape)
        a = a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])
        given = [(a, rng.standard_normal((*shape[:-1], 1)))]
        rows.append(
            compared(f"cholesky and solve {shape}", factored(cr.linalg), factored(np.linalg), given)
        )
    for shape in TRANSFORMS:
        x = rng.standard_normal((2, *shape)).astype(np.float32)
        z = (x[0] + 1j * x[1]).astype(np.complex64)
        for dtype in (np.complex64, np.complex128):
            name = np.dtype(dtype).name
            given = [(z.astype(dtype),)]
            rows.append(compared(f"fft {shape} {name}", cr.fft.fft, np.fft.fft, given))
        rows.append(
            compared(f"rfft {shape} float64", cr.fft.rfft, np.fft.rfft, [(x[0].astype(float),)])
        )
    return rows


def stable(x: Any) -> Any:
    """NumPy's stable sort."""
    return np.argsort(x, stable=True)


def factored(linalg: Any) -> Callable[..., Any]:
    """A factorization and the solution of equations."""

    def f(a: Any, b: Any) -> Any:
        return linalg.solve(linalg.cholesky(a), b)

    return f


if __name__ == "__main__":
    for line in run():
        print(line.what, line.ours, line.peer, line.ratio, sep=" | ")
