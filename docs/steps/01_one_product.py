"""The chain rule on one small graph: every number learns how strongly the result depends on it.

A `Value` is a number that remembers what it was computed from. `backward()` walks from the result
to the inputs and leaves in each `grad` the derivative of the result with respect to that number. At
a product, each factor's gradient is the other factor times what arrives from above.
"""

from chainrule import Value, show


def f(a: Value, b: Value, d: Value) -> tuple[Value, Value, Value]:
    product = a * b
    total = product + d
    return product, total, total.relu()


a, b, d = Value(2.0, label="a"), Value(-3.0, label="b"), Value(10.0, label="d")
product, total, y = f(a, b, d)
y.backward()
print(show.text(y))
assert y.data == 4
assert (a.grad, b.grad, d.grad) == (-3, 2, 1)
assert (product.grad, total.grad, y.grad) == (1, 1, 1)

# What does "a has gradient -3" mean? Move a by a little, and the result moves by -3 times as much.
*_, moved = f(Value(2.001), b, d)
slope = (moved.data - y.data) / 0.001
print(f"\nat a = 2.001 the result is {moved.data:.3f}: a slope of {slope:.4f}")
assert abs(moved.data - 3.997) < 1e-12
assert abs(slope - a.grad) < 1e-9
