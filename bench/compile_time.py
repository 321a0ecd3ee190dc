"""How long does an unrolled program take to compile, beside JAX?

Seconds of the processor that the first call of value and gradient takes, each in a process of its
own: the least of three. Imports and a small compilation before it are not counted; nothing comes
from a cache. JAX is looked for in the interpreter that `CHAINRULE_BENCH_JAX` names, or else in this
one; where it has none, the column is empty.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

from bench.pairs import Row, show

TURNS = 3
AIM = "≤ 2.00"


def sines(np: Any, nn: Any, x: Any, n: int) -> Any:
    """A chain of functions."""
    for _ in range(n):
        x = np.sin(x) * 1.01 + 0.01
    return np.sum(x)


def tanhs(np: Any, nn: Any, x: Any, n: int) -> Any:
    """A chain of layers of one weight."""
    w = x
    for _ in range(n):
        x = np.tanh(w * x + 0.1)
    return np.sum(x)


def products(np: Any, nn: Any, x: Any, n: int) -> Any:
    """A chain of small matrix products."""
    w = x
    for _ in range(n):
        x = x @ w
    return np.sum(x * x)


def recurrent(np: Any, nn: Any, x: Any, n: int) -> Any:
    """A recurrent network, unrolled."""
    s = x
    for _ in range(n):
        s = np.tanh(s @ x + x)
    return np.sum(s * s)


def solver(np: Any, nn: Any, y: Any, n: int) -> Any:
    """Runge and Kutta's method."""
    for _ in range(n):
        a = -np.sin(y)
        b = -np.sin(y + 0.005 * a)
        c = -np.sin(y + 0.005 * b)
        d = -np.sin(y + 0.01 * c)
        y = y + 0.01 / 6 * (a + 2 * b + 2 * c + d)
    return np.sum(y * y)


def softmaxes(np: Any, nn: Any, x: Any, n: int) -> Any:
    """Rows that are normalized again and again."""
    for _ in range(n):
        x = nn.softmax(x * 1.1, axis=-1) + x
    return np.sum(x * x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "x = sin(x) * 1.01 + 0.01": (sines, (1000,), (100, 1000)),
    "x = tanh(w * x + 0.1)": (tanhs, (1000,), (100,)),
    "x = x @ w, (8, 8)": (products, (8, 8), (100,)),
    "recurrent network, (16, 16)": (recurrent, (16, 16), (200,)),
    "Runge-Kutta solver": (solver, (100,), (25,)),
    "softmax, (20, 50)": (softmaxes, (20, 50), (25,)),
}
"""By what it does: the program, its argument's shape, numbers of steps."""


def first(library: str, name: str, n: int) -> float:
    """In this process: seconds of the first call of value and gradient."""
    import numpy

    program, shape, _ = PROGRAMS[name]
    x = 0.1 + 0.3 * numpy.random.default_rng(0).normal(size=shape)
    if library == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        np, nn, compiled, graded = jax.numpy, jax.nn, jax.jit, jax.value_and_grad
    else:
        import chainrule as np

        nn, compiled, graded = np, np.jit, np.value_and_grad
    numpy.asarray(compiled(lambda x: np.sum(x * 2))(x))
    f = compiled(graded(lambda x: program(np, nn, x, n)))
    start = process_time()
    numpy.asarray(f(x)[0])
    return process_time() - start


def asked(library: str, name: str, n: int) -> float | None:
    """The same in a process of its own, the least of some; None without the library."""
    python = os.environ.get("CHAINRULE_BENCH_JAX", sys.executable)
    found: list[float] = []
    for _ in range(TURNS):
        done = subprocess.run(
            [python if library == "jax" else sys.executable, "-m", "bench.compile_time",
             library, name, str(n)],
            env={**os.environ, "CHAINRULE_CACHE_DIR": "", "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return None
        found.append(float(done.stdout))
    return min(found)


def run() -> list[Row]:
    rows: list[Row] = []
    for name, (_, _, counts) in PROGRAMS.items():
        for n in counts:
            ours, peer = asked("chainrule", name, n), asked("jax", name, n)
            assert ours is not None, f"{name}: no value"
            beside = ("", "") if peer is None else (show(peer), f"{ours / peer:.2f}")
            rows.append(Row(f"{n} times {name}: chainrule / JAX", show(ours), *beside, AIM))
    return rows


if __name__ == "__main__":
    print(first(sys.argv[1], sys.argv[2], int(sys.argv[3])))
