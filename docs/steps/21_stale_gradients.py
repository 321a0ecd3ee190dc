"""Forget to set gradients back to 0, and nothing fails: each step uses the sum of all steps so far.

Two equal models, the same names in the same order, Adam. The second step of the careless one uses
g1 + g2 where g2 belongs, the third g1 + g2 + g3. Old slopes, taken where the weights no longer are,
add up and drown the new one, until the loss climbs. `explain.strict` refuses the second step, and
says why.
"""

import random

import numpy as np

import chainrule as cr
from chainrule import explain, optim
from chainrule.data import Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, python_draw

corpus = Corpus.of(load_names(), random.Random(42))
config = GPTConfig.microgpt(corpus.tokenizer.vocab_size)


def train(reset: bool, steps: int) -> tuple[list[float], list[np.ndarray]]:
    """The loss of each step, and the gradient of the head that each step used."""
    model = GPT(config, draw=python_draw(random.Random(1)), dtype=np.float64)
    optimizer = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))
    losses, used = [], []
    for step in range(steps):
        batch = corpus.batch(step, 1, config.block_size)
        if reset:
            optimizer.zero_grad()
        loss = model.loss(batch.tokens, batch.targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        used.append(model.lm_head.weight.grad.numpy())
    return losses, used


right, fresh = train(reset=True, steps=200)
wrong, stale = train(reset=False, steps=200)
print("step   loss, reset   |g|      not reset   |g|")
for i in (0, 1, 2, 5, 10, 50, 199):
    sizes = [np.linalg.norm(g[i]) for g in (fresh, stale)]
    print(f"{i:4}   {right[i]:9.4f}  {sizes[0]:6.2f}   {wrong[i]:10.4f}  {sizes[1]:6.2f}")

try:
    with explain.strict():
        train(reset=False, steps=2)
except cr.GradientError as error:
    print(f"\n{error}")
else:
    raise AssertionError("strict mode did not notice")

assert right[:2] == wrong[:2]  # the first step is the same: only what it leaves behind differs
assert np.allclose(stale[1], fresh[0] + fresh[1], rtol=1e-12)
assert np.mean(right[-20:]) < right[0]
assert np.mean(wrong[-20:]) > np.mean(right[-20:]) + 0.5
