"""The optimizers: SGD, Adam, AdamW. PyTorch's words, defaults and numbers.

Each `update` works on vectors in place. Notation: p parameters, g gradient, m and v the moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

import numpy as np

from chainrule.errors import ConfigError
from chainrule.op import Array
from chainrule.optim.optimizer import Group, Optimizer, check_range
from chainrule.tensors import Tensor

Params = Iterable[Tensor] | Iterable[Mapping[str, Any]]


@final
class SGD(Optimizer):
    """p -= lr b, with b = momentum b + (1 - dampening) (g + weight_decay p); first undamped.

    With `nesterov` the step is along g + momentum b. Sutskever et al. 2013, ICML, section 2, in
    PyTorch's form, where lr multiplies the whole velocity.
    """

    state_names: ClassVar[tuple[str, ...]] = ("momentum_buffer",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )

    def check(self, group: Group) -> None:
        """lr, momentum and weight decay are not negative; Nesterov needs momentum, undamped."""
        for name in ("lr", "momentum", "weight_decay"):
            check_range(name, group[name])
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ConfigError("nesterov needs a momentum above 0 and dampening 0")

    def update(
        self, group: Group, step: int, p: Array, g: Array, state: Mapping[str, Array]
    ) -> None:
        """One step along the velocity."""
        momentum, decay = group["momentum"], group["weight_decay"]
        if decay:
            g += decay * p
        if momentum:
            b = state["momentum_buffer"]
            b *= momentum
            b += (1 - group["dampening"] * (step > 1)) * g
            if group["nesterov"]:
                g += momentum * b
            else:
                g = b
        p -= group["lr"] * g


class _Adam(Optimizer):
    """What Adam and AdamW share: everything but where the weight decay acts."""

    state_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")
    decoupled: ClassVar[bool]

    def __init__(
        self,
        params: Params,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        settings: dict[str, Any] = {"lr": lr, "betas": betas, "eps": eps}
        super().__init__(params, {**settings, "weight_decay": weight_decay})

    def check(self, group: Group) -> None:
        """lr, eps and weight decay are not negative; betas are in [0, 1)."""
        for name in ("lr", "eps", "weight_decay"):
            check_range(name, group[name])
        for beta in group["betas"]:
            check_range("each of betas", beta, below=1, what="a number in [0, 1)")

    def update(
        self, group: Group, step: int, p: Array, g: Array, state: Mapping[str, Array]
    ) -> None:
        """p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)."""
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        if decay and self.decoupled:
            p *= 1 - lr * decay
        elif decay:
            g += decay * p
        m *= beta1
        m += (1 - beta1) * g
        v *= beta2
        np.multiply(g, g, out=g)
        g *= 1 - beta2
        v += g
        # the two corrections of the bias move into numbers, so that the vectors are read less often
        root = (1 - beta2**step) ** 0.5
        np.sqrt(v, out=g)
        g += group["eps"] * root
        np.divide(m, g, out=g)
        g *= lr * root / (1 - beta1**step)
        p -= g


@final
class Adam(_Adam):
    """Steps of a size that does not depend on the gradient's scale; weight decay is part of g.

    Kingma & Ba 2015, arXiv:1412.6980, algorithm 1.
    """

    decoupled: ClassVar[bool] = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


@final
class AdamW(_Adam):
    """Adam whose weight decay acts on the parameters themselves: p *= 1 - lr weight_decay.

    Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2.
    """

    decoupled: ClassVar[bool] = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
