"""Rates as functions of the step. Over all steps: one value alone is a multiple of every other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import sigmoid


def _counts(step: Array) -> Iterator[Array]:
    """Steps count from 0 or from 1."""
    yield from (step, step + 1)


def _warm(step: Array, warmup: int) -> Iterator[Array]:
    """A share that rises to 1 at the last step of the warm-up, or at the first one after it."""
    w = max(int(warmup), 1)
    for s in _counts(step):
        yield from (s / w, s / (w + 1))


def _progress(step: Array, warmup: int, total: int) -> Iterator[Array]:
    for s in _counts(step):
        for length in (total - warmup, total - warmup - 1):
            yield np.clip((s - warmup) / max(length, 1), 0.0, 1.0)


def _half_cosine(share: Array) -> Array:
    return 0.5 * (1 + np.cos(np.pi * share))


def _warm_cosine(step: Array, warmup: int, total: int) -> Iterator[Array]:
    for rise in _warm(step, warmup):
        for p in _progress(step, warmup, total):
            for first in (step < warmup, step + 1 < warmup, step <= warmup):
                yield np.where(first, rise, _half_cosine(p))


def _warm_cosine_floor(
    step: Array, warmup: int, total: int, base: float, floor: float
) -> Iterator[Array]:
    """The floor is a rate, or a share of the largest one."""
    for rise in _warm(step, warmup):
        for p in _progress(step, warmup, total):
            for low in (floor, floor * base):
                for first in (step < warmup, step <= warmup):
                    yield np.where(first, base * rise, low + (base - low) * _half_cosine(p))


def _warm_cosine_start(
    step: Array, warmup: int, total: int, start: float, base: float, floor: float
) -> Iterator[Array]:
    """The warm-up begins with a rate of its own."""
    for rise in _warm(step, warmup):
        for p in _progress(step, warmup, total):
            up = start + (base - start) * rise
            yield np.where(step < warmup, up, floor + (base - floor) * _half_cosine(p))


def _trapezoid(step: Array, warmup: int, total: int, last: int) -> Iterator[Array]:
    """Up, level, and down over so many last steps; by a line or a root."""
    for rise in _warm(step, warmup):
        for s in _counts(step):
            down = np.clip((total - s) / last, 0, 1)
            for fall in (down, 1 - np.sqrt(1 - down)):
                yield np.where(step < warmup, rise, fall)


def _ramp_up(step: Array, total: int) -> Iterator[Array]:
    for s in _counts(step):
        yield np.exp(-5 * (1 - np.clip(s / total, 0, 1)) ** 2)


def _cosine(step: Array, total: int, base: float, floor: float) -> Iterator[Array]:
    for s in _counts(step):
        for length in (total, total - 1):
            share = s / max(length, 1)
            for p in (share, np.minimum(share, 1)):
                yield floor + (base - floor) * _half_cosine(p)


def _restarts(step: Array, period: int, base: float, floor: float) -> Iterator[Array]:
    yield floor + (base - floor) * _half_cosine(step % period / period)


def _noam(step: Array, warmup: int) -> Iterator[Array]:
    """The width of the model is a factor."""
    for s in (np.maximum(step, 1.0), step + 1.0):
        yield np.minimum(s**-0.5, s * float(warmup) ** -1.5)


def _warm_linear(step: Array, warmup: int, total: int) -> Iterator[Array]:
    for rise in _warm(step, warmup):
        for p in _progress(step, warmup, total):
            for first in (step < warmup, step <= warmup):
                yield np.where(first, rise, 1 - p)


def _warm_linear_floor(
    step: Array, warmup: int, total: int, base: float, floor: float
) -> Iterator[Array]:
    for rise in _warm(step, warmup):
        for p in _progress(step, warmup, total):
            for fall in (floor + (base - floor) * (1 - p), np.maximum(floor, base * (1 - p))):
                yield np.where(step < warmup, base * rise, fall)


def _polynomial(step: Array, total: int, base: float, end: float, power: float) -> Iterator[Array]:
    for s in _counts(step):
        share = 1 - np.clip(s / total, 0, 1)
        yield end + (base - end) * share**power


def _power(step: Array, total: int, power: float) -> Iterator[Array]:
    for s in _counts(step):
        yield (1 - np.clip(s / total, 0, 1)) ** power


def _exponential(step: Array, rate: float, every: float) -> Iterator[Array]:
    for s in _counts(step):
        yield from (rate ** (s / every), rate ** np.floor(s / every))
        yield from (np.exp(-rate * s), np.exp(-s / every))


def _geometric(step: Array, total: int, first: float, last: float) -> Iterator[Array]:
    for length in (total, total - 1):
        yield first * (last / first) ** (step / max(length, 1))


def _inverse_time(step: Array, rate: float) -> Iterator[Array]:
    for s in _counts(step):
        yield from (1 / (1 + rate * s), 1 / np.sqrt(1 + rate * s))


def _one_cycle(
    step: Array, total: int, share: float, divisor: float, last_divisor: float
) -> Iterator[Array]:
    """Relative to the largest rate; by cosines or lines."""
    top = share * total - 1
    up = np.clip(step / top, 0, 1)
    down = np.clip((step - top) / (total - 1 - top), 0, 1)
    first, last = 1 / divisor, 1 / divisor / last_divisor
    for rise, fall in ((1 - _half_cosine(up), 1 - _half_cosine(down)), (up, down)):
        yield np.where(step <= top, first + (1 - first) * rise, 1 + (last - 1) * fall)


def _triangular(step: Array, half: int, base: float, top: float) -> Iterator[Array]:
    cycle = np.floor(1 + step / (2 * half))
    x = np.abs(step / half - 2 * cycle + 1)
    rise = base + (top - base) * np.maximum(0, 1 - x)
    yield from (rise, base + (top - base) * np.maximum(0, 1 - x) / 2 ** (cycle - 1))


def _linear_annealing(step: Array, total: int) -> Iterator[Array]:
    for s in _counts(step):
        yield np.minimum(1.0, s / total)


def _logistic_annealing(step: Array, slope: float, middle: float) -> Iterator[Array]:
    yield sigmoid(slope * (step - middle))


def _cyclical(step: Array, total: int, cycles: int, share: float) -> Iterator[Array]:
    for length in (np.ceil(total / cycles), total / cycles):
        for s in (step, step - 1):
            yield np.minimum(1.0, (s % length) / length / share)


def _exponential_exploration(
    step: Array, start: float, end: float, decay: float
) -> Iterator[Array]:
    for s in _counts(step):
        yield end + (start - end) * np.exp(-s / decay)
        yield end + (start - end) * np.exp(-s * decay)
        yield np.maximum(end, start * decay**s)


def _linear_exploration(step: Array, start: float, end: float, total: int) -> Iterator[Array]:
    for s in _counts(step):
        yield start + (end - start) * np.clip(s / total, 0, 1)


def _adversarial(step: Array, total: int, slope: float) -> Iterator[Array]:
    for s in _counts(step):
        yield 2 / (1 + np.exp(-slope * s / total)) - 1


def _inverse_sigmoid(step: Array, k: float) -> Iterator[Array]:
    for s in _counts(step):
        yield k / (k + np.exp(s / k))


def _temperatures(step: Array, start: float, floor: float, rate: float) -> Iterator[Array]:
    yield np.maximum(start * np.exp(-rate * step), floor)


def _warm_average(step: Array, decay: float) -> Iterator[Array]:
    for s in _counts(step):
        yield np.minimum(decay, (1 + s) / (10 + s))


_RATE = ("lr*", "warmup*", "schedul*", "cosine", "rate", "anneal*")
_LOSHCHILOV = (
    "Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, 2017, equation 5"
)
_WARM = f"{_LOSHCHILOV}; Goyal et al., Accurate, large minibatch SGD, 2017"

ROWS = (
    Formula("warm-up and cosine", _RATE, "step[s]:int, warmup[]:int, total[]:int", _warm_cosine,
            _WARM, "scale"),
    Formula("warm-up and cosine to a floor", _RATE,
            "step[s]:int, warmup[]:int, total[]:int, base[], floor[]", _warm_cosine_floor, _WARM,
            "scale"),
    Formula("cosine annealing", _RATE, "step[s]:int, total[]:int, base[], floor[]", _cosine,
            _LOSHCHILOV, "scale"),
    Formula("cosine annealing with restarts", (*_RATE, "restart*", "period"),
            "step[s]:int, period[]:int, base[], floor[]", _restarts, _LOSHCHILOV, "scale"),
    Formula("Noam schedule", ("noam*", "warmup*", "dmodel", "rsqrt", *_RATE),
            "step[s]:int, warmup[]:int", _noam,
            "Vaswani et al., Attention is all you need, 2017, equation 3", "scale"),
    Formula("warm-up and line", ("linear", *_RATE),
            "step[s]:int, warmup[]:int, total[]:int", _warm_linear,
            "Devlin et al., BERT, 2019, appendix A.2", "scale"),
    Formula("polynomial decay", ("poly*", "power*", *_RATE),
            "step[s]:int, total[]:int, base[], end[], power[]", _polynomial,
            "Chen et al., DeepLab, 2018; TensorFlow, PolynomialDecay", "scale"),
    Formula("polynomial decay to 0", ("poly*", "power*", *_RATE),
            "step[s]:int, total[]:int, power[]", _power, "Chen et al., DeepLab, 2018", "scale"),
    Formula("exponential decay", ("exp*", "decay*", "gamma", *_RATE),
            "step[s]:int, rate[], every[]", _exponential, "TensorFlow, ExponentialDecay", "scale"),
    Formula("geometric path", ("geometric*", "sigma*", "log*", *_RATE),
            "step[s]:int, total[]:int, first[], last[]", _geometric,
            "Song and Ermon, Generative modeling by estimating gradients of the data "
            "distribution, 2019, section 4.2", "scale"),
    Formula("inverse time decay", ("inverse*", "decay*", *_RATE), "step[s]:int, rate[]",
            _inverse_time, "Robbins and Monro 1951; TensorFlow, InverseTimeDecay", "scale"),
    Formula("one cycle", ("onecycle*", "cycle*", *_RATE),
            "step[s]:int, total[]:int, share[], divisor[], last_divisor[]", _one_cycle,
            "Smith and Topin, Super-convergence, 2019; PyTorch, OneCycleLR", "scale"),
    Formula("triangular cycles", ("triang*", "cycl*", "clr", *_RATE),
            "step[s]:int, half[]:int, base[], top[]", _triangular,
            "Smith, Cyclical learning rates for training neural networks, 2017", "scale"),
    Formula("linear annealing", ("beta", "kl*", *_RATE),
            "step[s]:int, total[]:int", _linear_annealing,
            "Bowman et al., Generating sentences from a continuous space, 2016", "scale"),
    Formula("logistic annealing", ("logistic", "beta", "kl*", *_RATE),
            "step[s]:int, slope[], middle[]", _logistic_annealing,
            "Bowman et al., Generating sentences from a continuous space, 2016", "scale"),
    Formula("cyclical annealing", ("cycl*", "beta", "kl*", *_RATE),
            "step[s]:int, total[]:int, cycles[]:int, share[]", _cyclical,
            "Fu et al., Cyclical annealing schedule, 2019, equation 6", "scale"),
    Formula("exponential decay of exploration", ("eps*", "explor*"),
            "step[s]:int, start[], end[], decay[]", _exponential_exploration,
            "PyTorch, Reinforcement learning (DQN) tutorial"),
    Formula("linear decay of exploration", ("eps*", "explor*"),
            "step[s]:int, start[], end[], total[]:int", _linear_exploration,
            "Mnih et al., Human-level control through deep reinforcement learning, 2015"),
    Formula("weight of domain adversaries", ("domain*", "dann*", "grl*", "lambda*"),
            "step[s]:int, total[]:int, slope[]", _adversarial,
            "Ganin et al., Domain-adversarial training of neural networks, 2016, section 5.2.2",
            "scale"),
    Formula("scheduled sampling by the inverse logistic function", ("teacher*", "sampl*",
            "forcing"), "step[s]:int, k[]", _inverse_sigmoid,
            "Bengio et al., Scheduled sampling for sequence prediction, 2015"),
    Formula("annealed temperature", ("temp*", "tau", "anneal*", "gumbel"),
            "step[s]:int, start[], floor[], rate[]", _temperatures,
            "Jang, Gu and Poole, Categorical reparameterization with Gumbel-softmax, 2017"),
    Formula("decay of averages that rises", ("ema*", "decay*", "average*"),
            "step[s]:int, decay[]", _warm_average,
            "TensorFlow, ExponentialMovingAverage with num_updates"),
    Formula("warm-up from a start and cosine", _RATE, "step[s]:int, warmup[]:int, total[]:int, "
            "start[], base[], floor[]", _warm_cosine_start, _WARM, "scale"),
    Formula("warm-up and line to a floor", ("linear", *_RATE),
            "step[s]:int, warmup[]:int, total[]:int, base[], floor[]", _warm_linear_floor,
            "Devlin et al., BERT, 2019, appendix A.2", "scale"),
    Formula("warm-up, level and descent",
            ("wsd*", "trapez*", "stable", "cooldown*", "decay*", *_RATE),
            "step[s]:int, warmup[]:int, total[]:int, last[]:int", _trapezoid,
            "Hu et al., MiniCPM, 2024", "scale"),
    Formula("exponential ramp-up", ("ramp*", "rampup*", *_RATE), "step[s]:int, total[]:int",
            _ramp_up, "Laine and Aila, Temporal ensembling for semi-supervised learning, "
            "2017", "scale"),
)  # fmt: skip
"""Rows of this theme."""
