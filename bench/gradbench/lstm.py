"""lstm: the mean loss of a recurrent network on a text of bits, and its gradient in the weights.

Like an LSTM, but all matrices are diagonal: each of the b bits has gates of its own, in each of l
layers. The loss is ADBench's, a softmax of b + 1 classes whose last has twice the weight of a score
of 0. Source: ADBench (github.com/microsoft/ADBench), objective LSTM.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.loops import block_size, gradient, run
from bench.gradbench.problem import Function, Input, Jit, Problem, array

BLOCK = 4
"""At most so many characters are fused."""


def layer(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """The next (hidden, cell), each (b); weight and bias (4, b): forget, in, out, change."""
    forget = cr.sigmoid(x * weight[0] + bias[0])
    enter = cr.sigmoid(hidden * weight[1] + bias[1])
    leave = cr.sigmoid(x * weight[2] + bias[2])
    change = cr.tanh(hidden * weight[3] + bias[3])
    cell = cell * forget + enter * change
    return leave * cr.tanh(cell), cell


def score(params: Any, state: Any, texts: Any) -> Any:
    """A block: the state and the sum of log likelihoods after some more characters.

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


def objective(main: Any, extra: Any, memory: Any, texts: Any) -> Any:
    first = memory, cr.zeros((), dtype=memory.dtype)
    (_, total), _ = run(score, (main, extra), first, texts)
    return -total / characters(texts)


def slope(main: Any, extra: Any, memory: Any, texts: Any) -> Any:
    first = memory, cr.zeros((), dtype=memory.dtype)
    bar = cr.zeros_like(memory), cr.full((), -1 / characters(texts), dtype=memory.dtype)
    return gradient(score, (main, extra), first, texts, bar)


def characters(texts: Any) -> int:
    """How many are to be said."""
    return texts.shape[0] * (texts.shape[1] - 1)


def functions(jit: Jit) -> dict[str, Function]:
    return {"objective": jit(objective), "jacobian": jit(slope)}


def parts(text: Any) -> Any:
    """A text for each block, each beginning with the last character of the one before:
    (c, b) -> (blocks, turns + 1, b)."""
    turns = block_size(len(text) - 1, BLOCK)
    return np.stack([text[i : i + turns + 1] for i in range(0, len(text) - 1, turns)])


def read(message: Input) -> tuple[Any, ...]:
    main, text = array(message["main_params"]), array(message["sequence"])
    l, b = len(main) // 2, text.shape[1]
    return (
        main.reshape(l, 2, 4, b),
        array(message["extra_params"]),
        array(message["state"]).reshape(l, 2, b),
        parts(text),
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
    "lstm", functions, read, make, ({"l": 2, "c": 1024}, {"l": 4, "c": 4096}), ("jacobian",), write
)
