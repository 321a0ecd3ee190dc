"""Losses of generators and of what tells their samples from real ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import reductions, relu, softplus


def _two(real: Array, fake: Array) -> Iterator[Array]:
    """A sum of two means, or of each pair's."""
    yield real.mean() + fake.mean()
    yield from reductions(real + fake)


def _discriminator(real: Array, fake: Array) -> Iterator[Array]:
    yield from _two(softplus(-real), softplus(fake))


def _discriminator_probabilities(
    real_probability: Array, fake_probability: Array, eps: float
) -> Iterator[Array]:
    for e in (0.0, eps):
        yield from _two(-np.log(real_probability + e), -np.log(1 - fake_probability + e))


def _generator(fake: Array) -> Iterator[Array]:
    """It takes the discriminator's label for real, or minimizes how well it is told."""
    yield from reductions(softplus(-fake))
    yield from reductions(-softplus(fake))


def _hinges(real: Array, fake: Array) -> Iterator[Array]:
    yield from _two(relu(1 - real), relu(1 + fake))


def _least_squares(real: Array, fake: Array) -> Iterator[Array]:
    for a in (0.0, -1.0):
        yield from _two((real - 1) ** 2, (fake - a) ** 2)


def _least_squares_generator(fake: Array) -> Iterator[Array]:
    yield from reductions((fake - 1) ** 2)


def _critic(real: Array, fake: Array) -> Iterator[Array]:
    yield from _two(-real, fake)


def _gradient_norms(gradient: Array, eps: float) -> Iterator[Array]:
    square = (gradient.reshape(len(gradient), -1) ** 2).sum(axis=1)
    yield from (np.sqrt(square), np.sqrt(square + eps), np.sqrt(square) + eps)


def _penalty(gradient: Array, eps: float) -> Iterator[Array]:
    """On both sides of 1, or above it."""
    for size in _gradient_norms(gradient, eps):
        yield from reductions((size - 1) ** 2)
        yield from reductions(relu(size - 1) ** 2)


def _r1(gradient: Array) -> Iterator[Array]:
    yield from reductions((gradient.reshape(len(gradient), -1) ** 2).sum(axis=1))


def _critic_with_penalty(
    real: Array, fake: Array, gradient: Array, weight: float
) -> Iterator[Array]:
    for size in _gradient_norms(gradient, 0.0):
        yield fake.mean() - real.mean() + weight * ((size - 1) ** 2).mean()


def _relativistic(real: Array, fake: Array) -> Iterator[Array]:
    yield from reductions(softplus(fake - real))


def _relativistic_average(real: Array, fake: Array) -> Iterator[Array]:
    yield softplus(fake.mean() - real).mean() + softplus(fake - real.mean()).mean()


def _between(real: Array, fake: Array, share: Array) -> Iterator[Array]:
    s = share.reshape(-1, *[1] * (real.ndim - 1))
    yield from (s * real + (1 - s) * fake, s * fake + (1 - s) * real)


_REAL = ("disc*", "d", "real*", "fake*", "gan*", "netd", "critic*")
_GOODFELLOW = "Goodfellow et al., Generative adversarial nets, 2014"
_MAO = "Mao et al., Least squares generative adversarial networks, 2017"
_GULRAJANI = "Gulrajani et al., Improved training of Wasserstein GANs, 2017, equation 3"

ROWS = (
    Formula("discriminator loss of logits", _REAL, "real[*], fake[*]", _discriminator,
            _GOODFELLOW, "factor"),
    Formula("discriminator loss", _REAL,
            "real_probability[*], fake_probability[*], eps[]", _discriminator_probabilities,
            _GOODFELLOW, "factor"),
    Formula("generator loss of logits", ("gen*", "g", "fake*", "gan*", "netg"), "fake[*]",
            _generator, _GOODFELLOW, "factor"),
    Formula("hinge loss of discriminators", ("hinge*", *_REAL), "real[*], fake[*]", _hinges,
            "Lim and Ye, Geometric GAN, 2017; Miyato et al. 2018", "factor"),
    Formula("least squares loss of discriminators", ("lsgan", "mse", *_REAL),
            "real[*], fake[*]", _least_squares, _MAO, "factor"),
    Formula("least squares loss of generators", ("lsgan", "gen*", "g", "fake*"), "fake[*]",
            _least_squares_generator, _MAO, "factor"),
    Formula("critic loss", ("wgan*", "wasserstein", "critic*"), "real[*], fake[*]", _critic,
            "Arjovsky, Chintala and Bottou, Wasserstein GAN, 2017", "factor"),
    Formula("gradient penalty", ("gp", "penalty", "grad*"), "gradient[*], eps[]", _penalty,
            _GULRAJANI, "factor"),
    Formula("zero-centred gradient penalty", ("r1", "r1reg*", "zerocent*"), "gradient[*]",
            _r1, "Mescheder, Geiger and Nowozin, Which training methods for GANs do actually "
            "converge?, 2018, equation 9", "factor"),
    Formula("critic loss with gradient penalty", ("wgan*", "gp", "penalty"),
            "real[n], fake[n], gradient[n d], weight[]", _critic_with_penalty, _GULRAJANI,
            "factor"),
    Formula("relativistic loss", ("relativ*", "rgan*"), "real[*], fake[*]",
            _relativistic, "Jolicoeur-Martineau, The relativistic discriminator, 2019", "factor"),
    Formula("average relativistic loss", ("relativ*", "ragan*"), "real[*], fake[*]",
            _relativistic_average, "Jolicoeur-Martineau, The relativistic discriminator, 2019",
            "factor"),
    *(Formula("points between real and fake", ("interp*", "mixed", "hat", "gp"), takes, _between,
              _GULRAJANI) for takes in ("real[n d], fake[n d], share[n]",
                                        "real[n c h w], fake[n c h w], share[n]")),
)  # fmt: skip
"""Rows of this theme."""
