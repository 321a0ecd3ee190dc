"""A gradient is computed by ops like any other number, so it can be differentiated again.

Two uses: a penalty on the size of a gradient inside a loss, and learning a starting point from
which one step of training goes far (MAML: Finn et al. 2017, arXiv:1703.03400, section 2.2). Both
are checked by nudging.
"""

import numpy as np

import chainrule as cr

for order, wanted in enumerate((8.0, 12.0, 12.0, 6.0, 0.0)):
    f = lambda x: x**3
    for _ in range(order):
        f = cr.grad(f)
    print(f"x^3 at 2, derivative {order}: {float(f(2.0)):g}")
    assert float(f(2.0)) == wanted

rng = np.random.default_rng(0)
W, x, y = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=3)


def critic(W, x):
    return cr.sum(cr.tanh(W @ x) * y)


def penalty(W):
    slope = cr.grad(critic, argnums=1)(W, x)
    return (cr.norm(slope) - 1) ** 2


def maml(W):
    """The loss on y after one step of size 0.1 on another task, -y."""
    inner = cr.grad(lambda W: cr.sum((cr.tanh(W @ x) + y) ** 2))(W)
    return cr.sum((cr.tanh((W - 0.1 * inner) @ x) - y) ** 2)


for loss in (penalty, maml):
    gradient = cr.grad(loss)(W).numpy()
    T, h = rng.normal(size=W.shape), 1e-6
    slope = (loss(W + h * T) - loss(W - h * T)).item() / (2 * h)
    along = (gradient * T).sum()
    print(f"{loss.__name__}: {along:.9f}, by nudging {slope:.9f}")
    assert abs(along - slope) < 1e-8

product = cr.hvp(maml, (W,), (T,))[0].numpy()
H = cr.hessian(maml)(W).numpy().reshape(12, 12)
print("a Hessian times a vector, without the Hessian:", product.ravel()[:3].round(4), "...")
assert np.allclose(product.ravel(), H @ T.ravel(), rtol=1e-10)
