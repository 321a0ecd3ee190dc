"""How near to the machine's limit do fused composites run, forward and backward?

The peer is the limit, measured in the same run: for layer_norm, gelu and softmax + cross-entropy a
plain copy of as many bytes as must be moved at least (each input read once, each result written
once); for attention, seven matrix products' worth of `sgemm` at causal half. The ratio is the share
of the limit. float32; sizes are bytes of x.
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


def both(f: Callable[..., Any], xs: list[Any], rest: list[Any], g: Any) -> Callable[[], Any]:
    """Value and cotangents, as one function of arrays."""

    def step(xs: list[Any], rest: list[Any], g: Any) -> Any:
        y, pull = cr.vjp(lambda *xs: f(*xs, *rest), *xs)
        return y, pull(g)

    call = ours.compiled(step)
    return lambda: call(xs, rest, g)


def torch_both(f: Callable[..., Any], xs: list[Any], rest: list[Any], g: Any) -> Callable[[], Any]:
    ts = [torch.tensor(x, requires_grad=True) for x in xs]
    others, cotangent = [torch.tensor(r) for r in rest], torch.tensor(g)

    def step() -> Any:
        y = f(*ts, *others)
        return y, torch.autograd.grad(y, ts, cotangent)

    return step


def rows(what: str, runners: list[Runner], nbytes: int) -> list[Row]:
    """A row for each program: its time, the limit's, and which share of the limit it reaches."""
    runs = max(1, min(50, 10**6 // nbytes))
    times = race(runners, blocks=3, runs=runs)
    limit = times[runners[-1].name]
    return [
        Row(
            f"{what}: {r.name} / {runners[-1].name}", show(times[r.name]), show(limit),
            f"{limit / times[r.name]:.2f}", "≥ 0.70" if r.name == ours.NAME else "",
        )
        for r in runners[:-1]
    ]  # fmt: skip


def elementwise(case: Case, size: int, rng: Any) -> list[Row]:
    x = rng.standard_normal((max(1, size // 4 // WIDTH), WIDTH), dtype=np.float32)
    losses = case.arrays == 2
    rest = [rng.integers(0, WIDTH, len(x))] if losses else []
    g = np.float32(1) if losses else rng.standard_normal(x.shape, dtype=np.float32)
    mine = both(case.ours, [cr.asarray(x)], [cr.asarray(r) for r in rest], cr.asarray(g))
    return rows(
        f"{case.name}, {size:.0e} bytes",
        [
            Runner(ours.NAME, mine),
            Runner("PyTorch", torch_both(case.theirs, [x], rest, g)),
            Runner("copy", copying(case.arrays * x.nbytes)),
        ],
        size,
    )  # fmt: skip


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
    return rows(
        f"attention, {heads} heads, T {T}, {DEPTH} channels",
        [
            Runner(ours.NAME, both(mine, [cr.asarray(a) for a in (q, k, v)], [], cr.asarray(g))),
            Runner("PyTorch", torch_both(peer, [q, k, v], [], g[None])),
            Runner("sgemm", products(heads, T, rng)),
        ],
        heads * T * T * 4,
    )


def run() -> list[Row]:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    found = [r for case in CASES for size in SIZES for r in elementwise(case, size, rng)]
    for T, heads in ((64, 1), (256, 6), (1024, 12), (2048, 12)):
        found += attention(T, heads, rng)
    return found
