"""Why deep stacks of sigmoids do not learn: each layer takes three quarters of the gradient.

sigmoid'(x) = s (1 - s) is at most 1/4, so ten layers leave at most 0.25^10, a millionth. With ReLU,
whose slope is 1 where it is on, and a path around each layer (x + f(x)) the gradient arrives. One
number per layer, so that the slope of each layer is all there is; a gradient a thousand times
smaller than the last layer's is called VANISHING.
"""

from itertools import pairwise

import chainrule as cr


def gradients(layer) -> list[float]:
    """The gradient that arrives at the output of each of ten layers, and at the input before."""
    x = cr.tensor(0.3, dtype="float64", requires_grad=True)
    points = [x]
    for _ in range(10):
        points.append(layer(points[-1]))
    for p in points[1:]:
        p.retain_grad()
    points[-1].backward()
    return [p.grad.item() for p in points]


flow = {
    "sigmoid": gradients(cr.sigmoid),
    "relu, with residuals": gradients(lambda x: x + cr.relu(0.1 * x)),
}
for name, g in flow.items():
    print(f"{name}\n  layer  gradient   kept")
    for i in range(10, -1, -1):
        kept = "" if i == 10 else f"{g[i] / g[i + 1]:.3f}"
        print(f"  {i:5}  {g[i]:8.1e}  {kept:5}  {'VANISHING' if g[i] < 1e-3 * g[10] else ''}")

sigmoid, residual = flow.values()
assert all(g <= 0.25 * above for g, above in pairwise(sigmoid))
assert sigmoid[0] < 1e-6
assert [g < 1e-3 for g in sigmoid] == [True] * 6 + [False] * 5
assert min(residual) >= 1
