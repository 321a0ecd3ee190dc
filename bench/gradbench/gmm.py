"""gmm: the log posterior of a mixture of Gaussians with a Wishart prior, and its gradient.

Component k has weight softmax(alpha)_k, mean mu_k and precision Q_k^T Q_k, where Q_k is lower
triangular, its diagonal exp(q_k), what is below it l_k, column by column. Source: Srajer, Kukelova,
Fitzgibbon, A Benchmark of Selected Algorithmic Differentiation Tools (arXiv:1807.10129), section
4.1, with the suite's corrections of signs and of the prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import multigammaln

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array


def places(d: int) -> np.ndarray[Any, Any]:
    """Where in (d diagonal, d (d - 1) / 2 below it, one 0) each element of Q is: (d, d)."""
    table = np.full((d, d), d + d * (d - 1) // 2)
    columns, rows = np.triu_indices(d, 1)
    table[rows, columns] = d + np.arange(len(rows))
    table[np.arange(d), np.arange(d)] = np.arange(d)
    return table


def log_posterior(
    alpha: Any, mu: Any, q: Any, l: Any, x: Any, gamma: Any, m: Any, constant: Any
) -> Any:
    """Shapes alpha (k), mu (k, d), q (k, d), l (k, d (d - 1) / 2), x (n, d), the others ()."""
    k, d = mu.shape
    parts = cr.concat([cr.exp(q), l, cr.zeros((k, 1), dtype=q.dtype)], axis=1)
    Q = cr.take(parts, places(d), axis=1)
    log_det = cr.sum(q, axis=1)
    z = (x[None] - mu[:, None]) @ Q.mT
    beta = (alpha + log_det)[:, None] - cr.sum(z * z, axis=2) / 2
    likelihood = cr.sum(cr.logsumexp(beta, axis=0)) - len(x) * cr.logsumexp(alpha)
    prior = m * cr.sum(log_det) - gamma * gamma / 2 * cr.sum(Q * Q)
    return likelihood + prior + constant


def functions(jit: Jit) -> dict[str, Function]:
    independent = (0, 1, 2, 3)
    return {"objective": jit(log_posterior), "jacobian": jit(cr.grad(log_posterior, independent))}


def read(message: Input) -> tuple[Any, ...]:
    d, k, n, m, gamma = (message[name] for name in ("d", "k", "n", "m", "gamma"))
    freedom = d + m + 1
    wishart = freedom * d * np.log(gamma / np.sqrt(2)) - multigammaln(freedom / 2, d)
    constant = k * wishart - n * d / 2 * np.log(2 * np.pi)
    arrays = [array(message[name]) for name in ("alpha", "mu", "q", "l", "x")]
    return (*arrays, array(gamma), array(m), array(constant))


def make(rng: np.random.Generator, d: int, k: int, n: int) -> Input:
    return {
        "d": d,
        "k": k,
        "n": n,
        "m": 0,
        "gamma": 1.0,
        "x": rng.normal(size=(n, d)),
        "alpha": rng.normal(size=k),
        "mu": rng.uniform(size=(k, d)),
        "q": rng.normal(size=(k, d)),
        "l": rng.normal(size=(k, d * (d - 1) // 2)),
    }


def write(args: tuple[Any, ...], name: str, result: Any) -> Any:
    if name == "objective":
        return float(result)
    return dict(
        zip(("alpha", "mu", "q", "l"), [np.asarray(r).tolist() for r in result], strict=True)
    )


PROBLEM = Problem(
    "gmm",
    functions,
    read,
    make,
    ({"d": 2, "k": 5, "n": 1000}, {"d": 10, "k": 25, "n": 1000}, {"d": 32, "k": 25, "n": 1000}),
    ("jacobian",),
    write,
)
