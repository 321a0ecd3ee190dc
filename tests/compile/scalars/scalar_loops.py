"""Random programs of loops over Values: a few lists of numbers, and steps that make new lists of
them, as somebody would write these in Python."""

# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from chainrule.scalar import Value
from tests.compile.scalars.scalar_programs import Program, linear

Vector = list[Any]
Step = Callable[[random.Random], Callable[[list[Vector]], Vector]]
"""Draws what it needs, and makes a list of the lists there are."""


def _one(r: random.Random) -> Callable[[list[Vector]], Vector]:
    """One of the lists, the later ones rather."""
    back = min(r.randrange(1, 4), r.randrange(1, 4))
    return lambda lists: lists[-min(back, len(lists))]


def mapped(r):
    a = _one(r)
    scale, kind = r.uniform(0.3, 0.9), r.randrange(6)
    ops = [
        lambda x: (x * scale).tanh(),
        lambda x: x.relu() + 0.1,
        lambda x: (x * 0.2).exp(),
        lambda x: x.sigmoid() - scale,
        lambda x: x**2 * 0.3,
        lambda x: 1 / (x * x + 1.5),
    ]
    return lambda lists: [ops[kind](x) for x in a(lists)]


def zipped(r):
    a, b, kind = _one(r), _one(r), r.randrange(4)
    ops = [
        lambda x, y: x + y,
        lambda x, y: x * y - y,
        lambda x, y: x - y * 0.5,
        lambda x, y: x / (y * y + 2.0),
    ]
    return lambda lists: [ops[kind](x, y) for x, y in zip(a(lists), b(lists), strict=False)]


def product(r):
    a, n = _one(r), r.randrange(2, 6)

    def step(lists):
        x, w = a(lists), lists[0]
        return [sum(w[(i * len(x) + j) % len(w)] * x[j] for j in range(len(x))) for i in range(n)]

    return step


def outer(r):
    a, b = _one(r), _one(r)
    return lambda lists: [x * y for x in a(lists)[:4] for y in b(lists)[:5]]


def prefixes(r):
    a = _one(r)

    def step(lists):
        out, total = [], 0
        for x in a(lists)[:6]:
            total = total + x * 0.5
            out.append(total)
        return out

    return step


def triangle(r):
    a, b = _one(r), _one(r)

    def step(lists):
        x, y = a(lists)[:6], b(lists)
        return [sum(x[j] * y[(i - j) % len(y)] for j in range(i + 1)) for i in range(len(x))]

    return step


def gathered(r):
    a, seed = _one(r), r.random()

    def step(lists):
        x = a(lists)
        order = random.Random(seed).choices(range(len(x)), k=len(x) + 2)
        return [x[i] * (0.5 + 0.1 * i) for i in order]

    return step


def windows(r):
    a, n = _one(r), r.randrange(2, 4)

    def step(lists):
        x, w = a(lists), lists[0]
        return (
            [linear(w[:n], [x[i : i + n]])[0].tanh() for i in range(len(x) - n)]
            if len(x) > n
            else [v * 0.7 for v in x]
        )

    return step


def softmax(r):
    a = _one(r)

    def step(lists):
        x = a(lists)
        top = max(v.data for v in x)
        exps = [(v - top).exp() for v in x]
        total = sum(exps)
        return [e / total for e in exps]

    return step


def recurrence(r):
    a, n = _one(r), r.randrange(2, 5)

    def step(lists):
        x = a(lists)[:5]
        for _ in range(n):
            x = [(u * 0.9 - v * 0.2).tanh() for u, v in zip(x, [*x[1:], x[0]], strict=True)]
        return x

    return step


STEPS: list[Any] = [
    mapped, zipped, product, outer, prefixes, triangle, gathered, windows, softmax, recurrence,
]  # fmt: skip


def program(seed: int) -> Program:
    """A program of three to seven steps, and its leaves."""
    r = random.Random(seed)
    leaves = [[Value(r.gauss(0, 0.8)) for _ in range(r.randrange(4, 14))] for _ in range(2)]
    steps = [r.choice(STEPS)(r) for _ in range(r.randrange(3, 8))]
    weights = [r.uniform(-1, 1) for _ in range(7)]

    def loss() -> Any:
        lists = list(leaves)
        for step in steps:
            lists.append(step(lists))
        ends = [v for x in lists[2:] for v in x]
        return sum(v * weights[i % 7] for i, v in enumerate(ends)) * (1.0 / len(ends))

    return loss, [v for x in leaves for v in x]
