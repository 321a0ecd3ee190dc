"""Fits a differential equation to data: lynxes and hares in Canada, 1900 to 1920.

    hares' = a hares - b hares lynxes,   lynxes' = -c lynxes + d hares lynxes

The loss is a function of the equation's solution, so its gradient goes back through every step of
the solver. a, b, c, d and both populations of 1900 are found together, as logarithms: they are
positive. Pelts in thousands, from the Hudson's Bay Company (Howard 2009, "Modeling basics").

Run it: `python examples/ode_lynx_and_hare.py` (1 second).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import optim

HARES = [
    30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1,
    40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7,
]  # fmt: skip
LYNXES = [
    4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4,
    8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6,
]  # fmt: skip
SEEN = np.log(np.array([HARES, LYNXES]).T)
"""(21, 2), one row a year."""
STEPS_A_YEAR = 10


def slope(state: Any, rates: Any) -> Any:
    """The equation: populations (2,) and rates a, b, c, d -> their change in a year (2,)."""
    hares, lynxes = state
    a, b, c, d = rates
    return cr.stack([a * hares - b * hares * lynxes, -c * lynxes + d * hares * lynxes])


def next_step(state: Any, rates: Any, h: float) -> Any:
    """The populations h years later, by the classical method of Runge and Kutta."""
    k1 = slope(state, rates)
    k2 = slope(state + h / 2 * k1, rates)
    k3 = slope(state + h / 2 * k2, rates)
    k4 = slope(state + h * k3, rates)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def solution(logs: Any) -> Any:
    """Logarithms of two populations and four rates (6,) -> populations of all years (21, 2)."""
    first, rates = cr.split(cr.exp(logs), [2, 4])

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        after = next_step(state, rates, 1 / STEPS_A_YEAR)
        return after, after

    _, states = cr.scan(step, first, length=20 * STEPS_A_YEAR)
    return cr.concat([first[None], states[STEPS_A_YEAR - 1 :: STEPS_A_YEAR]])


def main(steps: int = 3) -> float:
    """Fit, print rates and curves, return the loss: the mean square of the logarithms' errors."""
    logs = cr.tensor(np.log([30, 4, 0.5, 0.025, 0.8, 0.025]), requires_grad=True)
    optimizer = optim.LBFGS([logs], line_search_fn="strong_wolfe")

    @cr.jit
    def closure() -> Any:
        optimizer.zero_grad()
        loss = cr.mse_loss(cr.log(solution(logs)), SEEN)
        loss.backward()
        return loss

    for k in range(steps):
        print(f"loss before step {k + 1}: {optimizer.step(closure).item():.4f}")
    with cr.no_grad():
        curves, rates = solution(logs).numpy(), cr.exp(logs[2:]).tolist()
    print("a {:.3f}, b {:.4f}, c {:.3f}, d {:.4f}".format(*rates))
    print("\nyear  lynxes: counted, curve   * curve   o counted")
    for year, (seen, found) in enumerate(zip(LYNXES, curves[:, 1], strict=True)):
        row = [" "] * 64
        row[round(found)], row[round(seen)] = "*", "o"
        print(f"{1900 + year}  {seen:6.1f} {found:6.1f}  {''.join(row).rstrip()}")
    return float(((np.log(curves) - SEEN) ** 2).mean())


if __name__ == "__main__":
    main()
