"""What breaks small engines: going backward twice, numbers used again, constants, great depth.

A graph of Values is kept, so `backward()` may be called again; gradients of inputs add up, as they
do over mini-batches, until they are set back to 0. The walk uses a queue and not recursion, so a
chain of a million operations is just long.
"""

import time

from chainrule import Value

x = Value(3.0)
square = x * x
y = square * square  # x to the fourth, with two numbers that are used twice
y.backward()
assert x.grad == 4 * 3**3
y.backward()
print(f"x^4 at 3: backward once gives 108, twice {x.grad:g}")
assert x.grad == 2 * 108

v = Value(3.0)
for name, y, slope in (("2 ** v", 2**v, 2**3 * 0.6931471805599453), ("1 / v", 1 / v, -1 / 9)):
    v.grad = 0
    y.backward()
    print(f"{name} at 3: {y.data:.6f}, derivative {v.grad:.6f}")
    assert abs(v.grad - slope) < 1e-14

start = time.perf_counter()
x = y = Value(1.0)
for _ in range(1_000_000):
    y = y * 1.000001
y.backward()
print(f"a chain of a million products: dy/dx = {x.grad:.6f}, {time.perf_counter() - start:.1f} s")
assert abs(x.grad - y.data) < 1e-9  # y = c x, so the derivative is y / x, and x is 1
