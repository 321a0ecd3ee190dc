"""Ints among the arguments of a compiled function of Values: one recording for all that lead the
same way."""

# The functions that are compiled have no annotations, as a user writes them.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import chainrule as cr
from chainrule.compile.scalars.ints.symbolic import Steps, SymbolicInt
from chainrule.scalar import Value
from tests.compile.scalars.test_reroll import gradients
from tests.sampling import sampled

ROWS = [[Value(0.1 * (3 * i - j) + 0.05) for j in range(3)] for i in range(7)]
LEAVES = [v for row in ROWS for v in row]
TABLE = [3, 0, 6, 2, 2, 5, 1]


def traces(f: Callable[..., Any], *calls: Any) -> int:
    """How often `jit(f)` is traced for these arguments; each call is compared with f."""
    compiled = cr.jit(f)
    for args in calls:
        y, z = f(*args), compiled(*args)
        assert y.data == z.data, args
        want, got = gradients(y, LEAVES), gradients(z, LEAVES)
        assert got == pytest.approx(want, rel=1e-12, abs=1e-14), args
    return compiled.traces


def one(i):
    return (i,)


@pytest.mark.parametrize(
    "f",
    [
        lambda i: sum(ROWS[i]),
        lambda i: ROWS[i][1] * ROWS[(i + 2) % 7][0],
        lambda i: ROWS[TABLE[i]][2].tanh(),
        lambda i: ROWS[TABLE[TABLE[i]]][-1] * 2,
        lambda i: cr.exp(sum(a * b for a, b in zip(ROWS[i], ROWS[0], strict=True))),
        lambda i: [v.exp() for v in [row[0] for row in ROWS]][i],
        lambda i: (ROWS[i] + ROWS[3])[2 * 1] + ROWS[6 - i][0],
        lambda i: ROWS[i - 7][0] * ROWS[i - 7][1],
        lambda i: tuple(ROWS)[abs(3) * 0 + i][0] / 3,
        lambda i: [x * x for x in ROWS[i]][i - i] - ROWS[i][0],
        lambda i: ROWS[0][0] * 2 if i < 100 else ROWS[i][1],
        lambda i: [ROWS[i], ROWS[(i * i) % 7]][1][0] * 3,
    ],
)
def test_an_index_is_data(f: Any) -> None:
    assert traces(f, *map(one, [2, 5, 0, 0, 6, 1, 3, 4, 2])) == 1


@pytest.mark.parametrize(
    ("f", "most"),
    [
        (lambda i: ROWS[0][0] * 2 if i > 3 else ROWS[i][1], 2),
        (lambda i: ROWS[i][0] * (0.5 if i == 4 else 1.5), 2),
        (lambda i: ROWS[i][0] * 2 if i else ROWS[1][1] * 1, 2),
        (lambda i: ROWS[1][0] * i, 7),
        (lambda i: ROWS[1][0] ** (i + 1), 7),
        (lambda i: sum([v[0] for v in ROWS[:i]], ROWS[0][0] * 1), 7),
        (lambda i: ROWS[{0: 1}.get(i, 2)][0] * 1, 7),
        (lambda i: ROWS[0][0] * Value(i), 7),
        (lambda i: ROWS[0][0] * Value(float(i)), 7),
        (lambda i: ROWS[0][0] * math.sqrt(i), 7),
        (lambda i: ROWS[0][0] * len(f"{i:03d}"), 7),
        (lambda i: ROWS[max(i, 3)][0] * 1, 2),
        (lambda i: [ROWS[0][0] * 1, ROWS[1][1] * 2, ROWS[2][2], *ROWS[3], 4 * ROWS[0][1]][i], 7),
        (lambda i: [ROWS[0][0], 2, 3, *ROWS[3], 1][i] * ROWS[1][1], 7),
        (lambda i: ROWS[0][0] * (i / 2 + divmod(i, 3)[0] - (1 if isinstance(i, int) else 2)), 7),
        (lambda i: ROWS[copy.deepcopy(i)][0] * 1, 1),
    ],
)  # fmt: skip
def test_what_python_does_with_an_int_is_a_condition(f: Any, most: int) -> None:
    ints = [2, 5, 0, 0, 6, 1, 3, 4, 2]
    assert traces(f, *map(one, ints), *map(one, ints)) <= most


def test_what_comes_once_is_not_recorded() -> None:
    """Recording takes as long as many runs: arguments of many kinds have to come twice."""
    f = lambda xs, n: sum(xs[:n]) * ROWS[0][0]
    compiled = cr.jit(f)
    xs: list[Value] = []
    for n in range(1, 13):
        xs = [Value(0.1 * i) for i in range(n)]
        assert compiled(xs, 2).data == f(xs, 2).data
    assert compiled.traces == 4
    assert "8 kinds of arguments came once" in compiled.explain()
    for _ in range(3):
        assert compiled(xs, 2).data == f(xs, 2).data
    assert compiled.traces == 5


def test_an_index_out_of_bounds() -> None:
    f = cr.jit(lambda i: ROWS[i][0] * 1)
    for i in (1, 2, -1, -7):
        assert f(i).data == ROWS[i][0].data
    for i in (7, -8):
        with pytest.raises(IndexError):
            f(i)


def test_lists_of_arguments_and_keywords() -> None:
    def f(tokens: list[int], xs: list[Any], *, at: int) -> Any:
        return sum(xs[t] * ROWS[t][0] for t in tokens) * xs[at]

    compiled = cr.jit(f)
    r = random.Random(0)
    for _ in range(6):
        tokens = [r.randrange(4) for _ in range(5)]
        pair = [[Value(0.3 * j - r.random()) for j in range(4)] for _ in range(2)]
        pair[1] = [Value(x.data) for x in pair[0]]
        y, z = f(tokens, pair[0], at=tokens[2]), compiled(tokens, pair[1], at=tokens[2])
        assert y.data == z.data
        want, got = gradients(y, LEAVES + pair[0]), gradients(z, LEAVES + pair[1])
        assert got == pytest.approx(want, rel=1e-12)
    assert compiled.traces == 1


def test_without_source_an_index_is_a_condition() -> None:
    space: dict[str, Any] = {"ROWS": ROWS}
    exec("def f(i): return ROWS[i][0] * 2", space)
    assert traces(space["f"], *map(one, [1, 2, 3, 1, 2, 3])) == 3


def test_code_is_as_it_was_after_a_recording() -> None:
    def f(i: int) -> Any:
        if i == 3:
            raise KeyError(i)
        return ROWS[i][0] * 2

    code = f.__code__
    compiled = cr.jit(f)
    compiled(1)
    with pytest.raises(KeyError):
        compiled(3)
    assert f.__code__ is code


def test_what_ints_decide_unseen_is_found_by_the_next_call() -> None:
    """An identity is no comparison that an int could note."""

    def f(i: int) -> Any:
        return ROWS[i][0] * (1.0 if ROWS[i] is ROWS[2] else 3.0)

    assert traces(f, *map(one, [1, 2, 4, 2, 5, 1])) > 1


def _random_int(r: random.Random, pool: list[str]) -> str:
    a, b = r.choice(pool), r.choice([*pool, str(r.randrange(-3, 5))])
    return r.choice(
        [f"({a} {r.choice('+-*')} {b})", f"({a} {r.choice(['//', '%'])} {r.randrange(1, 5)})",
         f"(-{a})", f"TABLE[{a} % 7]", f"max({a}, {b})", f"abs({a})", f"({a} ** 2)",
         f"({a} if {a} {r.choice(['<', '>=', '==', '!='])} {b} else {b})", f"({a} & 3)"]
    )  # fmt: skip


@sampled(one_in=8)
@pytest.mark.parametrize("seed", range(200))
def test_random_arithmetic(seed: int) -> None:
    """What a recording says of other ints is what Python computes from them."""
    r = random.Random(seed)
    pool = ["a", "b", "c"]
    for _ in range(6):
        pool.append(_random_int(r, pool))
    text = pool[-1]
    steps = Steps()
    numbers = [r.randrange(-4, 9) for _ in range(3)]
    ints = [SymbolicInt(steps, f"a[{i}]", x, i) for i, x in enumerate(numbers)]
    space: dict[str, Any] = {}
    exec(
        "from chainrule.compile.scalars.ints.gather import item\n"
        f"def f(a, b, c, TABLE): return {text.replace('TABLE[', 'item(TABLE, ').replace(']', ')')}",
        space,
    )
    y = space["f"](*ints, TABLE)
    steps.index(y.name if type(y) is SymbolicInt else repr(y))
    check = steps.compiled()
    assert check(numbers) == (space["f"](*numbers, TABLE),)
    met = 0
    for _ in range(60):
        others = [r.randrange(-4, 9) for _ in range(3)]
        found = check(others)
        met += found is not None
        assert found is None or found == (space["f"](*others, TABLE),)
    assert met or steps.fixed or "if" in text or "max" in text or "abs" in text or "&" in text
