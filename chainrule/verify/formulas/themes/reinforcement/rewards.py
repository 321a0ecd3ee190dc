"""Sums of rewards: time is the first axis, and 1 in `done` ends an episode after its step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import reverse_discounted
from chainrule.verify.formulas.themes.reinforcement.endings import both


def _returns(rewards: Array, gamma: float) -> Iterator[Array]:
    """Of each step on, from the first on, and each return in the weight of its time."""
    shares = np.full_like(rewards, gamma)
    powers = gamma ** np.arange(len(rewards)).reshape(-1, *[1] * (rewards.ndim - 1))
    from_each = reverse_discounted(rewards, shares)
    yield from (from_each, powers * from_each, (powers * rewards).sum(axis=0))
    if rewards.ndim == 2:
        yield reverse_discounted(rewards.T, shares.T).T


def _ending_returns(rewards: Array, done: Array, gamma: float) -> Iterator[Array]:
    yield reverse_discounted(rewards, gamma * (1 - done))
    if rewards.ndim == 2:
        yield reverse_discounted(rewards.T, gamma * (1 - done.T)).T


def _with_last(rewards: Array, last_value: Array, gamma: float) -> Array:
    rewards = rewards.copy()
    rewards[-1] = rewards[-1] + gamma * last_value
    return rewards


def _bootstrapped(rewards: Array, last_value: Array, gamma: float) -> Iterator[Array]:
    yield from _returns(_with_last(rewards, last_value, gamma), gamma)


def _ending_bootstrapped(
    rewards: Array, done: Array, last_value: Array, gamma: float
) -> Iterator[Array]:
    rewards = _with_last(rewards, last_value * (1 - done[-1]), gamma)
    yield from _ending_returns(rewards, done, gamma)


def _gae(delta: Array, values: Array, shares: Array) -> Iterator[Array | tuple[Array, Array]]:
    """Advantages, and what they make of the values."""
    advantages = reverse_discounted(delta, shares)
    yield from (advantages, advantages + values, (advantages, advantages + values))


def _advantages(
    rewards: Array, done: Array, values: Array, next_values: Array, gamma: float, lam: float
) -> Iterator[Array | tuple[Array, Array]]:
    goes_on = gamma * (1 - done)
    yield from _gae(rewards + goes_on * next_values - values, values, lam * goes_on)


def _advantages_last(
    rewards: Array, done: Array, values: Array, last_value: Array, gamma: float, lam: float
) -> Iterator[Array | tuple[Array, Array]]:
    later = np.concatenate([values[1:], np.asarray(last_value)[None]])
    yield from _advantages(rewards, done, values, later, gamma, lam)


def _advantages_one_more(
    rewards: Array, done: Array, values: Array, gamma: float, lam: float
) -> Iterator[Array | tuple[Array, Array]]:
    if len(values) == len(rewards) + 1:
        yield from _advantages(rewards, done, values[:-1], values[1:], gamma, lam)


def _advantages_none_after(
    rewards: Array, done: Array, values: Array, gamma: float, lam: float
) -> Iterator[Array | tuple[Array, Array]]:
    """What follows the last step is worth nothing."""
    yield from _advantages_last(rewards, done, values, np.zeros_like(values[0]), gamma, lam)


def _advantages_endless(
    rewards: Array, values: Array, last_value: Array, gamma: float, lam: float
) -> Iterator[Array | tuple[Array, Array]]:
    yield from _advantages_last(rewards, np.zeros_like(rewards), values, last_value, gamma, lam)


def _advantages_endless_more(
    rewards: Array, values: Array, gamma: float, lam: float
) -> Iterator[Array | tuple[Array, Array]]:
    """One value more than rewards, or as many and nothing after."""
    done = np.zeros_like(rewards)
    yield from _advantages_one_more(rewards, done, values, gamma, lam)


def _advantages_endless_none(
    rewards: Array, values: Array, gamma: float, lam: float
) -> Iterator[Array | tuple[Array, Array]]:
    yield from _advantages_none_after(rewards, np.zeros_like(rewards), values, gamma, lam)


def _advantages_before(
    rewards: Array, done: Array, values: Array, next_value: Array, next_done: Array,
    gamma: float, lam: float,
) -> Iterator[Array | tuple[Array, Array]]:  # fmt: skip
    """`done` tells that a step is the first one of an episode, as in CleanRL."""
    ended = np.concatenate([done[1:], np.asarray(next_done)[None]])
    yield from _advantages_last(rewards, ended, values, next_value, gamma, lam)


def _lambda_returns(
    rewards: Array, done: Array, next_values: Array, gamma: float, lam: float
) -> Iterator[Array]:
    goes_on = gamma * (1 - done)
    first = rewards + goes_on * (1 - lam) * next_values
    first[-1] = (rewards + goes_on * next_values)[-1]
    yield reverse_discounted(first, lam * goes_on)


def _n_steps(rewards: Array, values: Array, gamma: float, steps: int) -> Iterator[Array]:
    """Rewards of so many steps each, then the value of the state reached, one more than rewards."""
    n = int(steps)
    if len(values) == len(rewards) + 1 and 0 < n <= len(rewards):
        starts = range(len(rewards) - n + 1)
        powers = gamma ** np.arange(n)
        yield np.array([powers @ rewards[k : k + n] + gamma**n * values[k + n] for k in starts])


def _v_trace(
    ratios: Array, discounts: Array, rewards: Array, values: Array, last_value: Array
) -> Iterator[Array | tuple[Array, Array]]:
    """Ratios are kept below 1; the second are weights of policy gradients."""
    top = np.minimum(ratios, 1.0)
    later = np.concatenate([values[1:], np.asarray(last_value)[None]])
    vs = values + reverse_discounted(top * (rewards + discounts * later - values), discounts * top)
    after = np.concatenate([vs[1:], np.asarray(last_value)[None]])
    weights = top * (rewards + discounts * after - values)
    yield from (vs, (vs, weights), weights)


def _v_trace_logs(
    log_ratios: Array, discounts: Array, rewards: Array, values: Array, last_value: Array
) -> Iterator[Array | tuple[Array, Array]]:
    yield from _v_trace(np.exp(log_ratios), discounts, rewards, values, last_value)


_RETURNS = ("return*", "discount*", "rtg", "togo", "g", "rewards")
_GAE = ("gae*", "adv*", "advantage*", "lam*")
_SUTTON = "Sutton and Barto, Reinforcement learning, 2018"
_SCHULMAN = (
    "Schulman et al., High-dimensional continuous control using generalized advantage "
    "estimation, 2016, equation 16"
)
_ESPEHOLT = "Espeholt et al., IMPALA, 2018, equation 1"
_FREE = "shift and scale"

ROWS = (
    *(Formula("discounted returns", _RETURNS, takes, _returns, f"{_SUTTON}, equation 3.8", _FREE)
      for takes in ("rewards[t], gamma[]", "rewards[t n], gamma[]")),
    *(row for axes in ("t", "t n")
      for row in both("discounted returns of episodes", _RETURNS,
                       f"rewards[{axes}], done[{axes}]:bool, gamma[]", _ending_returns,
                       f"{_SUTTON}, section 3.4", _FREE)),
    *(Formula("discounted returns with a last value", _RETURNS,
              f"rewards[{axes}], last_value[{last}], gamma[]", _bootstrapped,
              f"{_SUTTON}, equation 7.1", _FREE) for axes, last in (("t", ""), ("t n", "n"))),
    *(row for axes, last in (("t", ""), ("t n", "n"))
      for row in both("discounted returns of episodes with a last value", _RETURNS,
                       f"rewards[{axes}], done[{axes}]:bool, last_value[{last}], gamma[]",
                       _ending_bootstrapped, f"{_SUTTON}, section 3.4", _FREE)),
    Formula("n-step returns", ("nstep*", "multistep"),
            "rewards[t], values[t+1], gamma[], steps[]:int", _n_steps,
            f"{_SUTTON}, equation 7.1"),
    *both("generalized advantages by next values", _GAE,
           "rewards[t], done[t]:bool, values[t], next_values[t], gamma[], lam[]", _advantages,
           _SCHULMAN, _FREE),
    *(row for axes, last in (("t", ""), ("t n", "n"))
      for row in both("generalized advantages", _GAE, f"rewards[{axes}], done[{axes}]:bool, "
                       f"values[{axes}], last_value[{last}], gamma[], lam[]",
                       _advantages_last, _SCHULMAN, _FREE)),
    *both("generalized advantages by one value more", _GAE,
           "rewards[t], done[t]:bool, values[t+1], gamma[], lam[]", _advantages_one_more,
           _SCHULMAN, _FREE),
    *both("generalized advantages up to the end", _GAE,
           "rewards[t], done[t]:bool, values[t], gamma[], lam[]", _advantages_none_after,
           _SCHULMAN, _FREE),
    Formula("generalized advantages of one episode", _GAE,
            "rewards[t], values[t], last_value[], gamma[], lam[]", _advantages_endless,
            _SCHULMAN, _FREE),
    Formula("generalized advantages of one episode by one value more", _GAE,
            "rewards[t], values[t+1], gamma[], lam[]", _advantages_endless_more, _SCHULMAN, _FREE),
    Formula("generalized advantages of one episode up to the end", _GAE,
            "rewards[t], values[t], gamma[], lam[]", _advantages_endless_none, _SCHULMAN, _FREE),
    *(Formula("generalized advantages by first steps", _GAE,
              f"rewards[{axes}], done[{axes}]:bool, values[{axes}], next_value[{last}], "
              f"next_done[{last}]:bool, gamma[], lam[]", _advantages_before,
              f"{_SCHULMAN}; as in CleanRL", _FREE) for axes, last in (("t", ""), ("t n", "n"))),
    *both("lambda-returns", ("lambda*", "lam*", "return*", "td*"),
           "rewards[t], done[t]:bool, next_values[t], gamma[], lam[]", _lambda_returns,
           f"{_SUTTON}, equation 12.2", _FREE),
    Formula("V-trace", ("vtrace*", "rho*", "vs", "trace"),
            "ratios[t], discounts[t], rewards[t], values[t], last_value[]", _v_trace, _ESPEHOLT),
    Formula("V-trace by logarithms", ("vtrace*", "rho*", "vs", "trace"),
            "log_ratios[t], discounts[t], rewards[t], values[t], last_value[]", _v_trace_logs,
            _ESPEHOLT),
)  # fmt: skip
"""Rows of this theme."""
