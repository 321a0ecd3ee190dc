"""Schedules: PyTorch's where there are such, else step by step."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.optim import SGD, lr_scheduler


def rates(steps, make, base=1.0):
    """Of a scheduler, at some steps of all."""
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=base)
    schedule, out = make(optimizer), []
    for _ in range(max(steps) + 1):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return np.array(out)[np.asarray(steps)]


def warm_cosine(step, warmup, total):
    """As in Hugging Face's get_cosine_schedule_with_warmup."""

    def rate(k):
        if k < warmup:
            return k / max(1, warmup)
        share = (k - warmup) / max(1, total - warmup)
        return max(0.0, 0.5 * (1 + math.cos(math.pi * 2 * 0.5 * min(share, 1.0))))

    yield np.array([rate(k) for k in step])


def warm_cosine_floor(step, warmup, total, base, floor):
    """As in nanoGPT's get_lr."""

    def rate(k):
        if k < warmup:
            return base * (k + 1) / (warmup + 1)
        if k > total:
            return floor
        share = (k - warmup) / (total - warmup)
        return floor + 0.5 * (1.0 + math.cos(math.pi * share)) * (base - floor)

    yield np.array([rate(k) for k in step])


def cosine(step, total, base, floor):
    inside = np.minimum(step, total)
    of = lambda o: lr_scheduler.CosineAnnealingLR(o, total, eta_min=floor)
    yield rates(inside, of, base)


def restarts(step, period, base, floor):
    of = lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, period, eta_min=floor)
    yield rates(step, of, base)


def noam(step, warmup):
    """It rises evenly up to the warm-up and falls with the root then."""
    n = np.maximum(step, 1)
    top = warmup**-0.5
    yield np.where(n <= warmup, top * n / warmup, top * np.sqrt(warmup / n))


def warm_linear(step, warmup, total):
    """As in Hugging Face's get_linear_schedule_with_warmup."""

    def rate(k):
        if k < warmup:
            return k / max(1, warmup)
        return max(0.0, (total - k) / max(1, total - warmup))

    yield np.array([rate(k) for k in step])


def power(step, total, p):
    yield rates(step, lambda o: lr_scheduler.PolynomialLR(o, total, p))


def polynomial(step, total, base, end, p):
    (share,) = power(step, total, p)
    yield (base - end) * share + end


def exponential(step, rate, every):
    if rate < 1:
        yield rates(step, lambda o: lr_scheduler.ExponentialLR(o, rate ** (1 / every)))
    yield np.exp(np.log(rate) * step / every)


def geometric(step, total, first, last):
    """Equal steps of the logarithm, past the end as well."""
    path = np.geomspace(first, last, total)
    ratio = path[1] / path[0]
    yield first * ratio**step


def one_cycle(step, total, share, divisor, last_divisor):
    inside = np.minimum(step, total - 1)
    of = lambda o: lr_scheduler.OneCycleLR(
        o, 1.0, total, pct_start=share, div_factor=divisor, final_div_factor=last_divisor,
        cycle_momentum=False,
    )  # fmt: skip
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, out = of(optimizer), []
    for k in range(total):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if k < total - 1:
            schedule.step()
    yield np.array(out)[inside]


def triangular(step, half, base, top):
    of = lambda o: lr_scheduler.CyclicLR(o, base, top, half, cycle_momentum=False)
    yield rates(step, of, base)


def cyclical(step, total, cycles, share):
    """In each cycle a line up to 1, which then stays."""
    length = math.ceil(total / cycles)
    yield np.array([np.interp(k % length, [0, share * length], [0, 1]) for k in step])


def explored(step, start, end, decay):
    yield np.array([end + (start - end) * math.exp(-1.0 * k / decay) for k in step])
    value, out = start, {0: max(end, start)}
    for k in range(1, max(step) + 1):
        value *= decay
        out[k] = max(end, value)
    yield np.array([out[k] for k in step])


def warm_average(step, decay):
    """It takes more of the first ones."""
    yield np.array([min(decay, (1 + k) / (10 + k)) for k in step])


def warm_cosine_start(step, warmup, total, start, base, floor):
    """A line, then PyTorch's CosineAnnealingLR."""
    inside = np.minimum(step, total)
    lambda o: lr_scheduler.LinearLR(o, min(start / base, 1.0), 1.0, warmup)
    down = lambda o: lr_scheduler.CosineAnnealingLR(o, total - warmup, floor)
    falls = rates(np.maximum(inside - warmup, 0), down, base)
    yield np.where(inside < warmup, np.interp(inside, [0, warmup], [start, base]), falls)


def trapezoid(step, warmup, total, last):
    yield np.interp(step, [0, warmup, total - last, total], [0, 1, 1, 0])


REFERENCES = {
    "warm-up and cosine": warm_cosine,
    "warm-up and cosine to a floor": warm_cosine_floor,
    "cosine annealing": cosine,
    "cosine annealing with restarts": restarts,
    "Noam schedule": noam,
    "warm-up and line": warm_linear,
    "polynomial decay": polynomial,
    "polynomial decay to 0": power,
    "exponential decay": exponential,
    "geometric path": geometric,
    "inverse time decay": lambda step, rate: [1 / (1 + rate * step)],
    "one cycle": one_cycle,
    "triangular cycles": triangular,
    "linear annealing": lambda step, total: [np.interp(step, [0, total], [0, 1])],
    "logistic annealing": lambda s, k, m: [0.5 + 0.5 * np.tanh(k * (s - m) / 2)],
    "cyclical annealing": cyclical,
    "exponential decay of exploration": explored,
    "linear decay of exploration": lambda step, a, b, n: [np.interp(step, [0, n], [a, b])],
    "weight of domain adversaries": lambda step, n, k: [np.tanh(k * step / n / 2)],
    "scheduled sampling by the inverse logistic function": lambda step, k: [
        1 / (1 + np.exp(step / k) / k)
    ],
    "annealed temperature": lambda step, a, low, rate: [
        np.array([max(low, a * math.exp(-rate * k)) for k in step])
    ],
    "decay of averages that rises": warm_average,
    "warm-up from a start and cosine": warm_cosine_start,
    "warm-up and line to a floor": lambda s, w, n, base, floor: [
        np.where(s < w, s / w * base, np.interp(s, [w, n], [base, floor]))
    ],
    "warm-up, level and descent": trapezoid,
    "exponential ramp-up": lambda s, n: [np.exp(-5 * np.interp(s, [0, n], [1, 0]) ** 2)],
}
