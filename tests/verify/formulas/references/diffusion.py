"""Diffusion, by recursions, Gaussian algebra and properties of the solutions."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from tests.verify.formulas.torch_calls import tensors


def bars_of(betas):
    """A product, step by step."""
    out, share = [], 1.0
    for b in betas:
        share *= 1 - b
        out.append(share)
    return np.array(out)


def linear(steps, first, last):
    yield torch.linspace(first, last, steps, dtype=torch.float64).numpy()
    yield torch.linspace(first**0.5, last**0.5, steps, dtype=torch.float64).numpy() ** 2


def cosine(steps, s):
    """As in the authors' code."""
    f = lambda t: np.cos((t / steps + s) / (1 + s) * np.pi / 2) ** 2
    yield np.array([f(t) / f(0) for t in range(steps + 1)])


def cosine_betas(steps, s):
    f = lambda t: np.cos((t + s) / (1 + s) * np.pi / 2) ** 2
    yield np.array([min(1 - f((i + 1) / steps) / f(i / steps), 0.999) for i in range(steps)])


def at(formula):
    """A formula of one share of data, for each case by its step."""

    def reference(x, y, *rest):
        if len(rest) == 1:
            yield formula(x, y, rest[0])
        else:
            t, bars = rest
            yield np.stack([formula(a, b, bars[k]) for a, b, k in zip(x, y, t, strict=True)])

    return reference


def angle(bar):
    """Shares of data and noise are a cosine and a sine."""
    return np.arccos(np.sqrt(bar))


def noised(x, e, bar):
    return np.cos(angle(bar)) * x + np.sin(angle(bar)) * e


def velocity(x, e, bar):
    """What noised data changes by with the angle."""
    h, a = 1e-5, angle(bar)
    ahead, behind = (np.cos(a + d) * x + np.sin(a + d) * e for d in (h, -h))
    slope = (ahead - behind) / (2 * h)
    exact = np.cos(a) * e - np.sin(a) * x
    assert np.allclose(slope, exact, atol=1e-6)
    return exact


def solved(noisy, other, bar, wanted):
    """Data or noise of two sums of both."""
    a = angle(bar)
    rows = np.array([[np.cos(a), np.sin(a)], wanted(a)])
    return np.linalg.solve(rows, np.stack([noisy.ravel(), other.ravel()])).reshape(2, *noisy.shape)


def noise_row(a):
    return [0.0, 1.0]


def data_row(a):
    return [1.0, 0.0]


def velocity_row(a):
    return [-np.sin(a), np.cos(a)]


def ddim(noisy, e, bar, previous):
    yield noised(solved(noisy, e, bar, noise_row)[0], e, previous)


def posterior(beta, bar, previous):
    """Mean (as shares of data and noisy data) and variance, by Bayes' rule: before the step it is
    normal about sqrt(previous) x with 1 - previous; the step has variance beta."""
    precision = 1 / (1 - previous) + (1 - beta) / beta
    of_data = np.sqrt(previous) / (1 - previous) / precision
    of_noisy = np.sqrt(1 - beta) / beta / precision
    return of_data, of_noisy, 1 / precision


def posterior_mean(x, noisy, beta, bar, previous):
    """In the paper bar is previous times 1 - beta."""
    a = np.sqrt(previous) * beta / (1 - bar)
    b = np.sqrt(1 - beta) * (1 - previous) / (1 - bar)
    yield a * x + b * noisy
    own = posterior(beta, previous * (1 - beta), previous)
    ours = np.sqrt(previous) * beta / (1 - previous * (1 - beta))
    assert np.isclose(own[0], ours)


def tables(betas):
    bars = bars_of(betas)
    return np.array([posterior(betas[k], bars[k], bars[k - 1]) for k in range(1, len(betas))])


def posterior_variances(betas):
    yield tables(betas)[:, 2]
    yield np.concatenate([[0.0], tables(betas)[:, 2]])


def posterior_data(betas):
    """Before the first step there is data alone."""
    yield np.concatenate([[1.0], tables(betas)[:, 0]])


def posterior_noisy(betas):
    yield np.concatenate([[0.0], tables(betas)[:, 1]])


def ddpm_mean(noisy, e, beta, bar):
    """The posterior's mean of the data that the noise tells."""
    previous = bar / (1 - beta)
    x = solved(noisy, e, bar, noise_row)[0]
    yield (
        np.sqrt(previous) * beta / (1 - bar) * x
        + np.sqrt(1 - beta) * (1 - previous) / (1 - bar) * noisy
    )


def ddpm_step(noisy, e, z, beta, bar):
    (mean,) = ddpm_mean(noisy, e, beta, bar)
    yield mean + np.sqrt(beta) * z


def snr(bar):
    yield bar / (1 - bar)
    yield np.log(bar) - np.log1p(-bar)


def min_snr(bar, gamma):
    ratio = bar / (1 - bar)
    yield np.minimum(1, gamma / ratio)


def score_matching(score, e, sigma):
    s, target = tensors(score, -e / (sigma if np.ndim(sigma) == 0 else sigma[:, None]))
    if np.ndim(sigma) == 0:
        yield F.mse_loss(s, target).numpy()
    else:
        weight = torch.tensor(sigma**2)
        yield (weight[:, None] * (s - target) ** 2).mean().numpy()
        yield F.mse_loss(s, target).numpy()


def edm_skip(sigma, std):
    """What makes the output's part smallest, of data with deviation std."""
    yield 1 / (1 + (sigma / std) ** 2)


def edm_output(sigma, std):
    """The noise and the data that are left have this deviation together."""
    skip = std**2 / (std**2 + sigma**2)
    yield np.sqrt((1 - skip) ** 2 * std**2 + skip**2 * sigma**2)


def edm_weight(sigma, std):
    (out,) = edm_output(sigma, std)
    yield 1 / out**2


def denoised(noisy, output, sigma, std):
    (skip,), (out,) = edm_skip(sigma, std), edm_output(sigma, std)
    yield skip * noisy + out * output


def karras(steps, low, high, rho):
    """Equal steps of a root."""
    root = np.linspace(high ** (1 / rho), low ** (1 / rho), steps)
    yield np.append(root**rho, 0)


def lerp(a, b, t):
    yield np.stack([torch.lerp(*tensors(x, y), s).numpy() for x, y, s in zip(a, b, t, strict=True)])


def conditional_flow(a, b, t, least):
    """At the end, the least part of the start is left."""
    (plain,) = lerp(a, b, t)
    yield plain + least * t[:, None] * a


def guided(c, u, scale):
    yield (1 - scale) * u + scale * c
    yield (1 + scale) * c - scale * u


def langevin(x, score, z, step):
    yield x + step / 2 * score + np.sqrt(step) * z
    yield x + step * score + np.sqrt(2) * np.sqrt(step) * z


REFERENCES = {
    "linear noise schedule": linear,
    "shares of data by noise rates": lambda betas: [bars_of(betas)],
    "cosine noise schedule": cosine,
    "rates of the cosine noise schedule": cosine_betas,
    "noised data": at(noised),
    "velocity of noise and data": at(velocity),
    "data noised by the sub-VP process": lambda x, e, bar: [
        np.cos(angle(bar)) * x + np.sin(angle(bar)) ** 2 * e
    ],
    "data by predicted noise": at(lambda x, e, bar: solved(x, e, bar, noise_row)[0]),
    "noise by predicted data": at(lambda x, d, bar: solved(x, d, bar, data_row)[1]),
    "data by predicted velocity": at(lambda x, v, bar: solved(x, v, bar, velocity_row)[0]),
    "noise by predicted velocity": at(lambda x, v, bar: solved(x, v, bar, velocity_row)[1]),
    "DDIM step": ddim,
    "mean of a DDPM step": ddpm_mean,
    "mean of a DDPM step by alpha": lambda x, e, a, bar: ddpm_mean(x, e, 1 - a, bar),
    "DDPM step": ddpm_step,
    "posterior mean": posterior_mean,
    "posterior variances": posterior_variances,
    "shares of data in the posterior": posterior_data,
    "shares of noisy data in the posterior": posterior_noisy,
    "signal-to-noise ratio": snr,
    "min-SNR weights": min_snr,
    "min-SNR weights by ratio": lambda r, gamma: [np.minimum(1, gamma / r)],
    "denoising score matching of one deviation": score_matching,
    "denoising score matching": score_matching,
    "share of the input in EDM": edm_skip,
    "share of the output in EDM": edm_output,
    "scale of inputs in EDM": lambda sigma, std: [1 / np.hypot(sigma, std)],
    "loss weights of EDM": edm_weight,
    "denoised data in EDM": denoised,
    "noise levels of Karras": karras,
    "share of the input in consistency models": lambda s, std, least: edm_skip(s - least, std),
    "share of the output in consistency models": lambda s, std, least: [
        std * (s - least) / np.hypot(s, std)
    ],
    "point of a straight flow": lerp,
    "flow matching loss": lambda v, a, b: [F.mse_loss(*tensors(v + a, b)).numpy()],
    "point of a conditional flow": conditional_flow,
    "guidance without a classifier": guided,
    "Langevin step": langevin,
}
