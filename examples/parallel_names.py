"""Two workers train a GPT on names; a worker that is killed starts again.

    torchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/parallel_names.py

The same program runs alone (`python examples/parallel_names.py`, 4 seconds), and ends with the same
weights, bit for bit. A step is divided into four micro-batches, whose gradients are added in one
fixed tree, whoever computes them. Kill a worker while it runs (`kill -9`): they still are.
"""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import chainrule as cr
from chainrule import optim, parallel
from chainrule.data import Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, generator_draw

STEPS, ROWS, LENGTH = 150, 32, 16


def main(folder: str | None) -> None:
    """Train, from the newest checkpoint in the folder on, if one is given."""
    corpus = Corpus.of(load_names(), random.Random(1))
    config = GPTConfig.gpt2(
        corpus.tokenizer.vocab_size, block_size=LENGTH, n_layer=3, n_head=4, n_embd=64
    )
    model = GPT(config, draw=generator_draw(cr.Generator(42)))
    optimizer = optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    schedule = optim.Scheduler(optimizer, optim.WarmUp(20) * optim.Cosine(STEPS))

    @cr.jit(dynamic={"tokens": ("B", "T"), "targets": ("B", "T")})
    def gradients(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        return loss

    step = cr.jit(optimizer.step)
    states = {"model": model, "optimizer": optimizer, "schedule": schedule}
    with parallel.group(micro_batches=4) as group:
        begun = group.resume(folder, **states)["step"] if folder else 0
        for i in range(begun, STEPS):
            batch = corpus.batch(i, ROWS, LENGTH)
            for tokens, targets in group.split((batch.tokens, batch.targets)):
                loss = gradients(tokens, targets)
                # names differ in length: a mean over tokens weighs as many tokens as count
                group.add_gradients(model, weight=(targets >= 0).sum(), loss=loss)
            mean = group.average_gradients(model)
            step()
            schedule.step()
            if folder and (i + 1) % 10 == 0:
                group.save(folder, i + 1, **states)
            if group.is_first() and (i + 1) % 30 == 0:
                print(f"step {i + 1:3} of {STEPS}: loss {mean:.4f}", flush=True)
        if group.is_first():
            weights = b"".join([p.numpy().tobytes() for p in model.state_dict().values()])
            print("SHA-256 of all weights:", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
