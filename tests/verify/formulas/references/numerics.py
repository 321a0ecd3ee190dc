"""Steps, differences, filters and averages: by exact cases, SciPy, NumPy and PyTorch."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import signal, stats
from scipy.integrate import quad, trapezoid
from scipy.ndimage import laplace
from sklearn import metrics

from tests.verify.formulas.torch_calls import tensors


def heun(y, k1, k2, h):
    yield y + h * np.average([k1, k2], axis=0)


def runge_kutta(y, k1, k2, k3, k4, h):
    """By Simpson's rule; of y' = a y it is the series of exp(a h) up to the fourth power."""
    a, ks, z = 0.7, [], 1.0
    for share in (0, h / 2, h / 2, h):
        ks.append(a * (z + share * (ks[-1] if ks else 0)))
    step = h * np.average(ks, weights=[1, 2, 2, 1])
    assert np.isclose(z + step, sum((a * h) ** n / math.factorial(n) for n in range(5)))
    yield y + h * np.average([k1, k2, k3, k4], axis=0, weights=[1, 2, 2, 1])


def verlet(x, v, a, new_a, h):
    """Half a kick, a drift, half a kick."""
    half = v + a * h / 2
    yield x + half * h, half + new_a * h / 2


def verlet_position(x, v, a, h):
    yield x + (v + a * h / 2) * h


def stormer(x, before, a, h):
    """The second difference is the acceleration."""
    new = x + (x - before) + a * h * h
    assert np.allclose((new - 2 * x + before) / h**2, a)
    yield new


def adams_bashforth(y, f, before, h):
    """The line through both slopes, integrated over the next step."""
    slope = (f - before) / h
    yield y + f * h + slope * h**2 / 2


def geometric(s, z, rate, sigma, h):
    """Its mean is that of growth at the rate."""
    factor = lambda x: math.exp((rate - sigma**2 / 2) * h + sigma * math.sqrt(h) * x)
    mean = quad(lambda x: factor(x) * stats.norm.pdf(x), -12, 12)[0]
    assert np.isclose(mean, math.exp(rate * h))
    yield s * np.vectorize(factor)(z)


def option(sign):
    """The mean of what is paid, discounted, by quadrature."""

    def one(s, k, t, rate, sigma):
        end = lambda x: s * math.exp((rate - sigma**2 / 2) * t + sigma * math.sqrt(t) * x)
        pays = lambda x: max(sign * (end(x) - k), 0) * stats.norm.pdf(x)
        edge = (math.log(k / s) - (rate - sigma**2 / 2) * t) / (sigma * math.sqrt(t))
        low, high = (edge, 12 + abs(edge)) if sign > 0 else (-12 - abs(edge), edge)
        return math.exp(-rate * t) * quad(pays, low, high, epsabs=1e-12, epsrel=1e-11)[0]

    def reference(s, k, t, rate, sigma):
        if np.ndim(s) == 0:
            yield one(s, k, t, rate, sigma)
        else:
            yield np.array([one(*x, rate, sigma) for x in zip(s, k, t, strict=True)])

    return reference


def discrete_laplacian(u, h):
    yield laplace(u, mode="wrap") / h**2
    yield laplace(u)[1:-1, 1:-1] / h**2
    yield laplace(u, mode="constant") / h**2


def second_difference(u, h):
    yield np.diff(u, 2) / h**2


def heat(u, alpha, dt, h):
    """As a matrix."""
    n, r = len(u), alpha * dt / h**2
    step = np.eye(n) + r * (np.eye(n, k=1) - 2 * np.eye(n) + np.eye(n, k=-1))
    step[0], step[-1] = np.eye(n)[0], np.eye(n)[-1]
    yield step @ u
    yield (step @ u)[1:-1]


def lorenz(state, sigma, rho, beta):
    """At rest at its three known points."""
    rest = math.sqrt(beta * abs(rho - 1))
    rows = [[sigma * (y - x), x * (rho - z) - y, x * y - beta * z] for x, y, z in state]
    if rho > 1:
        x, z = rest, rho - 1
        assert np.allclose([sigma * (x - x), x * (rho - z) - x, x * x - beta * z], 0)
    yield np.array(rows)


def prey(state, a, b, d, g):
    """`d x - g log x + b y - a log y` stays what it is."""
    rows = np.array([[a * x - b * x * y, d * x * y - g * y] for x, y in state])
    x, y = state.T
    assert np.allclose((d - g / x) * rows[:, 0] + (b - a / y) * rows[:, 1], 0)
    yield rows


def oscillator(state, mu):
    """Lienard's form: the slope of `x - x³ / 3`, times mu, damps."""
    x, v = torch.tensor(state.T, requires_grad=True)
    (slope,) = torch.autograd.grad((x - x**3 / 3).sum(), x)
    yield torch.stack([v, mu * slope * v - x], dim=1).detach().numpy()


def epidemic(state, beta, gamma):
    """Nobody is lost."""
    rows = np.array([[-beta * s * i, beta * s * i - gamma * i, gamma * i] for s, i, _ in state])
    assert np.allclose(rows.sum(axis=1), 0)
    yield rows
    new = beta * state[:, 0] * state[:, 1] / state.sum(axis=1)
    yield np.stack([-new, new - gamma * state[:, 1], gamma * state[:, 1]], axis=1)


def burgers(u, u_t, u_x, u_xx, nu):
    """A travelling front, `c - a tanh(a (x - c t) / (2 nu))`, has none."""
    x = torch.linspace(-1, 1, 7, dtype=torch.float64, requires_grad=True)
    t = torch.full_like(x, 0.2).requires_grad_()
    f = 0.4 - 0.8 * torch.tanh(0.8 * (x - 0.4 * t) / (2 * nu))
    f_x, f_t = torch.autograd.grad(f.sum(), (x, t), create_graph=True)
    (f_xx,) = torch.autograd.grad(f_x.sum(), x)
    assert torch.allclose(f_t + f * f_x - nu * f_xx, torch.zeros_like(x), atol=1e-9)
    yield u_t + u * u_x - nu * u_xx


def allen_cahn(u, u_t, u_xx, diffusion, rate):
    """By the slope of the double well `rate (u² - 1)² / 4`."""
    x = torch.tensor(u, requires_grad=True)
    (slope,) = torch.autograd.grad((rate * (x**2 - 1) ** 2 / 4).sum(), x)
    yield u_t - diffusion * u_xx + slope.numpy()


def lennard_jones(r, epsilon, sigma):
    """It is lowest, -epsilon, at `2^(1/6) sigma`."""
    f = lambda x: 4 * epsilon * ((sigma / x) ** 12 - (sigma / x) ** 6)
    assert np.isclose(f(2 ** (1 / 6) * sigma), -epsilon)
    yield f(r)


def kalman_update(x, p, z, h, r):
    """By the information form."""
    precision = np.linalg.inv(p) + h.T @ np.linalg.inv(r) @ h
    new = np.linalg.inv(precision)
    yield new @ (np.linalg.inv(p) @ x + h.T @ np.linalg.inv(r) @ z), new


def gravity(x, mass, softening, strength):
    """Minus the slope of the potential."""
    y = torch.tensor(x, requires_grad=True)
    n, total = len(x), torch.zeros((), dtype=torch.float64)
    for i in range(n):
        for j in range(i):
            d2 = ((y[i] - y[j]) ** 2).sum() + softening**2
            total = total - strength * mass[i] * mass[j] / d2.sqrt()
    (g,) = torch.autograd.grad(total, y)
    yield -g.numpy() / mass[:, None]


def averages(x, decay):
    """Linear filters."""
    zero = signal.lfilter([1 - decay], [1, -decay], x, axis=0)
    yield zero
    first, *_ = signal.lfilter([1 - decay], [1, -decay], x, axis=0, zi=decay * x[:1])
    yield first
    ones = signal.lfilter([1 - decay], [1, -decay], np.ones(len(x)))
    yield zero / ones.reshape(-1, *[1] * (x.ndim - 1))


def unbiased(average, decay, step):
    """The average of ones is 1."""
    total = sum((1 - decay) * decay**k for k in range(step))
    yield average / total


def welford(mean, squares, new, count):
    """Of so many numbers with this mean and sum of squares, and one more."""
    n = count
    total = (mean * n + new) / (n + 1)
    yield total, squares + n * (mean - total) ** 2 + (new - total) ** 2


def merged(m, v, n, other, w, k):
    """Of all numbers together."""
    total = (n * m + k * other) / (n + k)
    second = (n * (v + m**2) + k * (w + other**2)) / (n + k)
    yield total, second - total**2


def whole_ssim(x, y, c1, c2):
    both = np.cov(x.ravel(), y.ravel(), bias=True)
    light = (2 * x.mean() * y.mean() + c1) / (x.mean() ** 2 + y.mean() ** 2 + c1)
    yield light * (2 * both[0, 1] + c2) / (both[0, 0] + both[1, 1] + c2)


def ssim(m, n, v, w, cov, c1, c2):
    light = (2 * m * n + c1) / (m**2 + n**2 + c1)
    yield light * (2 * cov + c2) / (v + w + c2)


def psnr(x, y, top):
    yield 20 * np.log10(top) - 10 * np.log10(metrics.mean_squared_error(y.ravel(), x.ravel()))


def signal_ratio(x, y, eps):
    """By the angle between both: `20 log10 |cot|`."""
    cosine = (x * y).sum(axis=-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
    yield -20 * np.log10(np.abs(np.tan(np.arccos(cosine))))


def correlation(x, y, eps):
    r = stats.pearsonr(x.ravel(), y.ravel()).statistic
    yield r
    yield 1 - r


def concordance(x, y):
    """The correlation, less for other means and scales."""
    a, b = x.ravel(), y.ravel()
    r, s, t = stats.pearsonr(a, b).statistic, a.std(), b.std()
    bias = 2 / (s / t + t / s + (a.mean() - b.mean()) ** 2 / (s * t))
    yield r * bias


def bound(log_joint, log_proposal):
    w = torch.tensor(log_joint - log_proposal)
    yield (w.logsumexp(-1) - math.log(w.shape[-1])).mean().numpy()
    yield np.log(np.exp(w.numpy()).mean(axis=0)).mean()


def sample_size(log_w):
    w = torch.tensor(log_w).softmax(-1).numpy()
    yield 1 / np.einsum("...k,...k->...", w, w)


REFERENCES = {
    "Heun step": heun,
    "Runge-Kutta step": runge_kutta,
    "velocity Verlet step": verlet,
    "position of a Verlet step": verlet_position,
    "Störmer step": stormer,
    "half-implicit step of a motion": lambda x, v, a, h: [x + h * v + h**2 * a],
    "Adams-Bashforth step": adams_bashforth,
    "Euler-Maruyama step": lambda x, a, b, z, h: [x + h * (a + b * z / h**0.5)],
    "Ornstein-Uhlenbeck step": lambda x, z, theta, m, s, h: [
        (1 - theta * h) * x + theta * h * m + s * z * h**0.5
    ],
    "geometric Brownian step": geometric,
    "price of a call": option(1),
    "price of a put": option(-1),
    "price of one call": option(1),
    "discrete Laplacian": discrete_laplacian,
    "second difference": second_difference,
    "step of the heat equation": heat,
    "central difference": lambda a, b, h: [np.gradient(np.stack([b, 0 * a, a]), h, axis=0)[1]],
    "trapezoidal rule": lambda y, x: [trapezoid(y, x)],
    "energy of Hamiltonian Monte Carlo": lambda u, p: [
        u - stats.norm.logpdf(p).sum(axis=1) - p.shape[1] / 2 * np.log(2 * np.pi)
    ],
    "acceptance of Metropolis": lambda e, new: [np.exp(-np.maximum(new - e, 0))],
    "Lorenz system": lorenz,
    "predators and prey": prey,
    "van der Pol oscillator": oscillator,
    "SIR model": epidemic,
    "residual of Burgers' equation": burgers,
    "residual of the Allen-Cahn equation": allen_cahn,
    "Lennard-Jones potential": lennard_jones,
    "prediction of a Kalman filter": lambda f, x, p, q: [
        (np.einsum("ij,j->i", f, x), np.einsum("ij,jk,lk->il", f, p, f) + q)
    ],
    "update of a Kalman filter": kalman_update,
    "gravity of points": gravity,
    "exponential average": lambda m, x, d: [torch.lerp(*tensors(x, m), d).numpy()],
    "exponential averages of a series": averages,
    "exponential averages of a series by the new share": lambda x, a: averages(x, 1 - a),
    "average without bias": unbiased,
    "update of mean and squares": welford,
    "means and variances merged": merged,
    "mixup": lambda x, y, s: [torch.lerp(*tensors(y, x), s).numpy()],
    "loss of mixup": lambda x, y, s: [torch.lerp(*tensors(y, x), s).mean().numpy()],
    "structural similarity": ssim,
    "structural similarity of whole images": whole_ssim,
    "peak signal-to-noise ratio": psnr,
    "correlation": correlation,
    "scale-invariant signal-to-noise ratio": signal_ratio,
    "concordance": concordance,
    "covariance matrix": lambda x: [np.cov(x.T), np.cov(x)],
    "correlation matrix": lambda x: [np.corrcoef(x.T), np.corrcoef(x)],
    "weighted mean": lambda x, w, eps: [
        np.average(x, weights=w),
        np.average(x, weights=w, axis=-1),
    ],
    "moving average": lambda x, n: [np.convolve(x, np.full(n, 1 / n), "valid")],
    "geometric mean": lambda x: [stats.gmean(x, axis=None), stats.gmean(x, axis=-1)],
    "harmonic mean": lambda x: [stats.hmean(x, axis=None), stats.hmean(x, axis=-1)],
    "Sharpe ratio": lambda r, eps: [1 / stats.variation(r, axis=None, ddof=1)],
    "sample by mean and log-deviation": lambda m, s, z: [m + np.sqrt(np.exp(s + s)) * z],
    "sample by mean and log-variance": lambda m, v, z: [m + np.sqrt(np.exp(v)) * z],
    "importance weighted bound": bound,
    "effective sample size": sample_size,
}
