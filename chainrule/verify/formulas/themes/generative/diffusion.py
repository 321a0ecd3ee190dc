"""Diffusion and flows from noise to data: `alpha_bar` is the share of data in a square."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula, Value
from chainrule.verify.formulas.themes.functions import evenly


def _betas(steps: int, first: float, last: float) -> Iterator[Array]:
    line = evenly(first, last, int(steps))
    roots = evenly(float(np.sqrt(first)), float(np.sqrt(last)), int(steps))
    for betas in (line, roots**2):
        yield from (betas, np.cumprod(1 - betas), 1 - betas)


def _alpha_bar(betas: Array) -> Iterator[Array]:
    yield np.cumprod(1 - betas)


def _cosine_share(t: Array, s: float) -> Array:
    return np.cos((t + s) / (1 + s) * np.pi / 2) ** 2 / np.cos(s / (1 + s) * np.pi / 2) ** 2


def _cosine_bars(steps: int, s: float) -> Iterator[Array]:
    """From 0 to all steps; there may be one point more than steps, or one less between them."""
    n = int(steps)
    for grid in (np.arange(n + 1) / n, np.arange(n) / n, np.linspace(0, 1, n)):
        yield _cosine_share(grid, s)
    yield _cosine_share(np.arange(1, n + 1) / n, s)


def _cosine_betas(steps: int, s: float) -> Iterator[Array]:
    n = int(steps)
    for grid in (np.arange(n + 1) / n, np.linspace(0, 1, n + 1), np.linspace(0, 1, n)):
        bars = _cosine_share(grid, s)
        betas = 1 - bars[1:] / bars[:-1]
        yield from (np.minimum(betas, 0.999), np.clip(betas, 1e-4, 0.9999), np.minimum(betas, 0.02))
        yield from (np.clip(betas, 1e-4, 0.999), np.clip(betas, 1e-4, 0.02))
        yield np.clip(betas, 0, 0.9999)


def _mix(x: Array, y: Array, bar: Array, sign: float) -> Array:
    return np.sqrt(bar) * x + sign * np.sqrt(1 - bar) * y


def _at_steps(bars: Array, t: Array, like: Array) -> Array:
    """(steps), (n) -> (n, 1, ...) that goes with (n, ...)."""
    return bars[t.astype(int)].reshape(-1, *[1] * (like.ndim - 1))


def _noised(data: Array, noise: Array, alpha_bar: float) -> Iterator[Array]:
    yield _mix(data, noise, np.asarray(alpha_bar), 1)


def _noised_below(data: Array, noise: Array, alpha_bar: float) -> Iterator[Array]:
    """By the process whose variance stays below that of the others."""
    yield np.sqrt(alpha_bar) * data + (1 - alpha_bar) * noise


def _velocity(data: Array, noise: Array, alpha_bar: float) -> Iterator[Array]:
    yield _mix(noise, data, np.asarray(alpha_bar), -1)


def _data_of_noise(noisy: Array, noise: Array, alpha_bar: float) -> Iterator[Array]:
    data = (noisy - np.sqrt(1 - alpha_bar) * noise) / np.sqrt(alpha_bar)
    yield from (data, np.clip(data, -1, 1))


def _noise_of_data(noisy: Array, data: Array, alpha_bar: float) -> Iterator[Array]:
    yield (noisy - np.sqrt(alpha_bar) * data) / np.sqrt(1 - alpha_bar)


def _data_of_velocity(noisy: Array, velocity: Array, alpha_bar: float) -> Iterator[Array]:
    data = _mix(noisy, velocity, np.asarray(alpha_bar), -1)
    yield from (data, np.clip(data, -1, 1))


def _noise_of_velocity(noisy: Array, velocity: Array, alpha_bar: float) -> Iterator[Array]:
    yield _mix(velocity, noisy, np.asarray(alpha_bar), 1)


def _ddim(noisy: Array, noise: Array, alpha_bar: float, previous_bar: float) -> Iterator[Array]:
    """Without new noise."""
    data = (noisy - np.sqrt(1 - alpha_bar) * noise) / np.sqrt(alpha_bar)
    for x in (data, np.clip(data, -1, 1)):
        yield _mix(x, noise, np.asarray(previous_bar), 1)


def _ddpm_mean(noisy: Array, noise: Array, beta: float, alpha_bar: float) -> Iterator[Array]:
    yield (noisy - beta / np.sqrt(1 - alpha_bar) * noise) / np.sqrt(1 - beta)


def _ddpm_mean_alpha(noisy: Array, noise: Array, alpha: float, alpha_bar: float) -> Iterator[Array]:
    yield from _ddpm_mean(noisy, noise, 1 - alpha, alpha_bar)


def _ddpm_step(
    noisy: Array, noise: Array, new_noise: Array, beta: float, alpha_bar: float
) -> Iterator[Array]:
    """The new noise has the variance beta, or that of the posterior, or none at the last step."""
    before = alpha_bar / (1 - beta)
    for mean in _ddpm_mean(noisy, noise, beta, alpha_bar):
        yield mean + np.sqrt(beta) * new_noise
        yield mean + np.sqrt(beta * max(1 - before, 0.0) / (1 - alpha_bar)) * new_noise
        yield mean


def _posterior_mean(
    data: Array, noisy: Array, beta: float, alpha_bar: float, previous_bar: float
) -> Iterator[Array]:
    x = np.sqrt(previous_bar) * beta / (1 - alpha_bar) * data
    yield x + np.sqrt(1 - beta) * (1 - previous_bar) / (1 - alpha_bar) * noisy


def _bars(betas: Array) -> tuple[Array, Array]:
    bars = np.cumprod(1 - betas)
    return bars, np.concatenate([[1.0], bars[:-1]])


def _posterior_variances(betas: Array) -> Iterator[Array]:
    bars, before = _bars(betas)
    variances = betas * (1 - before) / (1 - bars)
    later = np.concatenate([variances[1:2], variances[1:]])
    yield from (variances, later, variances[1:], np.sqrt(variances), np.sqrt(later), np.log(later))
    yield np.log(np.maximum(variances, 1e-20))


def _posterior_data_shares(betas: Array) -> Iterator[Array]:
    bars, before = _bars(betas)
    yield betas * np.sqrt(before) / (1 - bars)


def _posterior_noisy_shares(betas: Array) -> Iterator[Array]:
    bars, before = _bars(betas)
    yield (1 - before) * np.sqrt(1 - betas) / (1 - bars)


def _langevin(x: Array, score: Array, noise: Array, step: float) -> Iterator[Array]:
    yield x + step * score + np.sqrt(2 * step) * noise
    yield x + 0.5 * step * score + np.sqrt(step) * noise
    yield x + 0.5 * step**2 * score + step * noise


def _tables(value: Value) -> Value:
    """A formula at one `alpha_bar`, of cases that have each their own from a table."""

    def of(x: Array, y: Array, t: Array, alpha_bar: Array) -> Iterator[Array]:
        yield from value(x, y, _at_steps(alpha_bar, t, x))

    return of


def _everywhere(
    name: str, words: tuple[str, ...], takes: tuple[str, str], value: Value, source: str
) -> Iterator[Formula]:
    """Of one step; of cases at steps of their own, vectors or images."""
    yield Formula(name, words, f"{takes[0]}[*], {takes[1]}[*], alpha_bar[]", value, source)
    for axes in ("n d", "n c h w"):
        arrays = ", ".join(f"{x}[{axes}]" for x in takes)
        yield Formula(name, words, f"{arrays}, t[n]:int, alpha_bar[s]", _tables(value), source)


_HO = "Ho, Jain and Abbeel, Denoising diffusion probabilistic models, 2020"
_SALIMANS = "Salimans and Ho, Progressive distillation for fast sampling of diffusion models, 2022"
_NICHOL = "Nichol and Dhariwal, Improved denoising diffusion probabilistic models, 2021"
_SONG = "Song, Meng and Ermon, Denoising diffusion implicit models, 2021, equation 12"
_NOISY = ("alpha*", "alphas", "diffus*", "noise*", "sample", "cumprod", "bar", "abar")

ROWS = (
    Formula("linear noise schedule", ("beta*", "schedule"), "steps[]:int, first[], last[]",
            _betas, f"{_HO}, section 4"),
    Formula("shares of data by noise rates", ("alpha*", "cumprod", "bar", "abar"), "betas[s]",
            _alpha_bar, f"{_HO}, equation 4"),
    Formula("cosine noise schedule", ("cosine", "alpha*", "schedule"), "steps[]:int, offset[]",
            _cosine_bars, f"{_NICHOL}, equation 17"),
    Formula("rates of the cosine noise schedule", ("cosine", "beta*", "schedule"),
            "steps[]:int, offset[]", _cosine_betas, f"{_NICHOL}, section 3.2"),
    *_everywhere("noised data", _NOISY, ("data", "noise"), _noised, f"{_HO}, equation 4"),
    *_everywhere("velocity of noise and data", ("v", "velocity", "vpred*", "target"),
                 ("data", "noise"), _velocity, f"{_SALIMANS}, section 4"),
    *_everywhere("data by predicted noise", _NOISY, ("noisy", "noise"), _data_of_noise,
                 f"{_HO}, equation 15"),
    *_everywhere("noise by predicted data", _NOISY, ("noisy", "data"), _noise_of_data,
                 f"{_HO}, equation 4"),
    *_everywhere("data by predicted velocity", ("v", "velocity", "vpred*"),
                 ("noisy", "velocity"), _data_of_velocity, f"{_SALIMANS}, appendix D"),
    *_everywhere("noise by predicted velocity", ("v", "velocity", "vpred*"),
                 ("noisy", "velocity"), _noise_of_velocity, f"{_SALIMANS}, appendix D"),
    Formula("DDIM step", ("ddim*", "prev*", "alpha*"),
            "noisy[*], noise[*], alpha_bar[], previous_bar[]", _ddim, _SONG),
    Formula("mean of a DDPM step", _NOISY, "noisy[*], noise[*], beta[], alpha_bar[]",
            _ddpm_mean, f"{_HO}, equation 11"),
    Formula("mean of a DDPM step by alpha", _NOISY, "noisy[*], noise[*], alpha[], alpha_bar[]",
            _ddpm_mean_alpha, f"{_HO}, equation 11"),
    Formula("DDPM step", _NOISY, "noisy[*], noise[*], new_noise[*], beta[], alpha_bar[]",
            _ddpm_step, f"{_HO}, algorithm 2"),
    Formula("posterior mean", ("posterior*", "prev*", "coef*"),
            "data[*], noisy[*], beta[], alpha_bar[], previous_bar[]", _posterior_mean,
            f"{_HO}, equation 7"),
    Formula("posterior variances", ("posterior*", "var*"), "betas[s]", _posterior_variances,
            f"{_HO}, equation 7"),
    Formula("shares of data in the posterior", ("posterior*", "coef*"), "betas[s]",
            _posterior_data_shares, f"{_HO}, equation 7"),
    Formula("shares of noisy data in the posterior", ("posterior*", "coef*"), "betas[s]",
            _posterior_noisy_shares, f"{_HO}, equation 7"),
    Formula("Langevin step", ("langevin*", "sgld", "mcmc", "score*"),
            "x[*], score[*], noise[*], step[]", _langevin,
            "Welling and Teh, Bayesian learning via stochastic gradient Langevin dynamics, 2011"),
    Formula("data noised by the sub-VP process", ("subvp*", "sub"),
            "data[*], noise[*], alpha_bar[]", _noised_below, "Song et al., Score-based "
            "generative modeling through stochastic differential equations, 2021, equation 29"),
)  # fmt: skip
"""Rows of this theme."""
