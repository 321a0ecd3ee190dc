"""Backward asks: what moved this output? Forward asks: what does this input move? Count the passes.

A Jacobian of m outputs by n inputs takes n forward passes or m backward ones. Two inputs and a
thousand outputs: forward, in two. A million inputs and one output, which is what training is:
backward, in one. `jacobian` picks the cheaper by itself; both give the same matrix.
"""

import time

import numpy as np

import chainrule as cr

t = np.linspace(0, 1, 1000)


def curve(p):
    """A damped wave at a thousand times; p (2,) its damping and its frequency."""
    return cr.exp(-p[0] * t) * cr.cos(p[1] * t)


p = np.array([1.5, 20.0])
columns = [cr.jvp(curve, (p,), (e,))[1].numpy() for e in np.eye(2)]
J = cr.jacobian(curve)(p).numpy()
print(f"2 parameters, 1000 outputs: jacobian {J.shape}, {len(columns)} forward passes")
assert np.allclose(J, np.stack(columns, axis=1), rtol=1e-14)

for mode in ("forward", "reverse"):
    start = time.perf_counter()
    same = cr.jacobian(curve, mode=mode)(p).numpy()
    print(f"  {mode:8} {1e3 * (time.perf_counter() - start):6.1f} ms")
    assert np.allclose(J, same, rtol=1e-12, atol=1e-15)

x = np.linspace(-1, 1, 1_000_000)
start = time.perf_counter()
gradient = cr.grad(lambda x: cr.sum(x**3))(x).numpy()
milliseconds = 1e3 * (time.perf_counter() - start)
print(f"1,000,000 parameters, 1 output: one backward pass, {milliseconds:.0f} ms")
assert np.allclose(gradient, 3 * x**2, rtol=1e-14)
