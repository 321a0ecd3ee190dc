"""The backward pass of an MLP written out in NumPy, beside the one that the engine derives.

4 inputs, layers of 32 and 16 sigmoids, softmax over 3 classes, the cross-entropy averaged over 200
rows, 200 epochs of gradient descent at 0.1. Each line of `by_hand` undoes one line of the forward
pass, in the opposite order. The engine's gradient is the same to rounding in every epoch.
"""

import numpy as np

import chainrule as cr

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
labels = np.argmax(X @ rng.normal(size=(4, 3)), axis=1)
Y, B = np.eye(3)[labels], 200
sizes = {"W1": (4, 32), "b1": 32, "W2": (32, 16), "b2": 16, "W3": (16, 3), "b3": 3}
params = {k: rng.normal(0, 0.5, s) if k[0] == "W" else np.zeros(s) for k, s in sizes.items()}


def loss(p):
    h1 = cr.sigmoid(X @ p["W1"] + p["b1"])
    h2 = cr.sigmoid(h1 @ p["W2"] + p["b2"])
    return cr.cross_entropy(h2 @ p["W3"] + p["b3"], labels)


def by_hand(p):
    h1 = 1 / (1 + np.exp(-(X @ p["W1"] + p["b1"])))
    h2 = 1 / (1 + np.exp(-(h1 @ p["W2"] + p["b2"])))
    e = np.exp(h2 @ p["W3"] + p["b3"])
    d3 = (e / e.sum(axis=1, keepdims=True) - Y) / B  # softmax and cross-entropy
    d2 = d3 @ p["W3"].T * h2 * (1 - h2)  # back through W3, then the second sigmoid
    d1 = d2 @ p["W2"].T * h1 * (1 - h1)
    bars = {"W1": X.T @ d1, "W2": h1.T @ d2, "W3": h2.T @ d3}
    return bars | {"b1": d1.sum(axis=0), "b2": d2.sum(axis=0), "b3": d3.sum(axis=0)}


value_and_grad = cr.value_and_grad(loss)
losses, worst = [], dict.fromkeys(sizes, (0.0, 0.0))
for _ in range(200):
    value, gradient = value_and_grad(params)
    losses.append(value.item())
    hand = by_hand(params)
    for k in sizes:
        off, scale = np.abs(gradient[k].numpy() - hand[k]).max(), np.abs(hand[k]).max()
        worst[k] = max(worst[k], (off, off / scale))
    params = {k: x - 0.1 * gradient[k].numpy() for k, x in params.items()}

print("    max abs difference   relative   status")
for k, (off, relative) in worst.items():
    print(f"{k}  {off:18.1e}   {relative:8.1e}   {'same' if off < 1e-12 else 'DIFFERENT'}")
    assert off < 1e-12
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
assert losses[-1] < losses[0]
