"""Softmax turns scores into probabilities p. Each of them depends on every score.

Its Jacobian is diag(p) - p p^T; multiplied with a cotangent g that is p * (g - <g, p>), so nobody
needs the matrix. With the cross-entropy of the right class y on top almost everything cancels: (p -
y) / B. Shapes: scores (B, C) = (3, 4).
"""

import numpy as np

import chainrule as cr

rng = np.random.default_rng(1)
scores = rng.normal(size=(3, 4))
g = rng.normal(size=(3, 4))

p, pull = cr.vjp(cr.softmax, scores)
p = p.numpy()
(x_bar,) = [x.numpy() for x in pull(g)]
print("rows of p sum to", p.sum(axis=1))
assert np.allclose(x_bar, p * (g - (g * p).sum(axis=1, keepdims=True)), rtol=1e-12)

J = cr.jacobian(cr.softmax)(scores[0]).numpy()
print("Jacobian of the first row = diag(p) - p p^T:\n", J.round(4))
assert np.allclose(J, np.diag(p[0]) - np.outer(p[0], p[0]), rtol=1e-12)

classes = np.array([2, 0, 3])
y = np.eye(4)[classes]
gradient = cr.grad(cr.cross_entropy)(scores, classes).numpy()
print("with cross-entropy (p - y) / B:\n", gradient.round(4))
assert np.allclose(gradient, (p - y) / 3, rtol=1e-12)
