"""A number that is used twice reaches the result on two paths, and the two contributions add.

So a backward pass adds to `grad` and never overwrites it. In d = a*b + a, the path through the
product brings b, the direct path brings 1.
"""

from chainrule import Value

a = Value(3.0)
b = a + a
b.backward()
print(f"b = a + a:      b = {b.data:g},  db/da = {a.grad:g}")
assert (b.data, a.grad) == (6, 2)

a, b = Value(2.0), Value(3.0)
d = a * b + a
d.backward()
print(f"d = a * b + a:  d = {d.data:g},  dd/da = {a.grad:g},  dd/db = {b.grad:g}")
assert (d.data, a.grad, b.grad) == (8, 4, 2)

moved = Value(2.001) * b + Value(2.001)
print(f"at a = 2.001:   d = {moved.data:g}, which is {a.grad:g} * 0.001 more")
assert abs(moved.data - 8.004) < 1e-12
