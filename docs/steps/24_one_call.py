"""The whole training step as one call of native code: forward, backward, optimizer.

`cr.jit` runs the function once on arrays without numbers, notes what it does, and compiles that.
The tensors that the function reaches by itself, here the parameters and Adam's moments, are its
state: read at each call, updated in place. `dynamic` names the axis whose size may change, so that
names of all lengths share one program. Nothing else in the training loop is different.
"""

import random
import time

import chainrule as cr
from chainrule import optim
from chainrule.data import Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, python_draw

STEPS = 300
corpus = Corpus.of(load_names(), random.Random(42))
documents = [corpus.batch(i, 1, 16) for i in range(STEPS)]


def step_of_a_new_model():
    config = GPTConfig.microgpt(corpus.tokenizer.vocab_size)
    model = GPT(config, draw=python_draw(random.Random(1)))
    adam = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))

    def step(tokens, targets):
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    return step


def trained(step):
    """The loss of each step, and the seconds of the first step and of the others."""
    losses, times = [], [time.perf_counter()]
    for d in documents:
        losses.append(step(d.tokens, d.targets).item())
        times.append(time.perf_counter())
    return losses, times[1] - times[0], (times[-1] - times[1]) / (STEPS - 1)


eager, _, slow = trained(step_of_a_new_model())
step = cr.jit(step_of_a_new_model(), dynamic={"tokens": (None, "T"), "targets": (None, "T")})
compiled, first, fast = trained(step)

off = max(abs(a - b) for a, b in zip(eager, compiled, strict=True))
print(
    f"first loss {compiled[0]:.4f}, last {compiled[-1]:.4f}; eager and compiled differ by {off:.0e}"
)
print(f"op by op   {slow * 1e6:7.1f} µs a step")
print(f"compiled   {fast * 1e6:7.1f} µs a step, after {first:.1f} s for the first")
lengths = {d.tokens.shape[1] for d in documents}
print(f"{len(lengths)} lengths of names, {step.traces} compilation")

assert off < 1e-3
assert step.traces == 1 and len(lengths) > 5
