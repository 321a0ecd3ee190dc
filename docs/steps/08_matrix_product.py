"""A layer is one matrix product, and its derivative is two: dX = dY W^T, dW = X^T dY.

Each gradient has the shape of what it belongs to, and there is only one way to multiply dY with the
other factor so that the shapes fit. Shapes: X (2, 3), W (3, 4), Y and dY (2, 4). In code dY is
`y_bar`.
"""

import numpy as np

import chainrule as cr

rng = np.random.default_rng(0)
X = cr.tensor(rng.normal(size=(2, 3)), requires_grad=True)
W = cr.tensor(rng.normal(size=(3, 4)), requires_grad=True)
y_bar = rng.normal(size=(2, 4))

Y = X @ W
Y.backward(y_bar)
print("X", X.shape, "@ W", W.shape, "= Y", Y.shape)
print("dX = dY W^T:", X.grad.shape, " dW = X^T dY:", W.grad.shape)
assert np.allclose(X.grad.numpy(), y_bar @ W.detach().numpy().T, rtol=1e-14)
assert np.allclose(W.grad.numpy(), X.detach().numpy().T @ y_bar, rtol=1e-14)
assert X.grad.shape == X.shape
assert W.grad.shape == W.shape

# Entry by entry it is the chain rule of step 1: W[1, 2] acts on column 2 of Y, times column 1 of X.
by_hand = sum(X.detach().numpy()[i, 1] * y_bar[i, 2] for i in range(2))
print(f"dW[1, 2] = {W.grad.numpy()[1, 2]:.6f}, summed by hand {by_hand:.6f}")
assert abs(W.grad.numpy()[1, 2] - by_hand) < 1e-14
