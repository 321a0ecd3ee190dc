"""An op of your own, and how to know that its backward is right.

RMS norm scales each row to a mean square of 1, then by a gain. The first backward below forgets
that the scale itself depends on x: training with it works, only worse, so nobody would notice.
`verify.function` compares it with differences of the forward, names the mistake and proposes a
change of the code. The second backward is right; forward mode and second derivatives follow from
it, since what `forward` saves are its arguments. Zhang & Sennrich 2019, arXiv:1910.07467.

Run it: `python examples/own_op.py` (2 seconds).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import verify


def size(x: Any) -> Any:
    """The root of the mean square of each row: (m, n) -> (m, 1)."""
    return cr.sqrt((x * x).mean(axis=-1, keepdims=True))


def forward(ctx: Any, x: Any, gain: Any) -> Any:
    """y = gain x / r with r = size(x): x (m, n), gain (n,) -> y (m, n)."""
    ctx.save_for_backward(x, gain)
    return x / size(x) * gain


class Hasty(cr.Function):
    """RMS norm whose backward takes r for a constant: that is wrong."""

    forward = staticmethod(forward)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        """The cotangents of x and of the gain."""
        x, gain = ctx.saved_tensors
        r, s = size(x), g * gain
        unit = x / r
        x_bar = s / r
        return x_bar, (g * unit).sum(axis=0)


class RMSNorm(cr.Function):
    """RMS norm, with the term that comes through r."""

    forward = staticmethod(forward)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        """The cotangents of x and of the gain."""
        x, gain = ctx.saved_tensors
        r, s = size(x), g * gain
        unit = x / r
        x_bar = (s - unit * (s * unit).mean(axis=-1, keepdims=True)) / r
        return x_bar, (g * unit).sum(axis=0)


def composed(x: Any, gain: Any) -> Any:
    """The same of chainrule's own ops, whose backward the engine derives."""
    return x / size(x) * gain


def derivatives(norm: Any, x: Any, gain: Any, t: Any) -> dict[str, Any]:
    """Those by x: the gradient of a loss, norm's derivative along t, the loss's Hessian times t."""

    def loss(x: Any) -> Any:
        return (norm(x, gain) ** 3).sum()

    return {
        "gradient": cr.grad(loss)(x),
        "forward mode": cr.jvp(lambda x: norm(x, gain), (x,), (t,))[1],
        "Hessian times t": cr.hvp(loss, (x,), (t,))[0],
    }


def main() -> dict[str, float]:
    """Verify both; print and return how far derivatives of RMSNorm are from the engine's."""
    rng = np.random.default_rng(0)
    x, gain, t = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=(4, 5))
    for norm in (Hasty, RMSNorm):
        print(verify.function(norm, x, gain), end="\n\n")
    ours = derivatives(RMSNorm.apply, x, gain, t)
    engine = derivatives(composed, x, gain, t)
    off = {name: cr.max(cr.abs(ours[name] - engine[name])).item() for name in ours}
    print("RMSNorm beside what the engine derives, largest difference:")
    for name, difference in off.items():
        print(f"  {name:16}{difference:.1e}")
    return off


if __name__ == "__main__":
    main()
