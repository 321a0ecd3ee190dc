"""How fast are compiled training steps in WebAssembly, in Node and Chromium, beside native code?

Called from JavaScript, step after step; what a step is given is put into memory before each. The
native step of the network runs on one thread, too, so that what is left is vectors of 128 bits, no
fused multiply-add, and the products in panels.
"""

from __future__ import annotations

import base64
import gzip
import random
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from bench.pairs import Row, seconds, show
from chainrule import nn, optim
from chainrule.compile.wasm.loader import script, write_loader
from chainrule.data import Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, python_draw

STEPS, ROUNDS = 1000, 5

RUN = """
const times = [];
for (let r = 0; r < rounds; r++) {
  step.reset();
  const start = performance.now();
  for (const call of calls) {
    if (call.T) step.resize({T: call.T});
    for (const [name, values] of Object.entries(call.inputs)) step.inputs[name].set(values);
    step.call();
  }
  times.push(performance.now() - start);
}
times.sort((a, b) => a - b);
"""


def gpt() -> tuple[Any, list[tuple[Any, Any]]]:
    """A step of microgpt, and what its steps are given."""
    model = GPT(GPTConfig.microgpt(27, 16), draw=python_draw(random.Random(42)))
    adam = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))

    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    names = Corpus.of(load_names(), random.Random(42))
    batches = [names.batch(n, 1, 16) for n in range(STEPS)]
    compiled = cr.jit(step, dynamic={"tokens": (None, "T"), "targets": (None, "T")})
    return compiled, [(b.tokens, b.targets) for b in batches]


def mlp() -> tuple[Any, list[tuple[Any, Any]]]:
    """A step of a network of 784-256-128-10, 32 pictures at a time, and pictures of noise."""
    cr.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    adam = optim.Adam(model.parameters())

    @cr.jit
    def step(x: Any, labels: Any) -> Any:
        loss = cr.cross_entropy(model(x), labels)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    rng = np.random.default_rng(0)
    batches = [
        (rng.random((32, 784), np.float32), rng.integers(0, 10, 32)) for _ in range(STEPS // 20)
    ]
    return step, batches


def written(name: str, batches: list[tuple[Any, Any]], names: tuple[str, str]) -> str:
    """The calls as JavaScript."""
    calls: list[str] = []
    for x, y in batches:
        parts: list[str] = []
        for label, a in zip(names, (np.asarray(x), np.asarray(y)), strict=True):
            kind, end = ("BigInt64Array", "n") if a.dtype == np.int64 else ("Float32Array", "")
            numbers = ",".join([f"{v}{end}" for v in a.ravel().tolist()])
            parts.append(f"{label}: new {kind}([{numbers}])")
        size = f"T: {np.asarray(x).shape[1]}, " if name == "gpt" else ""
        calls.append(f"{{{size}inputs: {{{', '.join(parts)}}}}}")
    return f"const rounds = {ROUNDS}, calls = [{','.join(calls)}];"


def in_node(module: Path, calls: str) -> float:
    """Median milliseconds of all calls."""
    write_loader(module.parent)
    file = module.with_suffix(".mjs")
    load = f'const step = await load(fs.readFileSync("{module}"));'
    head = f'import {{load}} from "./chainrule.mjs"; import fs from "node:fs"; {load}'
    file.write_text(f"{head}\n{calls}\n{RUN}\nconsole.log(times[rounds >> 1]);", encoding="utf-8")
    done = subprocess.run(["node", str(file)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def in_chromium(module: Path, calls: str) -> float:
    """The same in a page."""
    data = base64.b64encode(module.read_bytes()).decode()
    page = module.with_suffix(".html")
    page.write_text(
        f'<!doctype html><body><script type="module">\n{script()}\n'
        f'const step = await load(Uint8Array.from(atob("{data}"), (c) => c.charCodeAt(0)));\n'
        f"{calls}\n{RUN}\ndocument.body.textContent = times[rounds >> 1];</script>",
        encoding="utf-8",
    )
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                   f"--user-data-dir={profile}", page.as_uri()]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(re.findall(r"<body>(.*?)</body>", done.stdout)[0])


def native(step: Any, batches: list[tuple[Any, Any]]) -> float:
    """Median milliseconds of all calls here, on one thread."""
    cr.set_num_threads(1)
    given = [(cr.tensor(np.asarray(x)), cr.tensor(np.asarray(y))) for x, y in batches]

    def run() -> None:
        for x, y in given:
            step(x, y)

    run()
    return 1000 * statistics.median([seconds(run) for _ in range(ROUNDS)])


def rows_of(name: str, what: str, aims: tuple[str, str], names: tuple[str, str]) -> list[Row]:
    step, batches = gpt() if name == "gpt" else mlp()
    calls = written(name, batches, names)
    largest = {"T": 16} if name == "gpt" else None
    out: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        module = step.to_wasm(folder, *batches[0], largest=largest)
        here = native(step, batches)
        for where, run, tool in (("Node", in_node, "node"), ("Chromium", in_chromium, "chromium")):
            if shutil.which(tool):
                took = run(module, calls)
                text = show(took / 1000), show(here / 1000), f"{took / here:.2f}"
                out.append(Row(f"{what}: {where} / native, one thread", *text, aims[0]))
        size = len(gzip.compress(module.read_bytes()))
        out.append(Row(f"{what}: the module, compressed", f"{size / 1000:.0f} kB", "", "", aims[1]))
    return out


def run() -> list[Row]:

    return [
        *rows_of("gpt", f"microgpt, {STEPS} steps", ("≤ 60 ms", "≤ 60 kB"), ("tokens", "targets")),
        *rows_of("mlp", "784-256-128-10, 50 steps", ("≤ 4", ""), ("x", "labels")),
    ]
