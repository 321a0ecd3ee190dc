"""How fast are chainrule's derivatives beside JAX's and PyTorch's, on GradBench's problems?

`python -m bench.gradbench [names] [--engine eager|jit] [--write]` prints a line for each problem
and size: whether the three agree, by the suite's measure and tolerance, and how long each takes.
All three run on one core in float64, in turn, on the same inputs; compilation is not counted, as in
the suite. What is measured is processor time, of which other programs take none.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from itertools import product
from typing import Any

CORE = min(os.sched_getaffinity(0))
# before the libraries start their threads: the suite pins its tools, too
os.sched_setaffinity(0, {CORE})
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import chainrule as cr  # noqa: E402
from bench.__main__ import write  # noqa: E402
from bench.gradbench import peers_jax, peers_torch  # noqa: E402
from bench.gradbench.problem import Problem  # noqa: E402
from bench.gradbench.problems import PROBLEMS  # noqa: E402
from bench.gradbench.tool import ENGINES  # noqa: E402
from bench.pairs import show  # noqa: E402
from chainrule.tree import flatten  # noqa: E402

TOLERANCE = 1e-4
SECONDS = 0.4
"""How long each of the three is measured in one round; there are ROUNDS."""
SHORT = 2e-4
"""Seconds that one measurement lasts at least: of several calls, if they are short."""
SLOW = 5.0
"""Seconds from which on PyTorch's eager run is measured once."""
ROUNDS = 5
MOST = 200
HEAD = "| problem | size | error | ours | JAX | PyTorch | JAX / ours | PyTorch / ours |\n"
RULE = "|---|---|---|---|---|---|---|---|\n"


def difference(a: Any, b: Any) -> float:
    """The suite's measure: |a - b| / max(1, |a| + |b|), the worst of all numbers."""
    worst = 0.0
    for x, y in zip(flatten(a)[0], flatten(b)[0], strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape:
            raise SystemExit(f"shapes differ: {x.shape} and {y.shape}")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return float("inf")
        scale = np.maximum(1, np.abs(x) + np.abs(y))
        worst = max(worst, float(np.max(np.abs(x - y) / scale, initial=0)))
    return worst


def medians(calls: list[Callable[[], Any]], first: list[float]) -> list[float]:
    """Median seconds of each call, measured in turn, a share of a round each.

    A call whose `first` run was slow has that one measurement: minutes say enough.
    """
    slow = [t > SLOW for t in first]
    times: list[list[float]] = [[t] if s else [] for t, s in zip(first, slow, strict=True)]
    for round_ in range(ROUNDS):
        for i, call in enumerate(calls):
            if slow[i]:
                continue
            count = max(1, round(SHORT / max(processor_seconds(call, 1), 1e-7)))
            spent = 0.0
            while spent < SECONDS and len(times[i]) < MOST * (round_ + 1):
                times[i].append(processor_seconds(call, count))
                spent += times[i][-1] * count
    return [statistics.median(mine) for mine in times]


def processor_seconds(call: Callable[[], Any], count: int) -> float:
    """Of one call, the mean of so many."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def compared(problem: Problem, size: dict[str, int], function: str, engine: str) -> str:
    """The line of one function of a problem at one size."""
    args = problem.read(problem.make(np.random.default_rng(0), **size))
    ours = problem.functions(ENGINES[engine])[function]
    mine = cr.tree_map(lambda x: cr.tensor(x) if isinstance(x, np.ndarray) else x, args)
    calls: list[Callable[[], Any]] = [lambda: ours(*mine)]
    for peer in (peers_jax, peers_torch):
        f, given = peer.FUNCTIONS[problem.name], peer.prepared(args)
        calls.append(lambda peer=peer, f=f, given=given: peer.ready(f(*given)))
    results = [call() for call in calls[:2]]
    start = time.process_time()
    results.append(calls[2]())
    # what compiles is not judged by its first run; PyTorch, eager, does not
    first = [0.0, 0.0, time.process_time() - start]
    error = max(difference(results[0], other) for other in results[1:])
    mark = f"{error:.0e}" if error <= TOLERANCE else f"**{error:.0e}: differ**"
    a, b, c = medians(calls, first)
    what = ", ".join([f"{k}={v}" for k, v in size.items()]) or "the suite's"
    shown = f"{show(a)} | {show(b)} | {show(c)} | {b / a:.2f} | {c / a:.2f}"
    return f"| {problem.name} {function} | {what} | {mark} | {shown} |\n"


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("names", nargs="*", default=[], help="of problems; all if none")
    options.add_argument("--engine", choices=ENGINES, default="jit")
    options.add_argument("--write", action="store_true", help="into bench/RESULTS.md")
    asked = options.parse_args()
    unknown = set(asked.names) - set(PROBLEMS)
    if unknown:
        options.error(f"no problem {unknown.pop()!r}; there are {', '.join(PROBLEMS)}")
    torch.set_num_threads(1)
    lines: list[str] = []
    print(HEAD + RULE, end="", flush=True)
    for name in asked.names or PROBLEMS:
        problem = PROBLEMS[name]
        for size, function in product(problem.sizes, problem.timed):
            lines.append(compared(problem, size, function, asked.engine))
            print(lines[-1], end="", flush=True)
    if asked.write:
        question = (__doc__ or "").splitlines()[0]
        command = f"python -m bench.gradbench --engine {asked.engine}"
        write(
            "gradbench",
            f"## gradbench\n\n{question}\n\n`{command}`\n\n{HEAD}{RULE}{''.join(lines)}",
        )


if __name__ == "__main__":
    main()
