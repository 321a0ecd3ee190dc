"""Random programs of Values whose arguments are ints: they choose rows, branch, count, scale."""

# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from chainrule.scalar import Value
from tests.compile.scalars.scalar_loops import STEPS
from tests.compile.scalars.scalar_programs import matrix

RANGE = 5
"""Ints are below it."""


def chosen(r):
    a = r.randrange(3)
    return lambda lists, ints: [lists[-1 - a % len(lists)][i] for i in ints]


def branching(r):
    odd, scale = r.randrange(RANGE), r.uniform(0.3, 0.9)

    def step(lists, ints):
        pairs = zip(lists[-1], [*ints, *ints], strict=False)
        return [(x * scale).tanh() if i == odd else x + scale for x, i in pairs]

    return step


def counting(r):
    least = r.randrange(1, 3)
    return lambda lists, ints: [sum(lists[-1][: least + i]) * 0.3 for i in ints]


def scaling(r):
    sizes = [r.uniform(0.2, 0.9) for _ in range(RANGE)]
    return lambda lists, ints: [x * sizes[i] for x, i in zip(lists[-1], ints, strict=False)]


def arithmetic(r):
    k = r.randrange(1, 4)

    def step(lists, ints):
        x = lists[-1]
        return [x[(k * i + j) % len(x)] * x[j] for j, i in enumerate(ints) if j < len(x)]

    return step


def targets(r):
    return lambda lists, ints: [x * Value(float(i)) for x, i in zip(lists[-1], ints, strict=False)]


INTS: list[Any] = [chosen, branching, counting, scaling, arithmetic, targets]


def program(seed: int) -> tuple[Callable[[list[int]], Value], list[Value], list[list[int]]]:
    """A program of a few steps, its leaves, and the ints that it is called with."""
    r = random.Random(seed)
    rows = matrix(r, RANGE, r.randrange(2, 5), 0.8)
    first = [Value(r.gauss(0, 0.8)) for _ in range(r.randrange(RANGE, 9))]
    plain = [r.choice(STEPS)(r) for _ in range(2)]
    steps = [r.choice(INTS)(r) for _ in range(3)]

    def loss(ints: list[int]) -> Any:
        lists = [first, [v for i in ints for v in rows[i]]]
        for step, more in zip(steps, [*plain, None], strict=True):
            lists.append([*step(lists, ints), *first])
            if more is not None:
                lists.append([*more(lists), *first])
        return sum(v * (0.5 + 0.1 * (i % 5)) for i, v in enumerate(lists[-1]))

    n = r.randrange(3, 6)
    calls = [[r.randrange(RANGE) for _ in range(n + k % 2)] for k in range(6)]
    return loss, [*first, *[v for row in rows for v in row]], calls
