"""The problems by their names."""

from __future__ import annotations

from bench.gradbench import (
    ba,
    det,
    gmm,
    hello,
    ht,
    kmeans,
    llsq,
    lse,
    lstm,
    ode,
    particle,
    saddle,
)

MODULES = (hello, llsq, lse, gmm, kmeans, det, ba, ht, lstm, ode, particle, saddle)
PROBLEMS = {m.PROBLEM.name: m.PROBLEM for m in MODULES}
