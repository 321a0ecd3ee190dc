"""Programs of single numbers as people write them: nothing in them is for the compiler.

Each makes a function without arguments, of state that it reaches, and names the numbers that are
trained.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from chainrule.scalar import Value

Program = tuple[Callable[[], Any], list[Value]]


class Neuron:
    def __init__(self, draw, n, bent):
        self.w = [Value(draw(-1, 1)) for _ in range(n)]
        self.b = Value(0)
        self.bent = bent

    def __call__(self, x):
        act = sum((wi * xi for wi, xi in zip(self.w, x, strict=True)), self.b)
        return act.relu() if self.bent else act


class Layer:
    def __init__(self, draw, n, m, bent):
        self.neurons = [Neuron(draw, n, bent) for _ in range(m)]

    def __call__(self, x):
        out = [n(x) for n in self.neurons]
        return out[0] if len(out) == 1 else out


class MLP:
    def __init__(self, draw, n, sizes):
        ends = [n, *sizes]
        self.layers: list[Any] = [
            Layer(draw, a, b, i != len(sizes) - 1)
            for i, (a, b) in enumerate(zip(ends, sizes, strict=False))
        ]

    def __call__(self, x) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x

    def parameters(self):
        return [p for x in self.layers for n in x.neurons for p in [*n.w, n.b]]


def mlp(points: int = 12, hidden: int = 6) -> Program:
    """micrograd's demo: a classifier of points with a max-margin loss and a penalty."""
    r = random.Random(1337)
    model = MLP(r.uniform, 2, [hidden, hidden, 1])
    data = [[r.gauss(0, 1), r.gauss(0, 1)] for _ in range(points)]
    labels = [1 if x * y > 0 else -1 for x, y in data]

    def loss():
        inputs = [list(map(Value, row)) for row in data]
        scores = list(map(model, inputs))
        losses = [(1 + -yi * s).relu() for yi, s in zip(labels, scores, strict=True)]
        data_loss = sum(losses) * (1.0 / len(losses))
        return data_loss + 1e-4 * sum(p * p for p in model.parameters())

    return loss, model.parameters()


def matrix(r: random.Random, rows: int, cols: int, std: float = 0.08) -> list[list[Value]]:
    return [[Value(r.gauss(0, std)) for _ in range(cols)] for _ in range(rows)]


def linear(x: Any, w: Any) -> list[Any]:
    return [sum(wi * xi for wi, xi in zip(wo, x, strict=True)) for wo in w]


def softmax(logits) -> Any:
    top = max(v.data for v in logits)
    exps = [(v - top).exp() for v in logits]
    total = sum(exps)
    return [e / total for e in exps]


def rmsnorm(x) -> Any:
    ms = sum(xi * xi for xi in x) / len(x)
    scale = (ms + 1e-5) ** -0.5
    return [xi * scale for xi in x]


class GPT:
    """A GPT as microgpt has it: token by token, keys and values in lists."""

    def __init__(self, layers=1, n_embd=8, heads=2, block=8, vocab=7, positions=True, draw=None):
        r = draw or random.Random(42)
        self.layers, self.heads, self.width = layers, heads, n_embd // heads
        self.positions = positions
        self.w: dict[str, list[list[Value]]] = {"wte": matrix(r, vocab, n_embd)}
        self.w["wpe"] = matrix(r, block, n_embd)
        self.w["lm_head"] = matrix(r, vocab, n_embd)
        for i in range(layers):
            for name in ("wq", "wk", "wv", "wo"):
                self.w[f"layer{i}.{name}"] = matrix(r, n_embd, n_embd)
            self.w[f"layer{i}.fc1"] = matrix(r, 4 * n_embd, n_embd)
            self.w[f"layer{i}.fc2"] = matrix(r, n_embd, 4 * n_embd)

    def parameters(self) -> list[Value]:
        return [p for m in self.w.values() for row in m for p in row]

    def step(self, token, pos, keys, values):
        x = list(self.w["wte"][token])
        if self.positions:
            x = [t + p for t, p in zip(x, self.w["wpe"][pos], strict=True)]
        x = rmsnorm(x)
        for i in range(self.layers):
            x = self.attend(i, x, keys[i], values[i])
            skip = x
            x = linear(rmsnorm(x), self.w[f"layer{i}.fc1"])
            x = linear([xi.relu() for xi in x], self.w[f"layer{i}.fc2"])
            x = [a + b for a, b in zip(x, skip, strict=True)]
        return linear(x, self.w["lm_head"])

    def attend(self, i, x, keys, values):
        skip, d = x, self.width
        x = rmsnorm(x)
        q = linear(x, self.w[f"layer{i}.wq"])
        keys.append(linear(x, self.w[f"layer{i}.wk"]))
        values.append(linear(x, self.w[f"layer{i}.wv"]))
        out = []
        for h in range(self.heads):
            s = slice(h * d, (h + 1) * d)
            qh, kh, vh = q[s], [k[s] for k in keys], [v[s] for v in values]
            logits = [sum(qh[j] * kh[t][j] for j in range(d)) / d**0.5 for t in range(len(kh))]
            weights = softmax(logits)
            out += [sum(weights[t] * vh[t][j] for t in range(len(vh))) for j in range(d)]
        return [a + b for a, b in zip(linear(out, self.w[f"layer{i}.wo"]), skip, strict=True)]

    def loss(self, tokens):
        n = len(tokens) - 1
        keys, values = [[] for _ in range(self.layers)], [[] for _ in range(self.layers)]
        losses = []
        for pos in range(n):
            logits = self.step(tokens[pos], pos, keys, values)
            losses.append(-softmax(logits)[tokens[pos + 1]].log())
        return (1 / n) * sum(losses)


def gpt(layers: int = 1, positions: bool = True) -> Program:
    """One document through a GPT."""
    model = GPT(layers, positions=positions)
    tokens = [6, 1, 4, 1, 0, 6]
    return lambda: model.loss(tokens), model.parameters()


def lstm(steps: int = 5, width: int = 4) -> Program:
    """A sequence through an LSTM cell: every step depends on the one before it."""
    r = random.Random(3)
    w = {k: matrix(r, width, 2 * width, 0.5) for k in "ifog"}
    b = {k: [Value(0.1) for _ in range(width)] for k in "ifog"}
    xs = [[r.gauss(0, 1) for _ in range(width)] for _ in range(steps)]

    def gate(k, z):
        return [a + bi for a, bi in zip(linear(z, w[k]), b[k], strict=True)]

    def loss():
        h = [Value(0.0) for _ in range(width)]
        c = [Value(0.0) for _ in range(width)]
        total = 0
        for x in xs:
            z = [*map(Value, x), *h]
            i, f, o = ([v.sigmoid() for v in gate(k, z)] for k in "ifo")
            g = [v.tanh() for v in gate("g", z)]
            c = [a * b + p * q for a, b, p, q in zip(f, c, i, g, strict=True)]
            h = [a * b.tanh() for a, b in zip(o, c, strict=True)]
            total = total + sum(v * v for v in h)
        return total

    leaves = [v for k in "ifog" for row in w[k] for v in row]
    return loss, leaves + [v for k in "ifog" for v in b[k]]


def bodies(n: int = 6, steps: int = 3) -> Program:
    """Bodies that attract each other, and how far they have gone."""
    r = random.Random(5)
    start = [[Value(r.gauss(0, 1)) for _ in range(3)] for _ in range(n)]
    masses = [Value(r.uniform(0.5, 1.5)) for _ in range(n)]

    def loss():
        xs = [list(p) for p in start]
        vs: list[list[Any]] = [[0.0] * 3 for _ in range(n)]
        for _ in range(steps):
            for i in range(n):
                force = [0.0] * 3
                for j in range(n):
                    if i != j:
                        d = [b - a for a, b in zip(xs[i], xs[j], strict=True)]
                        r2 = sum(x * x for x in d) + 0.1
                        pull = masses[j] * r2**-1.5
                        force = [f + pull * x for f, x in zip(force, d, strict=True)]
                vs[i] = [v + 0.01 * f for v, f in zip(vs[i], force, strict=True)]
            xs = [
                [x + 0.01 * v for x, v in zip(p, q, strict=True)]
                for p, q in zip(xs, vs, strict=True)
            ]
        return sum(x * x for p in xs for x in p)

    return loss, [*[v for p in start for v in p], *masses]


def convolution(size: int = 9, kernel: int = 3, channels: int = 2) -> Program:
    """An image through one convolution and a maximum over places."""
    r = random.Random(7)
    image = [[Value(r.gauss(0, 1)) for _ in range(size)] for _ in range(size)]
    w = [matrix(r, kernel, kernel, 0.3) for _ in range(channels)]
    b = [Value(0.1 * c) for c in range(channels)]

    def loss():
        total = 0
        for c in range(channels):
            for y in range(size - kernel + 1):
                for x in range(size - kernel + 1):
                    acc = b[c]
                    for i in range(kernel):
                        for j in range(kernel):
                            acc = acc + w[c][i][j] * image[y + i][x + j]
                    total = total + acc.relu() ** 2
        return total * (1.0 / math.prod((channels, size, size)))

    leaves = [v for row in image for v in row] + b
    return loss, leaves + [v for m in w for row in m for v in row]


def clusters(points: int = 20, groups: int = 3) -> Program:
    """How far points are from their next centre: which one that is depends on the numbers."""
    r = random.Random(11)
    data = [[r.gauss(0, 1), r.gauss(0, 1)] for _ in range(points)]
    centres = [[Value(r.gauss(0, 1)), Value(r.gauss(0, 1))] for _ in range(groups)]

    def loss():
        total = 0
        for p in data:
            far: list[Any] = [sum((a - c) ** 2 for a, c in zip(p, k, strict=True)) for k in centres]
            total = total + min(far, key=lambda v: v.data)
        return total

    return loss, [v for k in centres for v in k]


def chain(length: int = 900) -> Program:
    """Numbers each of which is made of the one before it: there is nothing to roll up."""
    a, b = Value(0.5), Value(0.9)

    def loss():
        x = a
        for _ in range(length):
            x = (x * b).tanh() + 0.3
        return x

    return loss, [a, b]


ROLLED: dict[str, Callable[[], Program]] = {
    "mlp": mlp,
    "gpt": gpt,
    "gpt of 4 layers": lambda: gpt(4),
    "gpt without positions": lambda: gpt(positions=False),
    "lstm": lambda: lstm(8, 6),
    "bodies": lambda: bodies(10, 2),
    "convolution": convolution,
}
"""Those that become loops."""
