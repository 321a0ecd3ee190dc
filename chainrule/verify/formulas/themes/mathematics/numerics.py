"""Steps in time, differences in space, and the equations that are solved by them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula


def _heun(y: Array, k1: Array, k2: Array, h: float) -> Iterator[Array]:
    yield y + 0.5 * h * (k1 + k2)


def _runge_kutta(y: Array, k1: Array, k2: Array, k3: Array, k4: Array, h: float) -> Iterator[Array]:
    """Slopes, or steps that have been multiplied by the width."""
    step = (k1 + 2 * k2 + 2 * k3 + k4) / 6
    yield from (y + h * step, y + step)


def _verlet(
    x: Array, v: Array, a: Array, new_a: Array, h: float
) -> Iterator[Array | tuple[Array, Array]]:
    new_x, new_v = x + v * h + 0.5 * a * h**2, v + 0.5 * (a + new_a) * h
    yield from ((new_x, new_v), new_v)


def _verlet_position(x: Array, v: Array, a: Array, h: float) -> Iterator[Array]:
    yield x + v * h + 0.5 * a * h**2


def _symplectic(x: Array, v: Array, a: Array, h: float) -> Iterator[Array]:
    """Half-implicit: the new velocity moves."""
    yield x + (v + a * h) * h


def _stormer(x: Array, before: Array, a: Array, h: float) -> Iterator[Array]:
    yield 2 * x - before + a * h**2


def _adams_bashforth(y: Array, f: Array, before: Array, h: float) -> Iterator[Array]:
    yield y + h * (1.5 * f - 0.5 * before)


def _euler_maruyama(
    x: Array, drift: Array, spread: Array, noise: Array, h: float
) -> Iterator[Array]:
    yield x + drift * h + spread * np.sqrt(h) * noise


def _ornstein_uhlenbeck(
    x: Array, noise: Array, theta: float, mean: float, sigma: float, h: float
) -> Iterator[Array]:
    yield x + theta * (mean - x) * h + sigma * np.sqrt(h) * noise


def _geometric_motion(
    s: Array, noise: Array, rate: float, sigma: float, h: float
) -> Iterator[Array]:
    yield s * np.exp((rate - 0.5 * sigma**2) * h + sigma * np.sqrt(h) * noise)


def _normal_cdf(x: Array) -> Array:
    return 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / np.sqrt(2)))


def _prices(
    spot: Array, strike: Array, maturity: Array, rate: float, sigma: float
) -> tuple[Array, Array]:
    root = sigma * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * maturity) / root
    later = strike * np.exp(-rate * maturity)
    call = spot * _normal_cdf(d1) - later * _normal_cdf(d1 - root)
    return call, call - spot + later


def _call(
    spot: Array, strike: Array, maturity: Array, rate: float, sigma: float
) -> Iterator[Array]:
    yield _prices(spot, strike, maturity, rate, sigma)[0]


def _put(spot: Array, strike: Array, maturity: Array, rate: float, sigma: float) -> Iterator[Array]:
    yield _prices(spot, strike, maturity, rate, sigma)[1]


def _call_number(
    spot: float, strike: float, maturity: float, rate: float, sigma: float
) -> Iterator[Array]:
    s, k, t = (np.asarray(x) for x in (spot, strike, maturity))
    yield from _call(s, k, t, rate, sigma)


def _laplacian(u: Array, h: float) -> Iterator[Array]:
    """With a periodic edge, inside, or with zeros around."""
    for p in (np.pad(u, 1, mode="wrap"), u, np.pad(u, 1)):
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        yield (around - 4 * p[1:-1, 1:-1]) / h**2


def _second_difference(u: Array, h: float) -> Iterator[Array]:
    for p in (np.pad(u, 1, mode="wrap"), u, np.pad(u, 1)):
        yield (p[2:] - 2 * p[1:-1] + p[:-2]) / h**2


def _heat_step(u: Array, alpha: float, dt: float, h: float) -> Iterator[Array]:
    """One step; the ends stay, or the edge is periodic."""
    for p in (np.pad(u, 1, mode="wrap"), u):
        inside = p[1:-1] + alpha * dt / h**2 * (p[2:] - 2 * p[1:-1] + p[:-2])
        yield inside
        if p is u:
            yield np.concatenate([u[:1], inside, u[-1:]])


def _central_difference(above: Array, below: Array, h: float) -> Iterator[Array]:
    yield (above - below) / (2 * h)


def _trapezoids(y: Array, x: Array) -> Iterator[Array]:
    yield np.asarray((0.5 * (y[1:] + y[:-1]) * np.diff(x)).sum())


def _energy(potential: Array, momentum: Array) -> Iterator[Array]:
    yield potential + 0.5 * (momentum**2).sum(axis=-1)


def _acceptance(energy: Array, new_energy: Array) -> Iterator[Array]:
    yield np.minimum(1.0, np.exp(energy - new_energy))


def _lorenz(state: Array, sigma: float, rho: float, beta: float) -> Iterator[Array]:
    x, y, z = state[..., 0], state[..., 1], state[..., 2]
    yield np.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z], axis=-1)


def _predator_prey(
    state: Array, alpha: float, beta: float, delta: float, gamma: float
) -> Iterator[Array]:
    x, y = state[..., 0], state[..., 1]
    yield np.stack([alpha * x - beta * x * y, delta * x * y - gamma * y], axis=-1)


def _van_der_pol(state: Array, mu: float) -> Iterator[Array]:
    x, v = state[..., 0], state[..., 1]
    yield np.stack([v, mu * (1 - x**2) * v - x], axis=-1)


def _epidemic(state: Array, beta: float, gamma: float) -> Iterator[Array]:
    """Of shares, or of people."""
    s, i, r = state[..., 0], state[..., 1], state[..., 2]
    for n in (1.0, s + i + r):
        new, healed = beta * s * i / n, gamma * i
        yield np.stack([-new, new - healed, healed], axis=-1)


def _burgers(u: Array, u_t: Array, u_x: Array, u_xx: Array, viscosity: float) -> Iterator[Array]:
    r = u_t + u * u_x - viscosity * u_xx
    yield from (r, (r**2).mean(), np.asarray((r**2).sum()))


def _allen_cahn(
    u: Array, u_t: Array, u_xx: Array, diffusion: float, rate: float
) -> Iterator[Array]:
    r = u_t - diffusion * u_xx + rate * (u**3 - u)
    yield from (r, (r**2).mean(), np.asarray((r**2).sum()))


def _lennard_jones(r: Array, epsilon: float, sigma: float) -> Iterator[Array]:
    s = (sigma / r) ** 6
    yield from (4 * epsilon * (s**2 - s), epsilon * (s**2 - 2 * s))


def _predicted_state(
    f: Array, x: Array, p: Array, q: Array
) -> Iterator[tuple[Array, Array] | Array]:
    yield from ((f @ x, f @ p @ f.T + q), f @ p @ f.T + q)


def _corrected_state(
    x: Array, p: Array, z: Array, h: Array, r: Array
) -> Iterator[tuple[Array, Array] | Array]:
    """The covariance as in textbooks, or in Joseph's form, which is the same."""
    gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
    new_x, new_p = x + gain @ (z - h @ x), p - gain @ h @ p
    yield from ((new_x, new_p), new_x, new_p)


def _gravity(x: Array, mass: Array, softening: float, strength: float) -> Iterator[Array]:
    """Accelerations; the softening as a length or as its square."""
    off = x[None] - x[:, None]
    for s in (softening**2, softening):
        cube = ((off**2).sum(axis=-1) + s) ** 1.5
        yield strength * (off * (mass[None, :] / cube)[..., None]).sum(axis=1)


_HAIRER = "Hairer, Nørsett and Wanner, Solving ordinary differential equations I, 1993"
_CONTRACT = "spot[n], strike[n], maturity[n], rate[], sigma[]"
_OPTION = ("black*", "scholes*", "bs", "option*", "strike*", "price*", "d1")
_BLACK = "Black and Scholes, The pricing of options and corporate liabilities, 1973, equation 13"
_KALMAN = "Kalman, A new approach to linear filtering and prediction problems, 1960"
_KLOEDEN = "Kloeden and Platen, Numerical solution of stochastic differential equations, 1992"
_VERLET = "Verlet 1967; Swope et al. 1982"
_NEAL = "Neal, MCMC using Hamiltonian dynamics, 2011"
_RAISSI = "Raissi, Perdikaris and Karniadakis, Physics-informed neural networks, 2019"

ROWS = (
    Formula("Heun step", ("heun*", "k1", "rk2*"), "y[*], k1[*], k2[*], h[]", _heun, _HAIRER),
    Formula("Runge-Kutta step", ("rk4*", "runge*", "kutta", "k4"),
            "y[*], k1[*], k2[*], k3[*], k4[*], h[]", _runge_kutta, "Kutta 1901"),
    Formula("velocity Verlet step", ("verlet*", "leapfrog*"),
            "x[*], v[*], a[*], new_a[*], h[]", _verlet, _VERLET),
    Formula("position of a Verlet step", ("verlet*", "leapfrog*"),
            "x[*], v[*], a[*], h[]", _verlet_position, _VERLET),
    Formula("Störmer step", ("verlet*", "stormer*", "wave*", "prev*"),
            "x[*], before[*], a[*], h[]", _stormer, _VERLET),
    Formula("Adams-Bashforth step", ("adams*", "bashforth", "ab2"),
            "y[*], f[*], before[*], h[]", _adams_bashforth, _HAIRER),
    Formula("Euler-Maruyama step", ("maruyama*", "sde*", "drift*", "diffusion*"),
            "x[*], drift[*], spread[*], noise[*], h[]", _euler_maruyama, _KLOEDEN),
    Formula("Ornstein-Uhlenbeck step", ("ou*", "ornstein*", "uhlenbeck*", "theta"),
            "x[*], noise[*], theta[], mean[], sigma[], h[]", _ornstein_uhlenbeck, _KLOEDEN),
    Formula("geometric Brownian step", ("gbm*", "brown*", "spot", "drift", "price*"),
            "s[*], noise[*], rate[], sigma[], h[]", _geometric_motion, _KLOEDEN),
    Formula("price of a call", (*_OPTION, "call*"), _CONTRACT, _call, _BLACK),
    Formula("price of a put", (*_OPTION, "put*"), _CONTRACT, _put, _BLACK),
    Formula("price of one call", (*_OPTION, "call*"), _CONTRACT.replace("[n]", "[]"),
            _call_number, _BLACK),
    Formula("discrete Laplacian", ("laplac*", "lap", "stencil"), "u[n m], h[]", _laplacian,
            "LeVeque, Finite difference methods, 2007, equation 3.9"),
    Formula("second difference", ("laplac*", "second", "xx", "uxx", "d2*"), "u[n], h[]",
            _second_difference, "LeVeque, Finite difference methods, 2007, equation 1.13"),
    Formula("step of the heat equation", ("heat*", "diffus*"), "u[n], alpha[], dt[], h[]",
            _heat_step, "LeVeque, Finite difference methods, 2007, equation 9.5"),
    Formula("central difference", ("central*", "finite*", "fd", "numgrad*", "numerical"),
            "above[*], below[*], h[]", _central_difference,
            "LeVeque, Finite difference methods, 2007, equation 1.3", "scale"),
    Formula("trapezoidal rule", ("trapez*", "trapz*", "integr*"), "y[n], x[n]", _trapezoids,
            "Newton and Cotes"),
    Formula("energy of Hamiltonian Monte Carlo", ("hmc*", "hamilton*"),
            "potential[n], momentum[n d]", _energy, f"{_NEAL}, equation 2.7"),
    Formula("acceptance of Metropolis", ("accept*", "metropolis*", "mh"),
            "energy[*], new_energy[*]", _acceptance, _NEAL),
    Formula("Lorenz system", ("lorenz*", "rho"), "state[n 3], sigma[], rho[], beta[]", _lorenz,
            "Lorenz, Deterministic nonperiodic flow, 1963, equations 25 to 27"),
    Formula("predators and prey", ("lotka*", "volterra*", "prey*", "predator*"),
            "state[n 2], alpha[], beta[], delta[], gamma[]", _predator_prey,
            "Lotka 1925; Volterra 1926"),
    Formula("van der Pol oscillator", ("vdp*", "pol", "vanderpol*", "mu"), "state[n 2], mu[]",
            _van_der_pol, "van der Pol, On relaxation-oscillations, 1926"),
    Formula("SIR model", ("sir*", "infect*", "epidem*", "suscept*"),
            "state[n 3], beta[], gamma[]", _epidemic, "Kermack and McKendrick, A contribution to "
            "the mathematical theory of epidemics, 1927"),
    Formula("residual of Burgers' equation", ("burgers*",),
            "u[*], u_t[*], u_x[*], u_xx[*], viscosity[]", _burgers, f"{_RAISSI}, appendix A"),
    Formula("residual of the Allen-Cahn equation", ("allen*", "cahn"),
            "u[*], u_t[*], u_xx[*], diffusion[], rate[]", _allen_cahn, f"{_RAISSI}, section 3.2"),
    Formula("Lennard-Jones potential", ("lennard*", "lj*", "jones"),
            "r[*], epsilon[], sigma[]", _lennard_jones, "Lennard-Jones 1924", "scale"),
    Formula("prediction of a Kalman filter", ("kalman*", "kf"),
            "f[d d], x[d], covariance[d d], process_covariance[d d]", _predicted_state, _KALMAN),
    Formula("update of a Kalman filter", ("kalman*", "kf"),
            "x[d], covariance[d d], z[m], h[m d], noise_covariance[m m]", _corrected_state,
            _KALMAN),
    Formula("gravity of points", ("gravit*", "nbody*", "soft*", "mass*"),
            "x[n d], mass[n], softening[], strength[]", _gravity, "Aarseth, Dynamical evolution "
            "of clusters of galaxies, 1963", "factor"),
    Formula("half-implicit step of a motion", ("euler*", "symplectic*", "accel*", "velocit*"),
            "x[*], v[*], a[*], h[]", _symplectic, "Hairer, Lubich and Wanner, Geometric "
            "numerical integration, 2006, section I.1"),
)  # fmt: skip
"""Rows of this theme."""
