"""A GPT is trained on names by a C program that chainrule wrote; the losses are those of Python.

`to_c` writes the whole training step (forward, backward, AdamW) as one C99 file, and beside it the
weights and the batches of all steps. The program needs a C compiler and the C library: it runs
where there is no Python.

Run it: `python examples/c_export_names.py FOLDER`, where the program is to be (4 seconds).
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import chainrule as cr
from chainrule import optim
from chainrule.data import Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, generator_draw

ROWS, LENGTH = 16, 16


def compiled_by_c(source: Path) -> Path:
    """The program that the system's C compiler makes of a file."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("this example needs a C compiler: cc or gcc")
    program = source.with_suffix("")
    command = [compiler, "-O2", "-std=c99", str(source), "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    return program


def losses_of(program: Path, steps: int) -> list[float]:
    """What the program prints, a line for each step: `step 1  loss 3.29488039`."""
    done = subprocess.run(
        [program, str(steps)], cwd=program.parent, capture_output=True, text=True, check=True
    )
    return [float(line.split()[-1]) for line in done.stdout.splitlines()]


def main(folder: str, steps: int = 200) -> list[tuple[float, float]]:
    """Write, compile and run the program, train in Python too; return the losses of both."""
    corpus = Corpus.of(load_names(), random.Random(1))
    config = GPTConfig.gpt2(
        corpus.tokenizer.vocab_size, block_size=LENGTH, n_layer=2, n_head=4, n_embd=32
    )
    model = GPT(config, draw=generator_draw(cr.Generator(0)))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)

    @cr.jit(dynamic={"tokens": ("B", "T"), "targets": ("B", "T")})
    def step(tokens: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        loss = model.loss(tokens, targets, ignore_index=-1)
        loss.backward()
        optimizer.step()
        return loss

    batches = [corpus.batch(k, ROWS, LENGTH) for k in range(steps)]
    calls = [(batch.tokens, batch.targets) for batch in batches]
    source, data = step.to_c(Path(folder) / "names.c", batches=calls)
    lines = source.read_text(encoding="utf-8").count("\n")
    print(f"{source.name}: {lines} lines; {data.name}: {data.stat().st_size} bytes")

    program = compiled_by_c(source)
    start = time.perf_counter()
    in_c = losses_of(program, steps)
    print(f"in C: {(time.perf_counter() - start) / steps * 1e3:.2f} ms a step")
    in_python = [step(*call).item() for call in calls]
    print("step  loss in C     in Python")
    for k in range(0, steps, max(steps // 8, 1)):
        print(f"{k + 1:4}  {in_c[k]:.8f}    {in_python[k]:.8f}")
    return list(zip(in_c, in_python, strict=True))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
