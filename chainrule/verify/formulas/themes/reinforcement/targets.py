"""What values of states and actions are trained for: rewards, and values of what follows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.themes.reinforcement.endings import both


def _target(rewards: Array, done: Array, next_values: Array, gamma: float) -> Iterator[Array]:
    yield rewards + gamma * (1 - done) * next_values


def _later_target(
    rewards: Array, done: Array, next_values: Array, gamma: float, steps: int
) -> Iterator[Array]:
    yield rewards + gamma**steps * (1 - done) * next_values


def _later_target_of_best(
    rewards: Array, done: Array, next_q: Array, gamma: float, steps: int
) -> Iterator[Array]:
    yield from _later_target(rewards, done, next_q.max(axis=-1), gamma, steps)


def _target_of_best(rewards: Array, done: Array, next_q: Array, gamma: float) -> Iterator[Array]:
    yield rewards + gamma * (1 - done) * next_q.max(axis=-1)


def _double_target(
    rewards: Array, done: Array, online_q: Array, target_q: Array, gamma: float
) -> Iterator[Array]:
    best = np.take_along_axis(target_q, online_q.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    yield rewards + gamma * (1 - done) * best


def _twin_target(
    rewards: Array, done: Array, q: Array, other_q: Array, gamma: float
) -> Iterator[Array]:
    yield rewards + gamma * (1 - done) * np.minimum(q, other_q)


def _soft_target(
    rewards: Array, done: Array, q: Array, other_q: Array, log_prob: Array, gamma: float,
    alpha: float,
) -> Iterator[Array]:  # fmt: skip
    soft = np.minimum(q, other_q) - alpha * log_prob
    yield rewards + gamma * (1 - done) * soft


def _error(
    rewards: Array, done: Array, values: Array, next_values: Array, gamma: float
) -> Iterator[Array]:
    error = rewards + gamma * (1 - done) * next_values - values
    yield from (error, error**2, np.asarray((error**2).mean()))


def _projected(
    rewards: Array, done: Array, next_probability: Array, support: Array, gamma: float
) -> Iterator[Array]:
    """Each atom's share goes to the two atoms around where it comes to lie."""
    step = support[1] - support[0]
    moved = rewards[:, None] + gamma * (1 - done[:, None]) * support
    moved = np.clip(moved, support[0], support[-1])
    near = np.clip(1 - np.abs(moved[:, :, None] - support) / step, 0, 1)
    yield (next_probability[:, :, None] * near).sum(axis=1)


def _expected_next(
    rewards: Array, done: Array, next_q: Array, policy: Array, gamma: float
) -> Iterator[Array]:
    yield rewards + gamma * (1 - done) * (policy * next_q).sum(axis=-1)


_Q = ("td*", "q", "dqn*", "target*", "bellman*", "qvalues", "next*")
_SUTTON = "Sutton and Barto, Reinforcement learning, 2018"

ROWS = (
    *both("TD target", _Q, "rewards[*], done[*]:bool, next_values[*], gamma[]", _target,
           f"{_SUTTON}, equation 6.2"),
    *both("Q-learning target", _Q, "rewards[n], done[n]:bool, next_q[n a], gamma[]",
           _target_of_best, "Watkins 1989; Mnih et al., Human-level control through deep "
           "reinforcement learning, 2015"),
    *both("target of double Q-learning", ("double*", "ddqn", "online*", "argmax", *_Q),
           "rewards[n], done[n]:bool, online_q[n a], target_q[n a], gamma[]", _double_target,
           "van Hasselt, Guez and Silver, Deep reinforcement learning with double Q-learning, "
           "2016, equation 4"),
    *both("target of the smaller of two values", ("td3", "min", "twin", "q1", "q2", *_Q),
           "rewards[*], done[*]:bool, q[*], other_q[*], gamma[]", _twin_target,
           "Fujimoto, van Hoof and Meger, Addressing function approximation error (TD3), 2018, "
           "equation 10"),
    *both("target of soft actor-critic", ("sac", "soft*", "alpha", *_Q),
           "rewards[*], done[*]:bool, q[*], other_q[*], log_prob[*], gamma[], alpha[]",
           _soft_target, "Haarnoja et al., Soft actor-critic algorithms and applications, 2018"),
    *both("target of expected Sarsa", ("sarsa", "expected", *_Q),
           "rewards[n], done[n]:bool, next_q[n a], policy[n a], gamma[]", _expected_next,
           f"{_SUTTON}, equation 6.9"),
    *both("TD error", ("td*", "delta*", "error", "critic*"),
           "rewards[*], done[*]:bool, values[*], next_values[*], gamma[]", _error,
           f"{_SUTTON}, equation 6.5"),
    *both("projection of value distributions", ("c51", "atoms*", "support", "categorical",
           "projec*"), "rewards[n], done[n]:bool, next_probability[n k], support[k], gamma[]",
           _projected, "Bellemare, Dabney and Munos, A distributional perspective on "
           "reinforcement learning, 2017, algorithm 1"),
    *both("TD target after several steps", (*_Q, "nstep*"),
           "rewards[*], done[*]:bool, next_values[*], gamma[], steps[]:int", _later_target,
           f"{_SUTTON}, equation 7.1"),
    *both("Q-learning target after several steps", (*_Q, "nstep*"),
           "rewards[n], done[n]:bool, next_q[n a], gamma[], steps[]:int", _later_target_of_best,
           "Hessel et al., Rainbow, 2018"),
)  # fmt: skip
"""Rows of this theme."""
