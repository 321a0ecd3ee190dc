"""One neuron: two inputs, two weights, a bias, tanh. Its gradients say how to change each.

tanh'(x) is 1 - tanh(x)^2, so the derivative needs the output and not the input. In the tensor
engine an op says which values its derivative reads, and only those are kept. The same neuron runs
three times here: on numbers, on tensors, and as a plain function that `grad` differentiates.
"""

import chainrule as cr
from chainrule import Value

point = {"x1": 2.0, "x2": 0.0, "w1": -3.0, "w2": 1.0, "b": 6.881}


def neuron(x1, x2, w1, w2, b):
    return cr.tanh(x1 * w1 + x2 * w2 + b)


values = {name: Value(x) for name, x in point.items()}
h = neuron(**values)
h.backward()
print(f"h = {h.data:.4f}")
wanted = {"x1": -1.5008, "x2": 0.5003, "w1": 1.0005, "w2": 0.0, "b": 0.5003}
for name, v in values.items():
    print(f"dh/d{name:2} = {v.grad:7.4f}")
    assert round(v.grad, 4) == wanted[name]
assert round(h.data, 4) == 0.7069

tensors = {name: cr.tensor(x, dtype="float64", requires_grad=True) for name, x in point.items()}
neuron(**tensors).backward()
gradients = cr.grad(neuron, argnums=(0, 1, 2, 3, 4))(*[t.detach() for t in tensors.values()])
for v, t, g in zip(values.values(), tensors.values(), gradients, strict=True):
    assert abs(t.grad.item() - v.grad) < 1e-12
    assert g.item() == t.grad.item()
print("numbers, tensors and grad(neuron) agree to 1e-12")
