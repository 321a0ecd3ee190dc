"""An LSTM learns to write names, letter by letter; ends with names of its own.

Run it: `python examples/lstm_names.py` (3 seconds).
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import data, nn, optim

LENGTH = 16
"""Tokens of a name at most."""


class Writer(nn.Module):
    """Tokens (B, T) -> scores of the next ones (B, T, V)."""

    def __init__(self, vocab: int, width: int, g: cr.Generator) -> None:
        self.embedding = nn.Embedding(vocab, width, generator=g)
        self.lstm = nn.LSTM(width, width, batch_first=True, generator=g)
        self.out = nn.Linear(width, vocab, generator=g)

    def forward(self, tokens: Any, state: Any = None) -> Any:
        """The scores, and the state after them."""
        y, state = self.lstm(self.embedding(tokens), state)
        return self.out(y), state


def filled(rows: Any, value: int) -> Any:
    """Rows of one length, so that one compiled program serves all batches."""
    return np.pad(rows, ((0, 0), (0, LENGTH - rows.shape[1])), constant_values=value)


def write(model: Writer, tokenizer: data.CharTokenizer, rng: np.random.Generator) -> str:
    """One name, drawn letter by letter."""
    token, state, letters = tokenizer.bos, None, []
    with cr.no_grad():
        while len(letters) < LENGTH:
            scores, state = model(np.array([[token]]), state)
            weights = np.exp(1.3 * scores.numpy()[0, 0].astype(np.float64))
            token = int(rng.choice(len(weights), p=weights / weights.sum()))
            if token == tokenizer.bos:
                break
            letters.append(token)
    return tokenizer.decode(letters)


def main(steps: int = 600, width: int = 64) -> float:
    """Train, print losses and names, return the last loss."""
    corpus = data.Corpus.of(data.load_names(), random.Random(0))
    model = Writer(corpus.tokenizer.vocab_size, width, cr.Generator(0))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    scheduler = optim.Scheduler(optimizer, optim.Cosine(steps, 0.05))

    @cr.jit
    def step(tokens: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        scores, _ = model(tokens)
        loss = cr.cross_entropy(scores, targets, ignore_index=data.IGNORE)
        loss.backward()
        optimizer.step()
        return loss

    loss = 0.0
    for k in range(steps):
        batch = corpus.batch(k, 32, LENGTH)
        loss = step(filled(batch.tokens, 0), filled(batch.targets, data.IGNORE)).item()
        scheduler.step()
        if k % max(steps // 6, 1) == 0:
            print(f"step {k:4}: loss {loss:.3f}")
    rng = np.random.default_rng(0)
    print("names:", ", ".join([write(model, corpus.tokenizer, rng) for _ in range(8)]))
    return loss


if __name__ == "__main__":
    main()
