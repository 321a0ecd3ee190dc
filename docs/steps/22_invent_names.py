"""A GPT that invents names: what the steps before have built, at the speed of tensors.

The model of step 19, a little wider, on batches of names with AdamW and a falling learning rate.
Then letters are drawn one by one, each from the probabilities that the model gives after those
before it: `generate` does that for many names at a time, in one compiled loop. `chainrule train` is
this with a progress bar, checkpoints, and the published run.
"""

import random

from chainrule import optim
from chainrule.data import IGNORE, Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, python_draw

rng = random.Random(42)
corpus = Corpus.of(load_names(), rng)
tokenizer = corpus.tokenizer
config = GPTConfig.microgpt(tokenizer.vocab_size, n_embd=32)
model = GPT(config, draw=python_draw(rng))
print(f"{len(corpus.training):,} names, {model.num_parameters():,} parameters")

steps, losses = 400, []
optimizer = optim.AdamW(model.parameters(), lr=0.01, betas=(0.85, 0.99), weight_decay=0.0)
schedule = optim.Scheduler(optimizer, optim.Linear(steps))
for step in range(steps):
    batch = corpus.batch(step, 16, config.block_size)
    optimizer.zero_grad()
    loss = model.loss(batch.tokens, batch.targets, ignore_index=IGNORE)
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
    if step % 80 == 0 or step == steps - 1:
        print(f"step {step:3}  loss {losses[-1]:.4f}")

bos = tokenizer.bos
drawn = model.generate([[bos]] * 20, max_new_tokens=15, stop=bos, temperature=0.7, generator=rng)
invented = [tokenizer.decode(tokens) for tokens in drawn]
print(*invented)
new = sum(name not in corpus.training for name in invented)
print(f"{new} of 20 are not among the names that it learned from")

assert losses[0] > 3.2  # 27 tokens, nothing known: about log 27 = 3.296
assert sum(losses[-50:]) / 50 < 2.4
assert len(set(invented)) > 10
