"""lstm: the mean loss of a recurrent network on a text of bits, and its gradient in the weights.

Like an LSTM, but all matrices are diagonal: each of the b bits has gates of its own, in each of l
layers. The loss is ADBench's, a softmax of b + 1 classes whose last has twice the weight of a score
of 0. Source: ADBench (github.com/microsoft/ADBench), objective LSTM.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.loops import block, gradient, states
from bench.gradbench.problem import Function, Input, Jit, Problem, array

BLOCK = 4
"""Characters that are compiled into one program."""


def layer(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """The next (hidden, cell), each (b); weight and bias (4, b): forget, in, out, change."""
    forget = cr.sigmoid(x * weight[0] + bias[0])
    enter = cr.sigmoid(hidden * weight[1] + bias[1])
    leave = cr.sigmoid(x * weight[2] + bias[2])
    change = cr.tanh(hidden * weight[3] + bias[3])
    cell = cell * forget + enter * change
    return leave * cr.tanh(cell), cell


def score(params: Any, state: Any, texts: Any) -> Any:
    """The state and the sum of log likelihoods after some more characters.

    params: main (l, 2, 4, b), extra (3, b); state: (l, 2, b), (); texts (t + 1, b).
    """
    (main, extra), (memory, total) = params, state
    b = extra.shape[-1]
    pairs = [(memory[i, 0], memory[i, 1]) for i in range(len(main))]
    for t in range(len(texts) - 1):
        x = texts[t] * extra[0]
        for i, (hidden, cell) in enumerate(pairs):
            pairs[i] = layer(main[i, 0], main[i, 1], hidden, cell, x)
            x = pairs[i][0]
        y = x * extra[1] + extra[2]
        gold = texts[t + 1]
        total = total + cr.sum(gold * (y - cr.log(cr.sum(cr.exp(y)) + 2))) / b
    return cr.stack([cr.stack(pair) for pair in pairs]), total


def functions(jit: Jit) -> dict[str, Function]:
    some = block(score, jit)

    def run(main: Any, extra: Any, memory: Any, parts: Any) -> tuple[Any, list[Any], int]:
        seen = states(some, (main, extra), (memory, cr.zeros((), dtype=cr.float64)), parts)
        return seen[-1], seen, sum(len(p) - 1 for p in parts)

    def objective(main: Any, extra: Any, memory: Any, parts: Any) -> Any:
        (_, total), _, count = run(main, extra, memory, parts)
        return -total / count

    def slope(main: Any, extra: Any, memory: Any, parts: Any) -> Any:
        last, seen, count = run(main, extra, memory, parts)
        bar = cr.zeros_like(last[0]), cr.full((), -1 / count, dtype=cr.float64)
        return gradient(some, (main, extra), seen, parts, bar)[0]

    return {"objective": objective, "jacobian": slope}


def read(message: Input) -> tuple[Any, ...]:
    main, text = array(message["main_params"]), array(message["sequence"])
    l, b = len(main) // 2, text.shape[1]
    return (
        main.reshape(l, 2, 4, b),
        array(message["extra_params"]),
        array(message["state"]).reshape(l, 2, b),
        # the last character of a part is what its last turn is to say, and the next part's first
        tuple([text[i : i + BLOCK + 1] for i in range(0, len(text) - 1, BLOCK)]),
    )


def make(rng: np.random.Generator, l: int, c: int, b: int = 14) -> Input:
    """Random bits, as many a character as the suite's text has."""
    return {
        "main_params": rng.random((2 * l, 4 * b)),
        "extra_params": rng.random((3, b)),
        "state": rng.random((2 * l, b)),
        "sequence": rng.integers(0, 2, (c, b)).astype(np.float64),
    }


def write(args: tuple[Any, ...], name: str, result: Any) -> Any:
    if name == "objective":
        return float(result)
    return np.concatenate([np.ravel(np.asarray(r)) for r in result]).tolist()


PROBLEM = Problem(
    "lstm", functions, read, make, ({"l": 2, "c": 1024}, {"l": 4, "c": 4096}), "jacobian", write
)
