"""Losses of policies and of what they are compared with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    log_softmax,
    reductions,
    softmax,
    softplus,
    totals,
)


def _standardized(x: Array) -> Iterator[Array]:
    """As it is, and in deviations: biased or not."""
    yield x
    for ddof in (0, 1):
        for eps in (0.0, 1e-8, 1e-5):
            yield (x - x.mean()) / (x.std(ddof=ddof) + eps)


def _policy_gradient(log_prob: Array, returns: Array) -> Iterator[Array]:
    for r in _standardized(returns):
        yield from reductions(-log_prob * r)


def _with_baseline(log_prob: Array, returns: Array, values: Array) -> Iterator[Array]:
    for a in _standardized(returns - values):
        yield from reductions(-log_prob * a)
    for r in _standardized(returns):
        yield from reductions(-log_prob * (r - values))


def _advantage_weighted(log_prob: Array, advantages: Array, beta: float) -> Iterator[Array]:
    """The number divides or multiplies; weights are at most 20 or 100, or of sum 1."""
    for a in _standardized(advantages):
        for x in (a / beta, beta * a):
            weight = np.exp(np.minimum(x, 50.0))
            for w in (weight, np.minimum(weight, 20.0), np.minimum(weight, 100.0)):
                yield from reductions(-w * log_prob)
            yield -(weight / weight.sum() * log_prob).sum()


def _actor_critic(log_prob: Array, returns: Array, values: Array, weight: float) -> Iterator[Array]:
    advantage = returns - values
    for a in _standardized(advantage):
        for half in (0.5, 1.0):
            yield (-log_prob * a).mean() + half * weight * (advantage**2).mean()


def _clipped(ratio: Array, advantages: Array, clip: float) -> Iterator[Array]:
    for a in _standardized(advantages):
        yield from reductions(-np.minimum(ratio * a, np.clip(ratio, 1 - clip, 1 + clip) * a))


def _clipped_logs(
    log_prob: Array, old_log_prob: Array, advantages: Array, clip: float
) -> Iterator[Array]:
    yield from _clipped(np.exp(log_prob - old_log_prob), advantages, clip)


def _clipped_values(
    values: Array, old_values: Array, returns: Array, clip: float
) -> Iterator[Array]:
    near = old_values + np.clip(values - old_values, -clip, clip)
    yield from reductions(np.maximum((values - returns) ** 2, (near - returns) ** 2))


def _divergence_estimates(log_prob: Array, old_log_prob: Array) -> Iterator[Array]:
    """The one that is never negative, of samples from the old policy or from the new one."""
    for log_ratio in (log_prob - old_log_prob, old_log_prob - log_prob):
        yield from totals(np.exp(log_ratio) - 1 - log_ratio)


def _importance(log_prob: Array, old_log_prob: Array, advantages: Array) -> Iterator[Array]:
    for a in _standardized(advantages):
        yield from reductions(-np.exp(log_prob - old_log_prob) * a)


def _preference_margin(
    chosen: Array, rejected: Array, reference_chosen: Array, reference_rejected: Array
) -> Array:
    return (chosen - reference_chosen) - (rejected - reference_rejected)


def _dpo(
    chosen: Array, rejected: Array, reference_chosen: Array, reference_rejected: Array,
    beta: float,
) -> Iterator[Array]:  # fmt: skip
    margin = _preference_margin(chosen, rejected, reference_chosen, reference_rejected)
    yield from reductions(softplus(-beta * margin))


def _ipo(
    chosen: Array, rejected: Array, reference_chosen: Array, reference_rejected: Array,
    beta: float,
) -> Iterator[Array]:  # fmt: skip
    margin = _preference_margin(chosen, rejected, reference_chosen, reference_rejected)
    yield from reductions((margin - 0.5 / beta) ** 2)


def _simpo(chosen: Array, rejected: Array, beta: float, gamma: float) -> Iterator[Array]:
    """The margin is one of rewards, or a share of beta."""
    for margin in (gamma, beta * gamma):
        yield from reductions(softplus(-(beta * (chosen - rejected) - margin)))


def _orpo(chosen: Array, rejected: Array) -> Iterator[Array]:
    odds = [x - np.log1p(-np.exp(x)) for x in (chosen, rejected)]
    yield from reductions(softplus(-(odds[0] - odds[1])))


def _group(rewards: Array, eps: float) -> Iterator[Array]:
    """Groups are rows."""
    off = rewards - rewards.mean(axis=-1, keepdims=True)
    yield off
    for ddof in (0, 1):
        yield off / (rewards.std(axis=-1, ddof=ddof, keepdims=True) + eps)


def _squashed(log_prob: Array, pre_tanh: Array) -> Iterator[Array]:
    for eps in (0.0, 1e-6, 1e-7, 1e-5):
        each = np.log(1 - np.tanh(pre_tanh) ** 2 + eps)
        yield from (log_prob - each.sum(axis=-1), np.asarray((log_prob - each.sum(axis=-1)).mean()))


def _squashed_each(log_prob: Array, pre_tanh: Array) -> Iterator[Array]:
    for eps in (0.0, 1e-6, 1e-7, 1e-5):
        each = log_prob - np.log(1 - np.tanh(pre_tanh) ** 2 + eps)
        yield from (each, each.sum(axis=-1))


def _squashed_action(log_prob: Array, action: Array, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        each = log_prob - np.log(1 - action**2 + e)
        yield from (each, each.sum(axis=-1))


def _soft_actor(log_prob: Array, q: Array, other_q: Array, alpha: float) -> Iterator[Array]:
    yield from reductions(alpha * log_prob - np.minimum(q, other_q))


def _temperature(log_prob: Array, log_alpha: float, target_entropy: float) -> Iterator[Array]:
    for factor in (log_alpha, np.exp(log_alpha)):
        yield from reductions(-factor * (log_prob + target_entropy))


def _quantile_huber(
    prediction: Array, target: Array, quantiles: Array, kappa: float
) -> Iterator[Array]:
    """Each predicted quantile meets each target."""
    u = target[:, None, :] - prediction[:, :, None]
    size = np.abs(u)
    huber = np.where(size <= kappa, 0.5 * u**2, kappa * (size - 0.5 * kappa))
    each = np.abs(quantiles[None, :, None] - (u < 0)) * huber
    yield from (each, each.mean(axis=2), each.mean(axis=(1, 2)), np.asarray(each.mean()))


def _dueling(value: Array, advantages: Array) -> Iterator[Array]:
    yield value[:, None] + advantages - advantages.mean(axis=-1, keepdims=True)
    yield value[:, None] + advantages - advantages.max(axis=-1, keepdims=True)


def _conservative(q: Array, actions: Array) -> Iterator[Array]:
    taken = np.take_along_axis(q, actions[:, None].astype(int), axis=1)[:, 0]
    yield from totals(np.logaddexp.reduce(q, axis=1) - taken)


def _soft_update(target: Array, online: Array, tau: float) -> Iterator[Array]:
    yield tau * online + (1 - tau) * target


def _upper_bound(mean: Array, counts: Array, c: float) -> Iterator[Array]:
    """UCB1, of as many trials as there were, or one more."""
    for total in (counts.sum(), counts.sum() + 1):
        yield mean + c * np.sqrt(np.log(total) / counts)
        yield mean + np.sqrt(c * np.log(total) / counts)


def _puct(q: Array, prior: Array, counts: Array, c: float) -> Iterator[Array]:
    for total in (counts.sum(), counts.sum() + 1):
        yield q + c * prior * np.sqrt(total) / (1 + counts)


def _expected_soft(logits: Array, q: Array, alpha: float) -> Iterator[Array]:
    """Soft actor-critic of finitely many actions: the value of a state, or the actor's loss."""
    each = (softmax(logits) * (q - alpha * log_softmax(logits))).sum(axis=-1)
    yield from totals(each)


_PG = ("reinforce*", "policy*", "pg", "logprob*", "actor*", "prob*")
_PPO = ("ppo*", "ratio*", "clip*", "surr*")
_WILLIAMS = "Williams, Simple statistical gradient-following algorithms, 1992"
_SCHULMAN = "Schulman et al., Proximal policy optimization algorithms, 2017"
_FOUR = "chosen[*], rejected[*], reference_chosen[*], reference_rejected[*]"
_HAARNOJA = "Haarnoja et al., Soft actor-critic, 2018, appendix C"
_TANH = ("tanh*", "squash*", "sac", "logprob*", "logp", "logpi")

ROWS = (
    Formula("policy gradient", _PG, "log_prob[*], returns[*]", _policy_gradient, _WILLIAMS,
            "factor"),
    Formula("policy gradient with a baseline", (*_PG, "baseline*", "adv*"),
            "log_prob[*], returns[*], values[*]", _with_baseline, _WILLIAMS, "factor"),
    Formula("actor-critic loss", ("a2c", "a3c", "ac", "critic*"),
            "log_prob[*], returns[*], values[*], weight[]", _actor_critic,
            "Mnih et al., Asynchronous methods for deep reinforcement learning, 2016", "factor"),
    Formula("clipped policy objective of ratios", _PPO, "ratio[*], advantages[*], clip[]",
            _clipped, f"{_SCHULMAN}, equation 7", "factor"),
    Formula("clipped policy objective", _PPO,
            "log_prob[*], old_log_prob[*], advantages[*], clip[]", _clipped_logs,
            f"{_SCHULMAN}, equation 7", "factor"),
    Formula("clipped value loss", ("clip*", "vf", "value*", "vloss"),
            "values[*], old_values[*], returns[*], clip[]", _clipped_values,
            "OpenAI baselines, ppo2; Engstrom et al., Implementation matters in deep policy "
            "gradients, 2020", "factor"),
    Formula("estimate of a divergence by samples", ("kl*", "approxkl", "approx"),
            "log_prob[*], old_log_prob[*]", _divergence_estimates,
            "Schulman, Approximating KL divergence, 2020", "factor"),
    Formula("surrogate policy objective", ("ratio*", "surr*", "importance", "trpo"),
            "log_prob[*], old_log_prob[*], advantages[*]", _importance,
            "Schulman et al., Trust region policy optimization, 2015, equation 14", "factor"),
    Formula("DPO loss", ("dpo*", "chosen*", "rejected*", "prefer*"), f"{_FOUR}, beta[]", _dpo,
            "Rafailov et al., Direct preference optimization, 2023, equation 7", "factor"),
    Formula("IPO loss", ("ipo*", "chosen*", "rejected*", "prefer*"), f"{_FOUR}, beta[]", _ipo,
            "Azar et al., A general theoretical paradigm to understand learning from human "
            "preferences, 2023, equation 17", "factor"),
    Formula("SimPO loss", ("simpo*", "chosen*", "rejected*"),
            "chosen[*], rejected[*], beta[], gamma[]", _simpo,
            "Meng, Xia and Chen, SimPO, 2024, equation 6", "factor"),
    Formula("odds ratio loss", ("orpo*", "odds*"), "chosen[*], rejected[*]", _orpo,
            "Hong, Lee and Thorne, ORPO, 2024", "factor"),
    Formula("advantages within groups", ("grpo*", "group*", "adv*"), "rewards[g k], eps[]",
            _group, "Shao et al., DeepSeekMath, 2024, section 4.1", "scale"),
    Formula("log-probability of squashed actions", _TANH, "log_prob[n], pre_tanh[n d]",
            _squashed, _HAARNOJA, "factor"),
    Formula("log-probability of squashed numbers", _TANH, "log_prob[*], pre_tanh[*]",
            _squashed_each, _HAARNOJA, "factor"),
    Formula("log-probability by squashed actions", _TANH, "log_prob[*], action[*], eps[]",
            _squashed_action, _HAARNOJA, "factor"),
    Formula("actor loss of soft actor-critic", ("sac", "actor*", "pi", "policy*"),
            "log_prob[*], q[*], other_q[*], alpha[]", _soft_actor,
            "Haarnoja et al., Soft actor-critic algorithms and applications, 2018", "factor"),
    Formula("temperature loss of soft actor-critic", ("logalpha", "targetentropy"),
            "log_prob[*], log_alpha[], target_entropy[]", _temperature,
            "Haarnoja et al., Soft actor-critic algorithms and applications, 2018", "factor"),
    Formula("quantile Huber loss", ("quantile*", "qr*", "iqn", "tau*", "huber"),
            "prediction[n q], target[n p], quantiles[q], kappa[]", _quantile_huber,
            "Dabney et al., Distributional reinforcement learning with quantile regression, "
            "2018, equation 10", "factor"),
    Formula("dueling values", ("duel*",), "value[n], advantages[n a]", _dueling,
            "Wang et al., Dueling network architectures, 2016, equation 9"),
    Formula("conservative penalty", ("cql*", "conservative"), "q[n a], actions[n]:int",
            _conservative, "Kumar et al., Conservative Q-learning, 2020, equation 4", "factor"),
    Formula("soft update", ("tau", "polyak*", "softupdate*"),
            "target[*], online[*], tau[]", _soft_update,
            "Lillicrap et al., Continuous control with deep reinforcement learning, 2016"),
    Formula("upper confidence bound", ("ucb*", "bandit*", "explor*"),
            "mean[n], counts[n], c[]", _upper_bound,
            "Auer, Cesa-Bianchi and Fischer, Finite-time analysis of the multiarmed bandit "
            "problem, 2002"),
    Formula("PUCT", ("puct*", "mcts*", "visit*", "prior*"),
            "q[n], prior[n], counts[n], c[]", _puct,
            "Silver et al., Mastering the game of Go without human knowledge, 2017"),
    Formula("soft value of finitely many actions", ("sac", "soft*", "alpha"),
            "logits[n a], q[n a], alpha[]", _expected_soft,
            "Christodoulou, Soft actor-critic for discrete action settings, 2019", "factor"),
    Formula("advantage weighted regression", ("awr*", "awac*", "iql*", "adv*", "weight*", *_PG),
            "log_prob[*], advantages[*], beta[]", _advantage_weighted,
            "Peng et al., Advantage-weighted regression, 2019, equation 10", "factor"),
)  # fmt: skip
"""Rows of this theme."""
