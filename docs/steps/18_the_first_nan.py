"""A loss turned NaN. Which op made the first one, on which line, from what?

NaN spreads: by the time the loss shows it, every weight has it. The first one is found in the graph
of the bad step, without running the training again. Here a weight grows until its exponential is
infinite, and infinity divided by infinity is no number. `trap_nan` finds it when it is made.
"""

import chainrule as cr
from chainrule import explain

w = cr.tensor([1.0, 2.0, 3.0], requires_grad=True)


def loss_of(w):
    e = cr.exp(w * 9)
    p = e / e.sum()  # a softmax without its safeguard
    return (p * p).sum()


step, loss = 0, loss_of(w)
while loss.item() == loss.item():  # only NaN is not equal to itself
    w.data = w.data * 1.0024  # weights that grow, as they do under too high a learning rate
    step, loss = step + 1, loss_of(w)
print(f"step {step}: loss {loss.item()}, weights {w.tolist()}\n")
assert 400 < step < 600

bad = explain.first_bad(loss)
print(bad)
assert bad.op == "div"
assert "18_the_first_nan.py:16" in str(bad)
assert "exp" in str(bad)  # which made the infinity that it met, from inputs up to 89 and more

try:
    with explain.trap_nan():
        loss_of(w)
except cr.ChainruleError as error:
    print(f"\ntrapped: {str(error).splitlines()[0]}")
    assert "'div'" in str(error)
else:
    raise AssertionError("a NaN was made, and the trap did not see it")
