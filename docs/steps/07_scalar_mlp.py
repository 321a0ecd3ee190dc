"""A neural network is neurons in layers, and training is: forward, backward, step downhill.

This is a program for micrograd's `Value`; only its import is changed. With 2-10-10-1 neurons it
learns to tell the inside of a ring from its outside. With any class that has the same words in
place of the import, the numbers are the same.
"""

import random

from chainrule import Value

random.seed(7)


class Neuron:
    def __init__(self, inputs, bent):
        self.w = [Value(random.uniform(-1, 1)) for _ in range(inputs)]
        self.b, self.bent = Value(0), bent

    def __call__(self, x):
        y = sum((wi * xi for wi, xi in zip(self.w, x, strict=True)), self.b)
        return y.relu() if self.bent else y


def forward(layers, x):
    for layer in layers:
        x = [neuron(x) for neuron in layer]
    return x[0]


sizes = [2, 10, 10, 1]
layers = [[Neuron(sizes[i], i < 2) for _ in range(sizes[i + 1])] for i in range(3)]
parameters = [p for layer in layers for neuron in layer for p in [*neuron.w, neuron.b]]
points = [(random.uniform(-1, 1), random.uniform(-1, 1)) for _ in range(60)]
labels = [1 if x * x + y * y < 0.4 else -1 for x, y in points]

losses = []
for step in range(50):
    scores = [forward(layers, p) for p in points]
    margins = [(1 - t * s).relu() for t, s in zip(labels, scores, strict=True)]
    loss = sum(margins) / len(margins) + 1e-4 * sum(p * p for p in parameters)
    for p in parameters:
        p.grad = 0
    loss.backward()
    for p in parameters:
        p.data -= (1.0 - 0.015 * step) * p.grad
    losses.append(loss.data)
    right = sum((s.data > 0) == (t > 0) for s, t in zip(scores, labels, strict=True))
    if step % 7 == 0:
        print(f"step {step:2}  loss {loss.data:.4f}  {right} of {len(points)} right")

assert losses[-1] < 0.5 * losses[0]
assert right >= 54
