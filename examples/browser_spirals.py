"""Writes an HTML page that trains a network in the browser, and draws what it knows at each step.

The compiled step becomes a WebAssembly module, which the page holds together with its loader: the
file needs no server and no network. A call trains once on the points of two spirals; it returns the
loss, and for each point of a grid how likely it is to be of the first spiral. Where Node is
installed the module is run there, too, and its losses are compared with Python's.

Run it: `python examples/browser_spirals.py FOLDER` (4 seconds), then open spirals.html there.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import optim
from chainrule.models.mlp import MLP

SIZE = 64
"""Points of the grid along an axis, pixels of the picture."""
PAGE = Template("""<!DOCTYPE html>
<meta charset="utf-8"><title>Two spirals</title>
<p id="loss"></p><canvas id="picture" width="$size" height="$size" style="width: 480px"></canvas>
<script type="module">
$loader
const step = await load(Uint8Array.from(atob("$module"), (c) => c.charCodeAt(0)));
const context = document.getElementById("picture").getContext("2d");
const picture = context.createImageData($size, $size);
for (let calls = 1; calls <= 2000; calls++) {
  const {loss, likely} = step.call();  // one training step
  likely.forEach((p, i) => picture.data.set([255 * p, 128, 255 * (1 - p), 255], 4 * i));
  context.putImageData(picture, 0, 0);
  document.getElementById("loss").textContent = "step " + calls + ": loss " + loss[0].toFixed(4);
  await new Promise(requestAnimationFrame);
}
</script>
""")
NODE = """import {readFileSync} from "node:fs"; import {load} from "./chainrule.mjs";
const step = await load(readFileSync("step.wasm")), losses = [];
for (let k = 0; k < Number(process.argv[2]); k++) losses.push(step.call().loss[0]);
console.log(JSON.stringify(losses));
"""


def spirals(n: int) -> tuple[Any, Any]:
    """Points (2 n, 2) of two spirals, and 1 or 0 for each, (2 n, 1)."""
    t = np.linspace(0.5, 3, n)
    first = np.stack([t * np.cos(np.pi * t), t * np.sin(np.pi * t)], axis=1) / 3.2
    return np.concatenate([first, -first]), np.repeat([1.0, 0.0], n)[:, None]


def main(folder: str, steps: int = 500) -> list[tuple[float, float]]:
    """Write the page; print and return losses of Node and of Python, as many as Node made."""
    x, y = spirals(100)
    line = np.linspace(-1, 1, SIZE)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    model = MLP([2, 32, 32, 1], "tanh", dtype=np.float64, generator=cr.Generator(0))
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    @cr.jit
    def step(x: Any, y: Any, grid: Any) -> Any:
        optimizer.zero_grad()
        loss = cr.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        with cr.no_grad():
            likely = cr.sigmoid(model(grid))
        return loss, likely

    path = Path(folder)
    module = step.to_wasm(path / "step.wasm", x, y, grid, loader=True)
    loader = (path / "chainrule.mjs").read_text(encoding="utf-8")
    text = base64.b64encode(module.read_bytes()).decode()
    page = path / "spirals.html"
    page.write_text(PAGE.substitute(size=SIZE, loader=loader, module=text), encoding="utf-8")
    print(f"open {page}: it holds a module of {module.stat().st_size} bytes")
    in_node: list[float] = []
    if node := shutil.which("node"):
        (path / "run.mjs").write_text(NODE, encoding="utf-8")
        command = [node, "run.mjs", str(steps)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        in_node = json.loads(done.stdout)
    in_python = [step(x, y, grid)[0].item() for _ in in_node]
    print("step  loss in Node            in Python")
    for k in range(0, len(in_node), max(steps // 8, 1)):
        print(f"{k + 1:4}  {in_node[k]:<22}  {in_python[k]}")
    return list(zip(in_node, in_python, strict=True))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
