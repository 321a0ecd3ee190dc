"""What one training step on a five-letter name costs, counted on the graph of numbers.

The forward pass makes one node per operation. The backward pass does one multiplication per edge:
the gradient from above times a local derivative. So it costs about as much as the forward pass,
whatever the number of parameters, and gives all 4,064 slopes. Nudging each parameter would take
4,065 forward passes for the same.
"""

import random
import time

from chainrule.models.config import GPTConfig
from chainrule.models.gpt import python_draw
from chainrule.models.scalar_gpt import ScalarGPT

config = GPTConfig.microgpt(27, block_size=8)
model = ScalarGPT(config, python_draw(random.Random(42)))
emily = [26, *[ord(c) - ord("a") for c in "emily"], 26]

start = time.perf_counter()
loss = model.loss(emily)
forward = time.perf_counter() - start
start = time.perf_counter()
loss.backward()
backward = time.perf_counter() - start

nodes, waiting = {loss}, [loss]
while waiting:
    fresh = set(waiting.pop()._children) - nodes
    nodes |= fresh
    waiting += fresh
made = [v for v in nodes if v._children]
multiplications = sum(len(v._children) for v in made)
passes = model.num_parameters() + 1

print(f"parameters                           {model.num_parameters():12,}")
print(f"nodes made by the forward pass       {len(made):12,}   {forward * 1e3:8.1f} ms")
print(f"multiplications in the backward pass {multiplications:12,}   {backward * 1e3:8.1f} ms")
print(
    f"nodes made by {passes:,} forward passes  {passes * len(made):12,}   {passes * forward:8.1f} s"
)
assert model.num_parameters() == 4064
assert 10_000 < len(made) < 100_000
assert len(made) < multiplications <= 2 * len(made)

# One of them, nudged. The token e is read, so its embedding has a slope.
weight = model.state["wte.weight"][4][0]
slope, was = weight.grad, weight.data
ends = []
for nudge in (1e-5, -1e-5):
    weight.data = was + nudge
    ends.append(model.loss(emily).data)
print(f"one slope: {slope:.9f}, by two nudges {(ends[0] - ends[1]) / 2e-5:.9f}")
assert abs((ends[0] - ends[1]) / 2e-5 - slope) < 1e-8
