"""How near to the machine's limit do fused composites run, forward and backward?

The peer is the limit, measured in the same run, the larger of two times: a plain copy of as many
bytes as must be moved at least (each input read once, each result written once), and a matrix
product of as many operations as the compiled loops have, where a function like exp counts as its
longest polynomial. For attention it is seven matrix products' worth of `sgemm` at causal half. The
ratio is the share of the limit. float32; sizes are bytes of x. Results are new arrays in each call,
the copy's is not: from a few MiB on, the system's pages for them are a part of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import chainrule as cr
from bench.compiled import ours
from bench.compiled.race import Runner, race
from bench.pairs import Row, show

SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)
WIDTH, DEPTH = 256, 64


@dataclass(frozen=True)
class Case:
    """A composite: of chainrule's and PyTorch's arrays, and how many arrays it must move."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arrays: int


CASES = (
    Case("layer_norm", cr.layer_norm, lambda x: F.layer_norm(x, (WIDTH,)), 4),
    Case(
        "gelu", lambda x: cr.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh"), 4
    ),
    Case("softmax + cross-entropy", cr.cross_entropy, F.cross_entropy, 2),
)


def copying(nbytes: int) -> Callable[[], Any]:
    """Move `nbytes` in all: half are read, half written."""
    a = np.ones(max(1, nbytes // 8), np.float32)
    b = np.ones_like(a)
    return lambda: np.copyto(b, a)


SIDE = 256


def multiplying() -> Callable[[], Any]:
    """2 SIDE^3 operations, at the speed of a matrix product."""
    a, b, out = [np.ones((SIDE, SIDE), np.float32) for _ in range(3)]
    return lambda: np.matmul(a, b, out=out)


@dataclass(frozen=True)
class Both:
    """Value and cotangents of a function of arrays, as one compiled call."""

    call: Any
    args: tuple[Any, ...]

    def __call__(self) -> Any:
        return self.call(*self.args)

    def flops(self) -> int:
        """Operations of the compiled loops."""
        return self.call.explain(*self.args, repeats=1).total.flops


def both(f: Callable[..., Any], xs: list[Any], rest: list[Any], g: Any) -> Both:
    def step(*args: Any) -> Any:
        *inputs, g = args
        y, pull = cr.vjp(lambda *xs: f(*xs, *inputs[len(xs) :]), *inputs[: len(xs)])
        return y, pull(g)

    return Both(ours.compiled(step), (*xs, *rest, g))


def torch_both(f: Callable[..., Any], xs: list[Any], rest: list[Any], g: Any) -> Callable[[], Any]:
    ts = [torch.tensor(x, requires_grad=True) for x in xs]
    others, cotangent = [torch.tensor(r) for r in rest], torch.tensor(g)

    def step() -> Any:
        y = f(*ts, *others)
        return y, torch.autograd.grad(y, ts, cotangent)

    return step


def timed(runners: list[Runner], nbytes: int) -> dict[str, float]:
    """Median seconds of each."""
    return race(runners, blocks=3, runs=max(1, min(50, 10**6 // nbytes)))


def rows(what: str, times: dict[str, float], limit: float, name: str) -> list[Row]:
    """A row for each program: its time, the limit's, and which share of the limit it reaches."""
    return [
        Row(
            f"{what}: {program} / {name}", show(times[program]), show(limit),
            f"{limit / times[program]:.2f}", "≥ 0.70" if program == ours.NAME else "",
        )
        for program in (ours.NAME, "PyTorch")
    ]  # fmt: skip


def elementwise(case: Case, size: int, rng: Any) -> list[Row]:
    x = rng.standard_normal((max(1, size // 4 // WIDTH), WIDTH), dtype=np.float32)
    losses = case.arrays == 2
    rest = [rng.integers(0, WIDTH, len(x))] if losses else []
    g = np.float32(1) if losses else rng.standard_normal(x.shape, dtype=np.float32)
    mine = both(case.ours, [cr.asarray(x)], [cr.asarray(r) for r in rest], cr.asarray(g))
    runners = [
        Runner(ours.NAME, mine),
        Runner("PyTorch", torch_both(case.theirs, [x], rest, g)),
        Runner("copy", copying(case.arrays * x.nbytes)),
        Runner("sgemm", multiplying()),
    ]
    times = timed(runners, size)
    arithmetic = times["sgemm"] * mine.flops() / (2 * SIDE**3)
    limit = max((times["copy"], "copy"), (arithmetic, "arithmetic"))
    return rows(f"{case.name}, {size:.0e} bytes", times, *limit)


def products(heads: int, T: int, rng: Any) -> Callable[[], Any]:
    """Half of seven products (T, T, d) a head: what causal attention, forward and backward, needs.

    Two forward (scores, values), five backward (scores again, dv, dp, dq, dk).
    """
    side = min(1024, max(64, T))
    a, b = (rng.standard_normal((side, side), dtype=np.float32) for _ in range(2))
    rounds = max(1, round(heads * T * T * DEPTH * 3.5 / side**3))
    out = np.empty_like(a)

    def run() -> None:
        for _ in range(rounds):
            np.matmul(a, b, out=out)

    return run


def attention(T: int, heads: int, rng: Any) -> list[Row]:
    shape = (heads, T, DEPTH)
    q, k, v, g = (rng.standard_normal(shape, dtype=np.float32) for _ in range(4))
    mine = lambda q, k, v: cr.scaled_dot_product_attention(q, k, v, causal=True)
    peer = lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)
    runners = [
        Runner(ours.NAME, both(mine, [cr.asarray(a) for a in (q, k, v)], [], cr.asarray(g))),
        Runner("PyTorch", torch_both(peer, [q, k, v], [], g[None])),
        Runner("sgemm", products(heads, T, rng)),
    ]
    times = timed(runners, heads * T * T * 4)
    what = f"attention, {heads} heads, T {T}, {DEPTH} channels"
    return rows(what, times, times["sgemm"], "sgemm")


def run() -> list[Row]:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    found = [r for case in CASES for size in SIZES for r in elementwise(case, size, rng)]
    for T, heads in ((64, 1), (256, 6), (1024, 12), (2048, 12)):
        found += attention(T, heads, rng)
    return found
