"""Returns and policies: sums over later steps instead of recursions, losses by PyTorch."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy.special import expit, log_softmax, softmax
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from tests.verify.formulas.torch_calls import tensors


def by_steps(f, *arrays):
    """A function of series, of each column."""
    if arrays[0].ndim == 1:
        return f(*arrays)
    columns = zip(*[np.moveaxis(a, -1, 0) for a in arrays], strict=True)
    return np.stack([f(*c) for c in columns], axis=-1)


def later_sums(x, share):
    """`sum_l share[t] ... share[t + l - 1] x[t + l]`."""
    n = len(x)
    return np.array([sum(np.prod(share[t:k]) * x[k] for k in range(t, n)) for t in range(n)])


def returns(r, gamma):
    yield by_steps(lambda x: later_sums(x, np.full(len(x), gamma)), r)
    if r.ndim == 1:
        yield r - r.mean() if gamma == 0 else later_sums(r, np.full(len(r), gamma)) * 3 + 1


def ending(r, done, gamma):
    """Each episode by itself."""

    def one(x, d):
        out, start = [], 0
        for end in [*np.flatnonzero(d) + 1, len(x)]:
            out += list(next(returns(x[start:end], gamma))) if end > start else []
            start = end
        return np.array(out)

    yield by_steps(one, r, done)


def bootstrapped(r, last, gamma):
    """One reward more, which is the last value."""
    more = np.concatenate([r, np.asarray(last)[None]])
    yield next(returns(more, gamma))[:-1]


def ending_bootstrapped(r, done, last, gamma):
    more = np.concatenate([r, np.asarray(last)[None]])
    ends = np.concatenate([done, np.zeros_like(more[:1])])
    yield next(ending(more, ends, gamma))[:-1]


def n_steps(r, values, gamma, steps):
    """So many one-step targets, each inside the other."""
    v = values
    for k in range(steps):
        v = r[: len(r) - k] + gamma * v[1 : len(r) - k + 1]
    yield v


def target(r, done, following, gamma):
    yield np.where(done == 1, r, r + gamma * following)


def double(r, done, online, other, gamma):
    best = [other[k, a] for k, a in enumerate(online.argmax(axis=1))]
    yield from target(r, done, np.array(best), gamma)


def soft(r, done, q, other, log_prob, gamma, alpha):
    entropy_bonus = -alpha * log_prob
    yield from target(r, done, np.where(q < other, q, other) + entropy_bonus, gamma)


def error(r, done, v, following, gamma):
    (t,) = target(r, done, following, gamma)
    yield t - v
    yield F.mse_loss(*tensors(v, t)).numpy()


def mixed_returns(r, done, v, following, gamma, lam):
    """Advantages: the mean of n-step returns with weights (1 - lam) lam^(n - 1), less the value;
    what goes past the end of an episode or of the series is worth what was reached there."""
    n, out = len(r), np.zeros(len(r))
    for t in range(n):
        total, weight, reward, discount = 0.0, 1.0, 0.0, 1.0
        for k in range(t, n):
            reward += discount * r[k]
            discount *= gamma * (1 - done[k])
            reached = reward + discount * following[k]
            final = k == n - 1 or done[k] == 1
            total += weight * (1.0 if final else 1 - lam) * reached
            weight *= lam
            if final:
                break
        out[t] = total - v[t]
    return out


def gae(r, done, v, following, gamma, lam):
    own = by_steps(lambda *x: mixed_returns(*x, gamma, lam), r, done, v, following)
    yield own
    yield own, own + v
    yield (own - own.mean()) / own.std()


def by_next_values(r, done, v, following, gamma, lam):
    """The sum of later errors (equation 16 of the paper)."""
    delta = np.where(done == 1, r, r + gamma * following) - v
    own = later_sums(delta, gamma * lam * (done == 0))
    yield own
    yield own, own + v


def gae_last(r, done, v, last, gamma, lam):
    yield from gae(r, done, v, np.concatenate([v[1:], np.asarray(last)[None]]), gamma, lam)


def gae_before(r, done, v, following, ended, gamma, lam):
    ends = np.concatenate([done[1:], np.asarray(ended)[None]])
    yield from gae_last(r, ends, v, following, gamma, lam)


def endless(reference):
    return lambda r, *rest: reference(r, np.zeros_like(r), *rest)


def one_more(r, done, v, gamma, lam):
    yield from gae(r, done, v[:-1], v[1:], gamma, lam)


def none_after(r, done, v, gamma, lam):
    yield from gae_last(r, done, v, np.zeros_like(v[0]), gamma, lam)


def lambda_returns(r, done, following, gamma, lam):
    yield mixed_returns(r, done, np.zeros_like(r), following, gamma, lam)


def v_trace(rho, discounts, r, v, last):
    """The sum of the paper's equation 1."""
    top = np.minimum(1, rho)
    later = np.append(v[1:], last)
    delta = top * (r + discounts * later - v)
    vs = v + later_sums(delta, discounts * top)
    yield vs
    yield vs, top * (r + discounts * np.append(vs[1:], last) - v)


def projected(r, done, p, support, gamma):
    """As in algorithm 1: shares go down and up."""
    out, step, k = np.zeros_like(p), support[1] - support[0], p.shape[1]
    for n in range(len(r)):
        for j in range(k):
            z = r[n] + (0 if done[n] else gamma * support[j])
            b = (min(max(z, support[0]), support[-1]) - support[0]) / step
            low, high = int(np.floor(b + 1e-9)), int(np.ceil(b - 1e-9))
            out[n, low] += p[n, j] * ((high - b) if high > low else 1)
            if high > low:
                out[n, high] += p[n, j] * (b - low)
    yield out


def by_masks(reference):
    return lambda r, alive, *rest: reference(r, 1 - alive, *rest)


def with_masks(rows):
    return {**rows, **{f"{name} by masks": by_masks(f) for name, f in rows.items()}}


def policy_gradient(log_prob, r):
    """Its slope is what the returns weigh."""
    x = torch.tensor(log_prob, requires_grad=True)
    loss = -(x * torch.tensor(r)).mean()
    yield loss.detach().numpy()
    yield -(log_prob * (r - r.mean()) / (r.std(ddof=1) + 1e-8)).sum()


def actor_critic(log_prob, r, v, weight):
    yield -np.mean(log_prob * (r - v)) + weight * F.mse_loss(*tensors(v, r)).numpy()


def clipped(ratio, a, clip):
    """What is more than the clip in the direction that pays counts no more."""
    best = np.where(a > 0, np.minimum(ratio, 1 + clip), np.maximum(ratio, 1 - clip))
    yield -(best * a).mean()
    standard = (a - a.mean()) / (a.std(ddof=1) + 1e-8)
    best = np.where(standard > 0, np.minimum(ratio, 1 + clip), np.maximum(ratio, 1 - clip))
    yield -(best * standard).mean()


def clipped_values(v, old, r, clip):
    near = np.minimum(np.maximum(v, old - clip), old + clip)
    yield 0.5 * np.mean(
        [max((a - c) ** 2, (b - c) ** 2) for a, b, c in zip(v.flat, near.flat, r.flat, strict=True)]
    )


def estimates(new, old):
    yield (np.exp(old - new) - 1 - (old - new)).mean()


def dpo(c, d, ref_c, ref_d, beta):
    """The chance that the chosen one wins, by rewards that are shares of log-ratios."""
    rewards = beta * (c - ref_c), beta * (d - ref_d)
    yield -np.log(np.exp(rewards[0]) / (np.exp(rewards[0]) + np.exp(rewards[1]))).mean()


def ipo(c, d, ref_c, ref_d, beta):
    yield ((c - d - (ref_c - ref_d) - 1 / (2 * beta)) ** 2).mean()


def orpo(c, d):
    odds = lambda p: p / (1 - p)
    yield -np.log(expit(np.log(odds(np.exp(c)) / odds(np.exp(d))))).mean()


def squashed(log_prob, u):
    """The density of tanh of a variable: one of which u has the given log-probability."""
    zero = Normal(torch.zeros_like(torch.tensor(u)), 1.0)
    own = TransformedDistribution(zero, [TanhTransform(cache_size=1)])
    shift = own.log_prob(torch.tanh(torch.tensor(u))) - zero.log_prob(torch.tensor(u))
    each = shift.numpy()
    yield log_prob + (each.sum(axis=1) if log_prob.ndim < u.ndim else each)


def by_action(log_prob, action, eps):
    yield from squashed(log_prob, np.arctanh(action))


def quantile_huber(p, t, tau, kappa):
    total = []
    for row, other in zip(p, t, strict=True):
        for x, q in zip(row, tau, strict=True):
            for y in other:
                h = F.huber_loss(*tensors(x, y), delta=kappa).item()
                total.append((q if y > x else 1 - q) * h)
    yield np.mean(total)


def expected_soft(logits, q, alpha):
    p = softmax(logits, axis=1)
    yield (p * q).sum(axis=1) - alpha * (p * log_softmax(logits, axis=1)).sum(axis=1)


def soft_update(t, online, tau):
    """One step of a module's parameters, as in PyTorch's averaged models."""
    yield torch.lerp(*tensors(t, online), tau).numpy()


REFERENCES = {
    "discounted returns": returns,
    "discounted returns with a last value": bootstrapped,
    "n-step returns": n_steps,
    "generalized advantages of one episode": endless(gae_last),
    "generalized advantages of one episode by one value more": endless(one_more),
    "generalized advantages of one episode up to the end": endless(none_after),
    "generalized advantages by first steps": gae_before,
    "V-trace": v_trace,
    "V-trace by logarithms": lambda x, *rest: v_trace(np.exp(x), *rest),
    **with_masks(
        {
            "discounted returns of episodes": ending,
            "discounted returns of episodes with a last value": ending_bootstrapped,
            "TD target": target,
            "Q-learning target": lambda r, d, q, g: target(r, d, np.max(q, axis=1), g),
            "target of double Q-learning": double,
            "TD target after several steps": lambda r, d, v, g, n: target(
                r, d, v * math.prod([g] * n), 1.0
            ),
            "Q-learning target after several steps": lambda r, d, q, g, n: target(
                r, d, q.max(axis=1) * math.prod([g] * n), 1.0
            ),
            "target of the smaller of two values": lambda r, d, q, o, g: target(
                r, d, np.where(q < o, q, o), g
            ),
            "target of soft actor-critic": soft,
            "target of expected Sarsa": lambda r, d, q, p, g: target(
                r, d, np.array([a @ b for a, b in zip(q, p, strict=True)]), g
            ),
            "TD error": error,
            "generalized advantages by next values": by_next_values,
            "generalized advantages": gae_last,
            "generalized advantages by one value more": one_more,
            "generalized advantages up to the end": none_after,
            "lambda-returns": lambda_returns,
            "projection of value distributions": projected,
        }
    ),
    "policy gradient": policy_gradient,
    "policy gradient with a baseline": lambda x, r, v: policy_gradient(x, r - v),
    "actor-critic loss": actor_critic,
    "clipped policy objective of ratios": clipped,
    "clipped policy objective": lambda x, old, a, clip: clipped(np.exp(x) / np.exp(old), a, clip),
    "clipped value loss": clipped_values,
    "estimate of a divergence by samples": estimates,
    "surrogate policy objective": lambda x, old, a: [-np.mean(np.exp(x) / np.exp(old) * a)],
    "DPO loss": dpo,
    "advantage weighted regression": lambda x, a, beta: [
        -np.mean(np.exp(a / beta) * x),
        -(softmax((a / beta).ravel()) @ x.ravel()),
    ],
    "IPO loss": ipo,
    "SimPO loss": lambda c, d, beta, g: [-np.log(expit(beta * c - beta * d - g)).mean()],
    "odds ratio loss": orpo,
    "advantages within groups": lambda r, eps: [
        np.stack([(x - x.mean()) / (x.std(ddof=1) + eps) for x in r])
    ],
    "log-probability of squashed actions": squashed,
    "log-probability of squashed numbers": squashed,
    "log-probability by squashed actions": by_action,
    "actor loss of soft actor-critic": lambda x, q, o, alpha: [
        np.mean(alpha * x - np.where(q < o, q, o))
    ],
    "temperature loss of soft actor-critic": lambda x, log_alpha, h: [
        -(np.exp(log_alpha) * x).mean() - np.exp(log_alpha) * h
    ],
    "quantile Huber loss": quantile_huber,
    "dueling values": lambda v, a: [
        np.stack([x + y - y.mean() for x, y in zip(v, a, strict=True)])
    ],
    "conservative penalty": lambda q, a: [F.cross_entropy(*tensors(q, a)).numpy()],
    "soft update": soft_update,
    "upper confidence bound": lambda m, n, c: [m + c * np.sqrt(np.log(n.sum()) / n)],
    "PUCT": lambda q, p, n, c: [q + c * p / (1 + n) * np.sqrt(n.sum())],
    "soft value of finitely many actions": expected_soft,
}
