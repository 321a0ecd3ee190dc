"""What networks are trained for that take noise away, and straight flows from noise to data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import reductions


def _signal_to_noise(alpha_bar: Array) -> Iterator[Array]:
    ratio = alpha_bar / (1 - alpha_bar)
    yield from (ratio, np.log(ratio))


def _min_snr(alpha_bar: Array, gamma: float) -> Iterator[Array]:
    """For noise, for velocities, for data."""
    snr = alpha_bar / (1 - alpha_bar)
    top = np.minimum(snr, gamma)
    yield from (top / snr, top / (snr + 1), top)


def _min_snr_ratio(snr: Array, gamma: float) -> Iterator[Array]:
    top = np.minimum(snr, gamma)
    yield from (top / snr, top / (snr + 1), top)


def _score_matching(score: Array, noise: Array, sigma: float) -> Iterator[Array]:
    """Noise of deviation 1, or sigma."""
    for z in (noise, noise / sigma):
        yield from reductions((sigma * score + z) ** 2)


def _score_matchings(score: Array, noise: Array, sigma: Array) -> Iterator[Array]:
    """Weighed by the variance, or not."""
    s = sigma[:, None]
    for z in (noise, noise / s):
        yield from reductions((s * score + z) ** 2)
        yield from reductions((score + z / s) ** 2)


def _skip_share(sigma: Array, data_std: float) -> Iterator[Array]:
    yield data_std**2 / (sigma**2 + data_std**2)


def _output_share(sigma: Array, data_std: float) -> Iterator[Array]:
    yield sigma * data_std / np.sqrt(sigma**2 + data_std**2)


def _input_share(sigma: Array, data_std: float) -> Iterator[Array]:
    yield 1 / np.sqrt(sigma**2 + data_std**2)


def _edm_weight(sigma: Array, data_std: float) -> Iterator[Array]:
    yield (sigma**2 + data_std**2) / (sigma * data_std) ** 2


def _denoised(noisy: Array, output: Array, sigma: float, data_std: float) -> Iterator[Array]:
    total = sigma**2 + data_std**2
    yield data_std**2 / total * noisy + sigma * data_std / np.sqrt(total) * output


def _karras(steps: int, low: float, high: float, rho: float) -> Iterator[Array]:
    ramp = np.linspace(0, 1, int(steps))
    sigmas = (high ** (1 / rho) + ramp * (low ** (1 / rho) - high ** (1 / rho))) ** rho
    yield from (sigmas, np.append(sigmas, 0.0))


def _consistency_skip(sigma: Array, data_std: float, least: float) -> Iterator[Array]:
    yield data_std**2 / ((sigma - least) ** 2 + data_std**2)


def _consistency_output(sigma: Array, data_std: float, least: float) -> Iterator[Array]:
    yield data_std * (sigma - least) / np.sqrt(sigma**2 + data_std**2)


def _flow_point(start: Array, end: Array, t: Array) -> Iterator[Array]:
    """Either end may be the noise: time runs from the first one to the second."""
    s = t.reshape(-1, *[1] * (start.ndim - 1))
    yield (1 - s) * start + s * end


def _flow_matching(velocity: Array, start: Array, end: Array) -> Iterator[Array]:
    yield from reductions((velocity - (end - start)) ** 2)


def _conditional_flow(start: Array, end: Array, t: Array, least: float) -> Iterator[Array]:
    s = t.reshape(-1, *[1] * (start.ndim - 1))
    yield (1 - (1 - least) * s) * start + s * end


def _guided(conditional: Array, unconditional: Array, scale: float) -> Iterator[Array]:
    """A scale of 1, or of 0, is no guidance."""
    step = conditional - unconditional
    yield from (unconditional + scale * step, conditional + scale * step)


_KARRAS = "Karras et al., Elucidating the design space of diffusion-based generative models, 2022"
_CONSISTENT = "Song et al., Consistency models, 2023, appendix C"
_VINCENT = (
    "Vincent, A connection between score matching and denoising autoencoders, 2011; "
    "Song and Ermon 2019, equation 5"
)
_LIPMAN = "Lipman et al., Flow matching for generative modeling, 2023"
_HANG = "Hang et al., Efficient diffusion training via min-SNR weighting strategy, 2023"
_EDM = ("edm*", "cskip", "cout", "cin", "sigmadata", "precond*")
_FLOW = ("flow*", "rectified", "cfm", "velocity", "interp*")

ROWS = (
    Formula("signal-to-noise ratio", ("snr*", "logsnr"), "alpha_bar[*]", _signal_to_noise,
            "Kingma et al., Variational diffusion models, 2021"),
    Formula("min-SNR weights", ("snr*", "minsnr"), "alpha_bar[*], gamma[]", _min_snr, _HANG,
            "scale"),
    Formula("min-SNR weights by ratio", ("snr*", "minsnr"), "snr[*], gamma[]", _min_snr_ratio,
            _HANG, "scale"),
    Formula("denoising score matching of one deviation", ("score*", "dsm*"),
            "score[*], noise[*], sigma[]", _score_matching, _VINCENT, "factor"),
    Formula("denoising score matching", ("score*", "dsm*"),
            "score[n d], noise[n d], sigma[n]", _score_matchings, _VINCENT, "factor"),
    Formula("share of the input in EDM", _EDM, "sigma[*], data_std[]", _skip_share,
            f"{_KARRAS}, table 1"),
    Formula("share of the output in EDM", _EDM, "sigma[*], data_std[]", _output_share,
            f"{_KARRAS}, table 1"),
    Formula("scale of inputs in EDM", _EDM, "sigma[*], data_std[]", _input_share,
            f"{_KARRAS}, table 1"),
    Formula("loss weights of EDM", (*_EDM, "weight*"), "sigma[*], data_std[]", _edm_weight,
            f"{_KARRAS}, table 1", "scale"),
    Formula("denoised data in EDM", _EDM, "noisy[*], output[*], sigma[], data_std[]", _denoised,
            f"{_KARRAS}, equation 7"),
    Formula("noise levels of Karras", ("karras*", "sigma*", "rho"),
            "steps[]:int, low[], high[], rho[]", _karras, f"{_KARRAS}, equation 5"),
    Formula("share of the input in consistency models", ("consisten*", "cskip"),
            "sigma[*], data_std[], least[]", _consistency_skip, _CONSISTENT),
    Formula("share of the output in consistency models", ("consisten*", "cout"),
            "sigma[*], data_std[], least[]", _consistency_output, _CONSISTENT),
    *(Formula("point of a straight flow", _FLOW, takes, _flow_point,
              f"Liu, Gong and Liu, Flow straight and fast, 2023; {_LIPMAN}")
      for takes in ("start[n d], end[n d], t[n]", "start[n c h w], end[n c h w], t[n]")),
    Formula("flow matching loss", _FLOW, "velocity[*], start[*], end[*]", _flow_matching,
            f"Liu, Gong and Liu, Flow straight and fast, 2023; {_LIPMAN}", "factor"),
    Formula("point of a conditional flow", _FLOW, "start[n d], end[n d], t[n], least[]",
            _conditional_flow, f"{_LIPMAN}, equation 22"),
    Formula("guidance without a classifier", ("guid*", "cfg", "uncond*", "cond*"),
            "conditional[*], unconditional[*], scale[]", _guided,
            "Ho and Salimans, Classifier-free diffusion guidance, 2022, equation 6"),
)  # fmt: skip
"""Rows of this theme."""
