"""A derivative can be measured: nudge the input, see how far the output moves, divide.

The chain rule is exact, the nudge is not. On one side it is off by about its own size, on both
sides by about its square (here not at all, y being quadratic). Below some size rounding takes over.
That is how to check a gradient, and why nobody trains with nudges.
"""

from chainrule import Value


def f(x: Value | float) -> Value | float:
    return (3 * x + 1) ** 2


x = Value(1.0)
y = f(x)
y.backward()
print(f"y = (3x + 1)^2 at x = 1:  y = {y.data:g}, dy/dx = {x.grad:g} by the chain rule")
assert (y.data, x.grad) == (16, 24)

forward = (f(1 + 0.001) - f(1)) / 0.001
print(f"nudged by 0.001:  {forward:.6f}")
assert abs(forward - 24.009) < 1e-9

print("\n  nudge    one side    both sides")
for power in (1, 3, 5, 7, 9, 11):
    h = 10.0**-power
    one, both = (f(1 + h) - f(1)) / h, (f(1 + h) - f(1 - h)) / (2 * h)
    print(f"  1e-{power:02}   {abs(one - 24):.1e}     {abs(both - 24):.1e}   off")
