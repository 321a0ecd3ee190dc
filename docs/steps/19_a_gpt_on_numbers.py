"""A GPT, number by number: + * ** exp log relu on Values, and it learns to spell names.

This is a program for microgpt's `Value`; only its import is changed. A token and its position
become 16 numbers; attention mixes in what earlier positions hold; a small MLP works on that; 27
scores come out. With 8 positions there are 4,064 parameters (with 16, 4,192). One backward fills
every gradient that the name reaches.
"""

import random
from itertools import pairwise

from chainrule import Value
from chainrule.data import load_names

random.seed(42)
names = load_names()
random.shuffle(names)
letters = sorted(set("".join(names)))
BOS, V, C, H, T = len(letters), len(letters) + 1, 16, 4, 8


def matrix(rows, columns):
    return [[Value(random.gauss(0, 0.08)) for _ in range(columns)] for _ in range(rows)]


shapes = {"wte": (V, C), "wpe": (T, C), "head": (V, C), "q": (C, C), "k": (C, C), "v": (C, C)}
w = {
    n: matrix(*s) for n, s in {**shapes, "o": (C, C), "up": (4 * C, C), "down": (C, 4 * C)}.items()
}
parameters = [p for rows in w.values() for row in rows for p in row]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), 0)


def linear(rows, x):
    return [dot(row, x) for row in rows]


def norm(x):
    scale = (dot(x, x) / len(x) + 1e-5) ** -0.5
    return [a * scale for a in x]


def softmax(x):
    top = max(a.data for a in x)
    e = [(a - top).exp() for a in x]
    return [a / sum(e) for a in e]


def scores(token, position, keys, values):
    x = norm([a + b for a, b in zip(w["wte"][token], w["wpe"][position], strict=True)])
    n = norm(x)
    q, k, v = linear(w["q"], n), linear(w["k"], n), linear(w["v"], n)
    keys.append(k)
    values.append(v)
    seen = []
    for h in range(0, C, C // H):
        head = slice(h, h + C // H)
        p = softmax([dot(q[head], k[head]) / (C // H) ** 0.5 for k in keys])
        seen += [dot(p, [v[j] for v in values]) for j in range(h, h + C // H)]
    x = [a + b for a, b in zip(x, linear(w["o"], seen), strict=True)]
    hidden = [a.relu() for a in linear(w["up"], norm(x))]
    return linear(w["head"], [a + b for a, b in zip(x, linear(w["down"], hidden), strict=True)])


losses = []
for step in range(24):
    tokens = [BOS, *[letters.index(c) for c in names[step]], BOS][: T + 1]
    keys, values, costs = [], [], []
    for i, (token, target) in enumerate(pairwise(tokens)):
        costs.append(-softmax(scores(token, i, keys, values))[target].log())
    loss = sum(costs) / len(costs)
    for p in parameters:
        p.grad = 0
    loss.backward()
    if step == 0:
        assert sum(p.grad != 0 for row in w["head"] for p in row) == V * C
    for p in parameters:
        p.data -= 0.5 * p.grad
    losses.append(loss.data)
    if step % 4 == 0:
        print(f"step {step:2}  {names[step]:10} loss {loss.data:.4f}")

print(f"{len(parameters)} parameters with {T} positions, {len(parameters) + 8 * C} with 16")
assert len(parameters) == 4064
assert len(parameters) + 8 * C == 4192
first, last = sum(losses[:8]) / 8, sum(losses[-8:]) / 8
print(f"mean of the first 8 losses {first:.3f}, of the last 8 {last:.3f}")
assert last < first - 0.25
