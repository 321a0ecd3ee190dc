"""Special functions whose values are SciPy's, and their first two derivatives, against mpmath.

A derivative is a sum of neighbours, which may cancel: errors are relative to the larger of the
result and of the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import chainrule as cr
from chainrule.ops.special import bessel, incomplete, polynomials
from tests.sampling import sampled


@dataclass(frozen=True)
class Case:
    """A function of x, what mpmath says it is, where x lies, and the bound of its error."""

    ours: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    low: float
    high: float
    bound: float = 1e-12


def _of_order(name: str, v: float) -> Case:
    exact = getattr(mp, "bessel" + name[0])
    return Case(partial(getattr(bessel, name), v), lambda x: exact(v, x), 0.2, 40)


def _scaled(v: float) -> Case:
    return Case(partial(bessel.kve, v), lambda x: mp.exp(x) * mp.besselk(v, x), 0.2, 40)


def _gamma(a: float) -> dict[str, Case]:
    reach = (0.05 * a, 3 * a + 5)
    below: Any = lambda x: mp.gammainc(a, 0, x, regularized=True)
    above: Any = lambda x: mp.gammainc(a, x, regularized=True)
    return {
        f"gammainc of shape {a}": Case(partial(incomplete.gammainc, a), below, *reach, 1e-13),
        f"gammaincc of shape {a}": Case(partial(incomplete.gammaincc, a), above, *reach, 1e-13),
    }


def _beta(a: float, b: float) -> dict[str, Case]:
    below: Any = lambda x: mp.betainc(a, b, 0, x, regularized=True)
    above: Any = lambda x: mp.betainc(a, b, x, 1, regularized=True)
    return {
        f"betainc of shapes {a} and {b}": Case(
            partial(incomplete.betainc, a, b), below, 0.02, 0.97, 2e-13
        ),
        f"betaincc of shapes {a} and {b}": Case(
            partial(incomplete.betaincc, a, b), above, 0.02, 0.97, 2e-13
        ),
    }


def _polynomial(name: str, exact: Callable[[int, Any], Any]) -> dict[str, Case]:
    f = getattr(polynomials, name)
    return {
        f"{name} of degree {n}": Case(lambda x, n=n: f(x, n), partial(exact, n), -0.95, 0.93, 1e-13)
        for n in (0, 1, 2, 5)
    }


def _third(n: int, x: Any) -> Any:
    """V_n of an angle: cos((n + 1/2) t) / cos(t / 2), x = cos t."""
    t = mp.acos(x)
    return mp.cos((n + 0.5) * t) / mp.cos(t / 2)


def _fourth(n: int, x: Any) -> Any:
    """W_n of an angle: sin((n + 1/2) t) / sin(t / 2), x = cos t."""
    t = mp.acos(x)
    return mp.sin((n + 0.5) * t) / mp.sin(t / 2)


def _hermite_e(n: int, x: Any) -> Any:
    return mp.hermite(n, x / mp.sqrt(2)) / mp.mpf(2) ** (mp.mpf(n) / 2)


def _inner(f: Any) -> Any:
    """The same polynomial of an x that 2 x - 1 takes to where the angle is real."""
    return lambda n, x: f(n, 2 * x - 1)


CASES: dict[str, Case] = {
    "j0": Case(bessel.j0, lambda x: mp.besselj(0, x), -40, 40),
    "j1": Case(bessel.j1, lambda x: mp.besselj(1, x), -40, 40),
    "y0": Case(bessel.y0, lambda x: mp.bessely(0, x), 0.1, 40),
    "y1": Case(bessel.y1, lambda x: mp.bessely(1, x), 0.1, 40),
    "k0": Case(bessel.k0, lambda x: mp.besselk(0, x), 0.1, 40),
    "k1": Case(bessel.k1, lambda x: mp.besselk(1, x), 0.1, 40),
    "k0e": Case(bessel.k0e, lambda x: mp.exp(x) * mp.besselk(0, x), 0.1, 40),
    "k1e": Case(bessel.k1e, lambda x: mp.exp(x) * mp.besselk(1, x), 0.1, 40),
    **{
        f"{n} of order {v}": _of_order(n, v)
        for n in ("jv", "yv", "iv", "kv")
        for v in (0.5, 2.3, 7)
    },
    **{f"kve of order {v}": _scaled(v) for v in (0.5, 2.3, 7)},
    "airy_ai": Case(bessel.airy_ai, mp.airyai, -10, 10),
    **{k: c for a in (0.4, 3.7, 9.9, 10.3, 60.0) for k, c in _gamma(a).items()},
    **{
        k: c
        for a, b in ((0.4, 0.7), (3.7, 9.9), (10.3, 2.0), (60.0, 45.0))
        for k, c in _beta(a, b).items()
    },
    **{
        f"zeta of exponent {s}": Case(
            partial(incomplete.zeta, s), lambda x, s=s: mp.zeta(s, x), 0.1, 9, 1e-13
        )
        for s in (1.5, 3.2)
    },
    **_polynomial("chebyshev_polynomial_t", mp.chebyt),
    **_polynomial("chebyshev_polynomial_u", mp.chebyu),
    **_polynomial("chebyshev_polynomial_v", _third),
    **_polynomial("chebyshev_polynomial_w", _fourth),
    **_polynomial("hermite_polynomial_h", mp.hermite),
    **_polynomial("hermite_polynomial_he", _hermite_e),
    **_polynomial("laguerre_polynomial_l", lambda n, x: mp.laguerre(n, 0, x)),
    **_polynomial("legendre_polynomial_p", mp.legendre),
}
SHIFTED = {"t": mp.chebyt, "u": mp.chebyu, "v": _third, "w": _fourth}
CASES |= {
    f"shifted {kind}": Case(
        lambda x, k=kind: getattr(polynomials, f"shifted_chebyshev_polynomial_{k}")(x, 4),
        partial(_inner(f), 4),
        0.03,
        0.96,
        1e-13,
    )
    for kind, f in SHIFTED.items()
}


def _derivatives(f: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """The value and the first two derivatives, at each element."""

    def slope(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return cr.grad(lambda x: cr.sum(f(x)))

    return lambda x: [f(x), slope(f)(x), slope(slope(f))(x)]


def errors(case: Case, ours: Callable[[Any], list[Any]], dtype: Any, count: int) -> list[float]:
    """The largest error of the value and of each derivative, in units of its size."""
    x = np.random.default_rng(0).uniform(case.low, case.high, count).astype(dtype)
    found = [np.asarray(y, np.float64) for y in ours(cr.tensor(x))]
    worst = [0.0, 0.0, 0.0]
    with mp.workdps(40):
        for i, point in enumerate(x.tolist()):
            exact = mp.taylor(case.exact, mp.mpf(point), 2)
            exact = [exact[0], exact[1], 2 * exact[2]]
            size = max(abs(e) for e in exact)
            for k in range(3):
                error = abs(mp.mpf(float(found[k][i])) - exact[k]) / (size or 1)
                worst[k] = max(worst[k], float(error))
    return worst


@sampled(one_in=8)
@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_are_within_the_bound(name: str):
    case = CASES[name]
    found = errors(case, _derivatives(case.ours), np.float64, 3)
    assert max(found) <= case.bound, f"{name}: {found}"


@sampled(one_in=12)
@pytest.mark.parametrize("name", CASES)
def test_so_are_those_of_compiled_code(name: str):
    case = CASES[name]
    found = errors(case, cr.jit(_derivatives(case.ours)), np.float64, 4)
    assert max(found) <= case.bound, f"{name}: {found}"


@sampled(one_in=12)
@pytest.mark.parametrize("name", CASES)
def test_float32_keeps_its_digits(name: str):
    case = CASES[name]
    found = errors(case, _derivatives(case.ours), np.float32, 4)
    assert max(found) <= 4e-6, f"{name}: {found}"


@pytest.mark.parametrize("name", ["j0", "gammainc of shape 3.7", "airy_ai"])
def test_a_derivative_that_is_off_by_a_thousandth_is_seen(name: str):
    case = CASES[name]

    def wrong(x: Any) -> list[Any]:
        y, slope, bend = _derivatives(case.ours)(x)
        return [y, slope * 1.001, bend]

    assert errors(case, wrong, np.float64, 6)[1] > case.bound


def test_a_degree_that_is_no_whole_number_is_refused():
    with pytest.raises(cr.errors.ConfigError, match="legendre_polynomial_p: the degree"):
        cr.special.legendre_polynomial_p(cr.ones((2,)), 1.5)
