"""Steps scaled by what gradients have been, element by element; and those of signs alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.optim.bucket import Memory
from chainrule.optim.optimizer import Group
from chainrule.optim.traced_step import choose
from chainrule.optim.update_rule import (
    Flag,
    Fraction,
    Fractions,
    NotNegative,
    UpdateRule,
    numbers_such_that,
)

State = Mapping[str, Array]
_ETAS = numbers_such_that(lambda *x: 0 < x[0] < 1 < x[1], "two numbers, in (0, 1) and above 1")
_SIZES = numbers_such_that(lambda *x: 0 <= x[0] <= x[1], "two numbers, the least and the most")


@final
class RMSprop(UpdateRule):
    """p -= lr g / (sqrt(v) + eps), v the average of g squared; `centered`, its variance.

    Tieleman & Hinton 2012, lecture 6.5; centered as in Graves 2013, arXiv:1308.0850, section 4.2.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.RMSprop([w], lr=0.01)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.90000004, 1.9       ], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-2
    alpha: NotNegative = 0.99
    eps: NotNegative = 1e-8
    weight_decay: NotNegative = 0.0
    momentum: NotNegative = 0.0
    centered: Flag = False

    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """The average square; with momentum the velocity; `centered`, the average gradient."""
        names = ["square_avg", *["momentum_buffer"][: group["momentum"] > 0]]
        return dict.fromkeys([*names, *["grad_avg"][: group["centered"]]], Memory())

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr g / (sqrt(v) + eps), v the average of g^2; `centered`, its average deviation."""
        alpha, v = group["alpha"], state["square_avg"]
        v *= alpha
        v += (1 - alpha) * g * g
        root = v
        if group["centered"]:
            mean = state["grad_avg"]
            mean += (1 - alpha) * (g - mean)
            root = v - mean * mean
        g /= np.sqrt(root) + group["eps"]
        momentum = group["momentum"]
        if momentum:
            b = state["momentum_buffer"]
            b *= momentum
            b += g
            g = b
        p -= group["lr"] * g


@final
class Adagrad(UpdateRule):
    """p -= lr g / (sqrt(s) + eps), s the sum of all g squared; lr falls by `lr_decay`.

    Duchi, Hazan & Singer 2011, JMLR 12, figure 1 (the diagonal case).

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9, 1.9], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-2
    lr_decay: NotNegative = 0.0
    weight_decay: NotNegative = 0.0
    initial_accumulator_value: NotNegative = 0.0
    eps: NotNegative = 1e-10

    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """The sum of squares."""
        return {"sum": Memory(float(group["initial_accumulator_value"]))}

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps), s the sum of all g^2 so far."""
        s = state["sum"]
        s += g * g
        g /= np.sqrt(s) + group["eps"]
        p -= (group["lr"] / (1 + (step - 1) * group["lr_decay"])) * g


@final
class Adadelta(UpdateRule):
    """Steps in the parameters' own units: the ratio of the averages of steps and of gradients.

    Zeiler 2012, arXiv:1212.5701, algorithm 1.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.Adadelta([w], lr=1.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.99683774, 1.9968377 ], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1.0
    rho: Fraction = 0.9
    eps: NotNegative = 1e-6
    weight_decay: NotNegative = 0.0

    state_names: ClassVar[tuple[str, ...]] = ("square_avg", "acc_delta")

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr d, d = g sqrt(D + eps) / sqrt(v + eps); v, D average g^2 and d^2."""
        rho, eps = group["rho"], group["eps"]
        v, d = state["square_avg"], state["acc_delta"]
        v *= rho
        v += (1 - rho) * g * g
        g *= np.sqrt(d + eps) / np.sqrt(v + eps)
        d *= rho
        d += (1 - rho) * g * g
        p -= group["lr"] * g


@final
class Rprop(UpdateRule):
    """A step size for each element: larger while its gradient keeps its sign, else smaller.

    Riedmiller & Braun 1993, IEEE ICNN; no step back where the sign has changed (Rprop-).

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9, 1.9], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-2
    etas: Annotated[tuple[float, float], _ETAS] = (0.5, 1.2)
    step_sizes: Annotated[tuple[float, float], _SIZES] = (1e-6, 50.0)

    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """The gradient of the step before, and the step sizes."""
        return {"prev": Memory(), "step_size": Memory(float(group["lr"]))}

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= size sign(g), after the size has grown or shrunk; no step where the sign changed."""
        (down, up), (least, most) = group["etas"], group["step_sizes"]
        before, size = state["prev"], state["step_size"]
        agreement = np.sign(g * before)
        size *= choose(agreement > 0, up, choose(agreement < 0, down, 1.0))
        np.maximum(size, least, out=size)
        np.minimum(size, most, out=size)
        g *= agreement >= 0
        p -= np.sign(g) * size
        before *= 0
        before += g


@final
class Lion(UpdateRule):
    """Steps of one size, along the sign of an average of gradients; decoupled weight decay.

    Chen et al. 2023, arXiv:2302.06675, program 1.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.Lion([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9, 1.9], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-4
    betas: Fractions = (0.9, 0.99)
    weight_decay: NotNegative = 0.0

    state_names: ClassVar[tuple[str, ...]] = ("exp_avg",)
    decay: ClassVar[Any] = "parameter"

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr sign(beta1 m + (1 - beta1) g), then m follows g by beta2."""
        (beta1, beta2), m = group["betas"], state["exp_avg"]
        p -= group["lr"] * np.sign(beta1 * m + (1 - beta1) * g)
        m *= beta2
        g *= 1 - beta2
        m += g
