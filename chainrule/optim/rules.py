"""SGD and the family of Adam: steps along averages of gradients. PyTorch's names and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.optim.bucket import Memory
from chainrule.optim.optimizer import Group
from chainrule.optim.traced_step import choose
from chainrule.optim.update_rule import Flag, Fractions, NotNegative, Number, UpdateRule

State = Mapping[str, Array]


@final
class SGD(UpdateRule):
    """p -= lr b, with b = momentum b + (1 - dampening) (g + weight_decay p); first undamped.

    With `nesterov` the step is along g + momentum b. Sutskever et al. 2013, ICML, section 2, in
    PyTorch's form, where lr multiplies the whole velocity.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8, 1.6], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-3
    momentum: NotNegative = 0.0
    dampening: Number = 0.0
    weight_decay: NotNegative = 0.0
    nesterov: Flag = False

    def agree(self, group: Group) -> None:
        """Nesterov needs momentum, undamped."""
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ConfigError("nesterov needs a momentum above 0 and dampening 0")

    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """The velocity, if there is momentum."""
        return {"momentum_buffer": Memory()} if group["momentum"] else {}

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """One step along the velocity."""
        momentum = group["momentum"]
        if momentum:
            b = state["momentum_buffer"]
            b *= momentum
            b += (1 - group["dampening"] * (step > 1)) * g
            if group["nesterov"]:
                g += momentum * b
            else:
                g = b
        p -= group["lr"] * g


def moments(group: Group, g: Array, state: State) -> None:
    """Let the averages of g and of its square follow g, which is scratch afterwards."""
    beta1, beta2 = group["betas"]
    m, v = state["exp_avg"], state["exp_avg_sq"]
    m *= beta1
    m += (1 - beta1) * g
    v *= beta2
    np.multiply(g, g, out=g)
    g *= 1 - beta2
    v += g


class _Adam(UpdateRule):
    """What Adam and AdamW share: everything but where the weight decay acts."""

    lr: NotNegative = 1e-3
    betas: Fractions = (0.9, 0.999)
    eps: NotNegative = 1e-8
    weight_decay: NotNegative = 0.0
    amsgrad: Flag = False

    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """The two moments, and with `amsgrad` the largest second one so far."""
        names = ["exp_avg", "exp_avg_sq", *["max_exp_avg_sq"][: group["amsgrad"]]]
        return dict.fromkeys(names, Memory())

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)."""
        moments(group, g, state)
        beta1, beta2 = group["betas"]
        v = state["exp_avg_sq"]
        if group["amsgrad"]:
            v = np.maximum(state["max_exp_avg_sq"], v, out=state["max_exp_avg_sq"])
        # the two corrections of the bias move into numbers, so that the vectors are read less often
        root = (1 - beta2**step) ** 0.5
        np.sqrt(v, out=g)
        g += group["eps"] * root
        np.divide(state["exp_avg"], g, out=g)
        g *= group["lr"] * root / (1 - beta1**step)
        p -= g


@final
class Adam(_Adam):
    """Steps of a size that does not depend on the gradient's scale; weight decay is part of g.

    Kingma & Ba 2015, arXiv:1412.6980, algorithm 1; with `amsgrad` Reddi et al. 2018,
    arXiv:1904.09237, algorithm 2.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.90000004, 1.9       ], dtype=float32, requires_grad=True)
    """

    _: KW_ONLY
    decoupled_weight_decay: Flag = False


@final
class AdamW(_Adam):
    """Adam whose weight decay acts on the parameters themselves: p *= 1 - lr weight_decay.

    Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.AdamW([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.89900005, 1.898     ], dtype=float32, requires_grad=True)
    """

    weight_decay: NotNegative = 1e-2
    decay: ClassVar[Any] = "parameter"


@final
class NAdam(UpdateRule):
    """Adam with Nesterov's momentum, which grows from beta1 / 2 to beta1 at `momentum_decay`.

    Dozat 2016, ICLR workshop, algorithm 2, in PyTorch's form.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8943548, 1.8943548], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 2e-3
    betas: Fractions = (0.9, 0.999)
    eps: NotNegative = 1e-8
    weight_decay: NotNegative = 0.0
    momentum_decay: NotNegative = 4e-3
    decoupled_weight_decay: Flag = False

    state_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")

    def first_numbers(self) -> Mapping[str, float]:
        """The product of all momenta so far."""
        return {"mu_product": 1.0}

    def next_numbers(self, group: Group, step: int, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """Times the momentum of this step."""
        return {"mu_product": numbers["mu_product"] * _momentum(group, step)}

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr ((1 - mu) g / (1 - M) + mu' m / (1 - M mu')) / (sqrt(v / (1 - beta2^t)) + eps),
        mu and mu' the momenta of this step and the next, M the product."""
        mu, after, product = _momentum(group, step), _momentum(group, step + 1), state["mu_product"]
        ahead = g * (group["lr"] * (1 - mu) / (1 - product))
        moments(group, g, state)
        ahead += state["exp_avg"] * (group["lr"] * after / (1 - product * after))
        np.divide(state["exp_avg_sq"], 1 - group["betas"][1] ** step, out=g)
        np.sqrt(g, out=g)
        g += group["eps"]
        p -= ahead / g


def _momentum(group: Group, step: int) -> Any:
    return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))


@final
class RAdam(UpdateRule):
    """Adam that divides by the second moment only once its variance is known, after a few steps.

    Liu et al. 2020, arXiv:1908.03265, algorithm 2.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8, 1.6], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-3
    betas: Fractions = (0.9, 0.999)
    eps: NotNegative = 1e-8
    weight_decay: NotNegative = 0.0
    decoupled_weight_decay: Flag = False

    state_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr m / (1 - beta1^t), divided by the rectified root of v from rho = 5 on."""
        moments(group, g, state)
        beta1, beta2 = group["betas"]
        power = beta2**step
        most = 2 / (1 - beta2) - 1
        rho = most - 2 * step * power / (1 - power)
        known = choose(rho > 5, rho, 6.0)  # of shorter ones the root would not be real
        rect = (known - 4) * (known - 2) * most / ((most - 4) * (most - 2) * known)
        np.sqrt(state["exp_avg_sq"], out=g)
        g += group["eps"]
        g = choose(rho > 5, (rect * (1 - power)) ** 0.5 / g, 1.0)
        p -= (group["lr"] / (1 - beta1**step)) * g * state["exp_avg"]


@final
class Adamax(UpdateRule):
    """Adam with the largest gradient, fading, in place of the second moment.

    Kingma & Ba 2015, arXiv:1412.6980, algorithm 2.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9, 1.9], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 2e-3
    betas: Fractions = (0.9, 0.999)
    eps: NotNegative = 1e-8
    weight_decay: NotNegative = 0.0

    state_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_inf")

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= lr m / (1 - beta1^t) / u, with u = max(beta2 u, |g| + eps)."""
        beta1, beta2 = group["betas"]
        m, u = state["exp_avg"], state["exp_inf"]
        m *= beta1
        m += (1 - beta1) * g
        u *= beta2
        np.absolute(g, out=g)
        g += group["eps"]
        np.maximum(u, g, out=u)
        p -= (group["lr"] / (1 - beta1**step)) * m / u
