"""A training step as a program in C: what a compiler made of twelve lines of Python, to be read.

`cr.jit` turns the whole step into loops: forward, backward, update. `to_c` writes those loops as
one file that needs nothing but the C library, and beside it the weights and the data. Every array
has its shape in a comment, every function the lines of Python that it comes from. Where there is a
C compiler, the program is run, and its losses are those of Python.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import chainrule as cr
from chainrule import optim

rng = np.random.default_rng(1)
x = rng.uniform(-1, 1, (32, 2))
y = np.sin(3 * x[:, :1]) * x[:, 1:]
w1 = cr.tensor(rng.normal(0, 1, (2, 16)), requires_grad=True)
b1 = cr.tensor(rng.normal(0, 1, 16), requires_grad=True)
w2 = cr.tensor(rng.normal(0, 0.3, (16, 1)), requires_grad=True)
sgd = optim.SGD([w1, b1, w2], lr=0.2, momentum=0.9)


@cr.jit
def step(x, y):
    hidden = cr.tanh(x @ w1 + b1)
    error = hidden @ w2 - y
    loss = (error * error).mean()
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    return loss


with tempfile.TemporaryDirectory() as folder:
    files = step.to_c(folder, x, y)
    text = files.source.read_text(encoding="utf-8")
    parts = [f"static void {part}(void)" for part in ("forward", "backward", "update")]
    for part in parts:
        print(text[text.index(part) :].partition("}\n")[0] + "}")
    losses = [step(x, y).item() for _ in range(200)]
    print(f"in Python the loss goes from {losses[0]:.4f} to {losses[-1]:.4f}")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler:
        program = Path(folder) / "step"
        subprocess.run(
            [compiler, "-O2", "-std=c99", files.source, "-o", program, "-lm"], check=True
        )
        said = subprocess.run(
            [program, "200"], cwd=folder, capture_output=True, text=True, check=True
        )
        in_c = [float(line.split()[-1]) for line in said.stdout.splitlines()]
        print(f"in C                       {in_c[0]:.4f} to {in_c[-1]:.4f}")
        assert np.allclose(in_c, losses, rtol=0, atol=1e-9)

for line in ("hidden = cr.tanh(x @ w1 + b1)", "loss.backward()", "static double w1_grad[32];"):
    assert line in text
assert text.index(parts[0]) < text.index(parts[1]) < text.index(parts[2])
assert losses[-1] < 0.1 * losses[0]
