"""Minimax polynomials by the Remez exchange, whose coefficients are rounded one after another.

The exchange (Remez 1934; Cheney, Introduction to Approximation Theory, chapter 3) runs in 60
digits. Coefficients are then rounded to the format in which they are used, lowest first, and what
remains is fitted again after each rounding, so that later ones make up for the rounding of earlier
ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp

mp.mp.dps = 60

Fn = Callable[[Any], Any]


@dataclass(frozen=True)
class Fit:
    """Find p with p(z) close to g(z) on [a, b]; what counts is (p(z) - g(z)) * weight(z).

    The first `rounded` coefficients are fed back when rounded; the others matter too little.
    """

    name: str
    meaning: str
    g: Fn
    a: Any
    b: Any
    degree: int
    weight: Fn
    bits: int = 53
    rounded: int = 4


def to_format(c: Any, bits: int) -> Any:
    """`c`, rounded to float64 (53 bits) or float32 (24)."""
    x = float(c)
    return mp.mpf(struct.unpack("f", struct.pack("f", x))[0] if bits == 24 else x)


def chebyshev(a: Any, b: Any, n: int) -> list[Any]:
    """The extrema of the Chebyshev polynomial of degree n - 1 on [a, b], ascending."""
    return [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * k / (n - 1)) for k in range(n)]


def remez(g: Fn, weight: Fn, a: Any, b: Any, degree: int, first: int) -> tuple[list[Any], Any]:
    """Coefficients of z^first ... z^degree of the minimax fit to g, and its weighted error."""
    n = degree - first + 1
    grid = chebyshev(a + (b - a) * mp.mpf("1e-9"), b, 24 * (n + 1))
    gs, ws = [g(z) for z in grid], [weight(z) for z in grid]
    points = [round(k * (len(grid) - 1) / n) for k in range(n + 1)]
    coefficients: list[Any] = []
    for _ in range(30):
        rows = [
            [grid[k] ** (first + j) for j in range(n)] + [(-1) ** i / ws[k]]
            for i, k in enumerate(points)
        ]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([gs[k] for k in points]))
        coefficients = [solution[j] for j in range(n)]
        errors = [
            (horner(coefficients, z) * z**first - y) * w
            for z, y, w in zip(grid, gs, ws, strict=True)
        ]
        fresh = extrema(errors, n + 1)
        level = abs(solution[n])
        if fresh is None or max(map(abs, errors)) < level * mp.mpf("1.001"):
            break
        points = fresh
    return coefficients, max(map(abs, errors))


def extrema(errors: list[Any], count: int) -> list[int] | None:
    """Where the error is largest between two changes of sign; `count` neighbouring ones."""
    best: list[int] = []
    for k, e in enumerate(errors):
        if best and (e > 0) == (errors[best[-1]] > 0):
            if abs(e) > abs(errors[best[-1]]):
                best[-1] = k
        else:
            best.append(k)
    while len(best) > count:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    return best if len(best) == count else None


def horner(coefficients: list[Any], z: Any) -> Any:
    """The polynomial's value."""
    y = mp.mpf(0)
    for c in reversed(coefficients):
        y = y * z + c
    return y


def solve(fit: Fit) -> tuple[list[float], float]:
    """The rounded coefficients, lowest first, and log2 of the largest weighted error."""
    a, b = mp.mpf(fit.a), mp.mpf(fit.b)
    done: list[Any] = []
    while len(done) < min(fit.rounded, fit.degree):
        rest = lambda z, known=tuple(done): fit.g(z) - horner(list(known), z)
        coefficients, _ = remez(rest, fit.weight, a, b, fit.degree, len(done))
        done.append(to_format(coefficients[0], fit.bits))
    rest = lambda z: fit.g(z) - horner(done, z)
    coefficients, _ = remez(rest, fit.weight, a, b, fit.degree, len(done))
    done += [to_format(c, fit.bits) for c in coefficients]
    grid = chebyshev(a + (b - a) * mp.mpf("1e-9"), b, 600)
    worst = max(abs((horner(done, z) - fit.g(z)) * fit.weight(z)) for z in grid)
    return [float(c) for c in done], float(mp.log(worst, 2))


def parts(x: Any, count: int, bits: int) -> list[float]:
    """x as a sum of `count` floats."""
    found: list[float] = []
    for _ in range(count):
        found.append(float(to_format(x, bits)))
        x -= mp.mpf(found[-1])
    return found


def fitted(fits: list[Fit], names: list[str]) -> str:
    """The lines of the table: of all fits, or of the named ones; says how good each is."""
    text = ""
    for fit in fits:
        if names and fit.name not in names:
            continue
        coefficients, error = solve(fit)
        print(f"{fit.name:12} degree {fit.degree:2}  relative error 2^{error:.2f}", flush=True)
        text += f"\n# {fit.meaning}; relative error 2^{error:.1f}\n{fit.name} = (\n"
        text += "".join(f"    {c!r},\n" for c in coefficients) + ")\n"
    return text
