"""What you cannot do, and what you are told: what was asked, on which line, what to do instead.

Going backward twice through a graph that was freed. Writing into values that a backward pass will
read. Losing the graph on the way to the loss. And what is not refused but can be found: collecting
losses, graph and all, step after step.
"""

import chainrule as cr
from chainrule import explain

x = cr.tensor([1.0, 2.0], requires_grad=True)


def refusal(action) -> str:
    """What `action` is refused with."""
    try:
        action()
    except (cr.GradientError, ValueError) as error:
        print(f"{type(error).__name__}: {error}\n")
        return str(error)
    raise AssertionError("this should have been refused")


loss = (x * x).sum()
loss.backward()
said = refusal(lambda: loss.backward())
assert said.count("17_when_it_refuses.py:") == 2  # the line of the sum, and of the first backward
assert "retain_graph=True" in said

values = x.detach().numpy()
said = refusal(lambda: values.fill(0))
assert "read-only" in said

y = x * x
x.data = [100.0, 100.0]  # a new value for x; the graph of y keeps the one it was computed from
y.sum().backward()
print(f"x was given another value after y = x * x: dy/dx is still {x.grad.tolist()}\n")
assert x.grad.tolist() == [4.0, 8.0]  # 2x of before, on top of the first backward's

said = refusal(lambda: cr.tensor((x * x).sum().item()).backward())
assert "item()" in said
said = refusal(lambda: x.numpy())
assert "detach().numpy()" in said

losses, numbers = [], []


def careless():
    losses.append((x * x).sum())  # a tensor, and with it the whole graph that it came from


def careful():
    numbers.append((x * x).sum().item())


found = explain.leaks(careless)
print(found)
assert found
assert "losses[0]" in str(found)
assert not explain.leaks(careful)
