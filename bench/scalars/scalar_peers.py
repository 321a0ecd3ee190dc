"""What `Value` is measured against: the same idea built in two plain ways, and two programs.

`Closures` does what micrograd's class does for each operation (a closure, a set of parents),
`Tuples` what microgpt's does (a tuple of children, a tuple of local derivatives), so that each
allocates what its model allocates. Both sort recursively. The programs are one training step of a
small GPT, number by number, and one of an MLP with a max-margin loss; they take the class as an
argument.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

# --- Two classes ---------------------------------------------------------------------------------


class Operators:
    """Everything that follows from `+ * **`, in the order of operations that both classes share."""

    __slots__ = ()

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, b: Any) -> Any:
        return self + -b

    def __truediv__(self, b: Any) -> Any:
        return self * b**-1

    def __radd__(self, a: Any) -> Any:
        return self + a

    def __rsub__(self, a: Any) -> Any:
        return -self + a

    def __rmul__(self, a: Any) -> Any:
        return self * a

    def __rtruediv__(self, a: Any) -> Any:
        return self**-1 * a

    def __add__(self, b: Any) -> Any:
        raise NotImplementedError

    def __mul__(self, b: Any) -> Any:
        raise NotImplementedError

    def __pow__(self, k: float) -> Any:
        raise NotImplementedError


def sorted_graph(root: Any, parents: Callable[[Any], Any]) -> list[Any]:
    order: list[Any] = []
    seen: set[Any] = set()

    def visit(v: Any) -> None:
        if v not in seen:
            seen.add(v)
            for p in parents(v):
                visit(p)
            order.append(v)

    visit(root)
    order.reverse()
    return order


class Closures(Operators):
    """Each result carries a function that hands its gradient on."""

    def __init__(self, data: float, parents: Sequence[Any] = (), word: str = "") -> None:
        self.data = data
        self.grad: float = 0
        self.hand_on: Callable[[], None] = lambda: None
        self.parents = set(parents)
        self.word = word

    def __add__(self, b: Any) -> Closures:
        b = b if isinstance(b, Closures) else Closures(b)
        y = Closures(self.data + b.data, (self, b), "+")

        def hand_on() -> None:
            self.grad += y.grad
            b.grad += y.grad

        y.hand_on = hand_on
        return y

    def __mul__(self, b: Any) -> Closures:
        b = b if isinstance(b, Closures) else Closures(b)
        y = Closures(self.data * b.data, (self, b), "*")

        def hand_on() -> None:
            self.grad += b.data * y.grad
            b.grad += self.data * y.grad

        y.hand_on = hand_on
        return y

    def __pow__(self, k: float) -> Closures:
        return self._of(self.data**k, lambda: k * self.data ** (k - 1), f"**{k}")

    def relu(self) -> Closures:
        return self._of(self.data if self.data > 0 else 0.0, lambda: self.data > 0, "relu")

    def exp(self) -> Closures:
        e = math.exp(self.data)
        return self._of(e, lambda: e, "exp")

    def log(self) -> Closures:
        return self._of(math.log(self.data), lambda: 1 / self.data, "log")

    def tanh(self) -> Closures:
        t = math.tanh(self.data)
        return self._of(t, lambda: 1 - t * t, "tanh")

    def _of(self, data: float, slope: Callable[[], float], word: str) -> Closures:
        y = Closures(data, (self,), word)

        def hand_on() -> None:
            self.grad += slope() * y.grad

        y.hand_on = hand_on
        return y

    def backward(self) -> None:
        self.grad = 1
        for v in sorted_graph(self, lambda v: v.parents):
            v.hand_on()


class Tuples(Operators):
    """Each result carries its children and the derivative with respect to each."""

    __slots__ = ("children", "data", "grad", "slopes")

    def __init__(self, data: float, children: tuple[Any, ...] = (), slopes: Any = ()) -> None:
        self.data = data
        self.grad: float = 0
        self.children = children
        self.slopes = slopes

    def __add__(self, b: Any) -> Tuples:
        b = b if isinstance(b, Tuples) else Tuples(b)
        return Tuples(self.data + b.data, (self, b), (1, 1))

    def __mul__(self, b: Any) -> Tuples:
        b = b if isinstance(b, Tuples) else Tuples(b)
        return Tuples(self.data * b.data, (self, b), (b.data, self.data))

    def __pow__(self, k: float) -> Tuples:
        return Tuples(self.data**k, (self,), (k * self.data ** (k - 1),))

    def relu(self) -> Tuples:
        return Tuples(self.data if self.data > 0 else 0.0, (self,), (float(self.data > 0),))

    def exp(self) -> Tuples:
        e = math.exp(self.data)
        return Tuples(e, (self,), (e,))

    def log(self) -> Tuples:
        return Tuples(math.log(self.data), (self,), (1 / self.data,))

    def tanh(self) -> Tuples:
        t = math.tanh(self.data)
        return Tuples(t, (self,), (1 - t * t,))

    def backward(self) -> None:
        self.grad = 1
        for v in sorted_graph(self, lambda v: v.children):
            for child, slope in zip(v.children, v.slopes, strict=True):
                child.grad += slope * v.grad


# --- Two programs --------------------------------------------------------------------------------

NAME = (26, 4, 12, 12, 4, 11, 24, 26)
"""A six-letter name between its marks: seven positions."""
C, H, VOCAB, BLOCK = 16, 4, 27, 16


class GPTStep:
    """A GPT of 4,192 numbers, one layer, and Adam. Calling it trains one step; returns the loss."""

    def __init__(self, number: Any, seed: int = 42) -> None:
        draw = random.Random(seed)
        shapes = {"tokens": (VOCAB, C), "places": (BLOCK, C), "out": (VOCAB, C)}
        shapes |= dict.fromkeys(("q", "k", "v", "mix"), (C, C))
        shapes |= {"up": (4 * C, C), "down": (C, 4 * C)}
        self.w = {
            name: [[number(draw.gauss(0, 0.08)) for _ in range(n)] for _ in range(m)]
            for name, (m, n) in shapes.items()
        }
        self.flat = [p for rows in self.w.values() for row in rows for p in row]
        self.first = [0.0] * len(self.flat)
        self.second = [0.0] * len(self.flat)
        self.steps = 0

    def __call__(self, name: Sequence[int] = NAME, rate: float = 0.01) -> float:
        loss = self.loss(name)
        loss.backward()
        self.steps += 1
        for i, p in enumerate(self.flat):
            self.first[i] = 0.85 * self.first[i] + (1 - 0.85) * p.grad
            self.second[i] = 0.99 * self.second[i] + (1 - 0.99) * p.grad**2
            mean = self.first[i] / (1 - 0.85**self.steps)
            square = self.second[i] / (1 - 0.99**self.steps)
            p.data -= rate * mean / (square**0.5 + 1e-8)
            p.grad = 0
        return loss.data

    def loss(self, name: Sequence[int] = NAME) -> Any:
        keys: list[Any] = []
        values: list[Any] = []
        costs: list[Any] = []
        for place, (token, target) in enumerate(pairwise(name)):
            chances = softmax(self.logits(token, place, keys, values))
            costs.append(-chances[target].log())
        return (1 / len(costs)) * sum(costs)

    def logits(self, token: int, place: int, keys: list[Any], values: list[Any]) -> Any:
        w = self.w
        x = [t + p for t, p in zip(w["tokens"][token], w["places"][place], strict=True)]
        x = normal(x)
        z = normal(x)
        q = times(w["q"], z)
        keys.append(times(w["k"], z))
        values.append(times(w["v"], z))
        heads: list[Any] = []
        for h in range(0, C, C // H):
            at = range(h, h + C // H)
            weights = softmax([sum(q[i] * k[i] for i in at) / (C // H) ** 0.5 for k in keys])
            heads += [sum(a * v[i] for a, v in zip(weights, values, strict=True)) for i in at]
        x = [a + b for a, b in zip(times(w["mix"], heads), x, strict=True)]
        hidden = [u.relu() for u in times(w["up"], normal(x))]
        x = [a + b for a, b in zip(times(w["down"], hidden), x, strict=True)]
        return times(w["out"], x)


def times(matrix: Any, x: Any) -> list[Any]:
    return [sum(a * b for a, b in zip(row, x, strict=True)) for row in matrix]


def normal(x: Any) -> list[Any]:
    scale = (sum(a * a for a in x) / len(x) + 1e-5) ** -0.5
    return [a * scale for a in x]


def softmax(x: Any) -> list[Any]:
    top = max(a.data for a in x)
    e = [(a - top).exp() for a in x]
    total = sum(e)
    return [a / total for a in e]


class MLPStep:
    """A 2-16-16-1 ReLU network on 100 points: max-margin loss, L2, plain gradient descent."""

    def __init__(self, number: Any, seed: int = 1337, points: int = 100) -> None:
        draw = random.Random(seed)
        self.number = number
        self.layers = [
            [([number(draw.uniform(-1, 1)) for _ in range(m)], number(0)) for _ in range(n)]
            for m, n in ((2, 16), (16, 16), (16, 1))
        ]
        self.flat = [p for layer in self.layers for row, bias in layer for p in (*row, bias)]
        self.points = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(points)]

    def __call__(self, rate: float = 0.1) -> float:
        loss = self.loss()
        for p in self.flat:
            p.grad = 0
        loss.backward()
        for p in self.flat:
            p.data -= rate * p.grad
        return loss.data

    def loss(self) -> Any:
        costs: list[Any] = []
        for point in self.points:
            side = 1 if point[0] * point[1] > 0 else -1
            costs.append((1 + -side * self.score(point)).relu())
        decay = 1e-4 * sum(p * p for p in self.flat)
        return sum(costs) * (1.0 / len(costs)) + decay

    def score(self, point: Sequence[float]) -> Any:
        x: Any = [self.number(t) for t in point]
        for layer in self.layers:
            x = [sum((a * b for a, b in zip(row, x, strict=True)), bias) for row, bias in layer]
            if layer is not self.layers[-1]:
                x = [u.relu() for u in x]
        return x[0]


def small(number: Any) -> float:
    """About ten nodes, forward and backward."""
    a, b = number(-4.0), number(2.0)
    c = (a + b) * a + b**3
    d = (c - a * 2).relu()
    y = (d + c) ** 2
    y.backward()
    return a.grad
