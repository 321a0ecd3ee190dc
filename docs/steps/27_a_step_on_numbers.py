"""A training step on single numbers, at the speed of loops: one line is added, `@cr.jit`.

A network reads two letters and guesses the next one. Every number is a `Value`, a row of a table is
chosen by a letter, and the optimizer is a Python loop over parameters. Compiled, the step is
recorded once for words of one length. Which letters they have is data; so is the number of the
step. The numbers stay in the program's own objects: look at them, or change them, at any time.
"""

import random
import time

import chainrule as cr
from chainrule import Value
from chainrule.data import load_names

names = [n for n in load_names() if n.isalpha() and len(n) in (5, 6)]
random.Random(1).shuffle(names)
words = [[26, 26, *[ord(c) - ord("a") for c in n.lower()], 26] for n in names[:400]]


def network(seed):
    r = random.Random(seed)

    def matrix(rows, columns):
        return [[Value(r.gauss(0, 0.3)) for _ in range(columns)] for _ in range(rows)]

    table, hidden, out = matrix(27, 6), matrix(16, 12), matrix(27, 16)
    parameters = [p for rows in (table, hidden, out) for row in rows for p in row]
    means = [0.0] * len(parameters)

    def linear(rows, x):
        return [sum(w * a for w, a in zip(row, x, strict=True)) for row in rows]

    def cost(a, b, target):
        h = [z.tanh() for z in linear(hidden, table[a] + table[b])]
        scores = linear(out, h)
        top = max(s.data for s in scores)
        e = [(s - top).exp() for s in scores]
        return sum(e).log() + top - scores[target]

    def train(step, word):
        count = len(word) - 2
        loss = sum(cost(*word[i : i + 3]) for i in range(count)) / count
        loss.backward()
        rate = 0.2 * (1 - step / 1000)
        for i, p in enumerate(parameters):
            means[i] = 0.8 * means[i] + 0.2 * p.grad
            p.data -= rate * means[i]
            p.grad = 0
        return loss

    return train, parameters


as_it_is, eager = network(7)
train, compiled = network(7)
train = cr.jit(train)

for step in range(12):
    assert abs(train(step, words[step]).data - as_it_is(step, words[step]).data) < 1e-9
    assert all(abs(a.data - b.data) < 1e-9 for a, b in zip(eager, compiled, strict=True))
assert train.traces == 2, "words of two lengths"

begin = time.perf_counter()
losses = [train(step, word).data for step, word in enumerate(words[12:], 12)]
fast = (time.perf_counter() - begin) / len(losses)
begin = time.perf_counter()
for step in range(12, 17):
    as_it_is(step, words[step])
slow = (time.perf_counter() - begin) / 5
first, last = sum(losses[:50]) / 50, sum(losses[-50:]) / 50
print(f"loss {first:.2f} -> {last:.2f}")
print(f"a step takes {fast * 1e6:,.0f} µs, as it is {slow * 1e6:,.0f}")
print(train.explain())
assert last < first - 0.1
