"""Do the studio's pages open, draw and move at once, up to a trace of GPT-2's size?

In Chromium, from a file, with the network off. Frames are counted by requestAnimationFrame while
the mouse drags and the wheel zooms.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from bench.pairs import Row, seconds, show
from chainrule import nn
from chainrule.studio.page import joined_code, page
from chainrule.studio.play import studio_page, trace_page

BLOCKS, OPS, PARTS = 12, 2000, ("ln_1", "attn", "ln_2", "mlp")
ROUNDS = 3

LAYOUT = """
let seed = 9;
const draw = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
const sizes = Array.from({length: 5000}, () => ({along: 50, across: 60 + 150 * draw()}));
const edges = [];
for (let to = 1; to < sizes.length; to++)
  for (let k = Math.floor(3 * draw()); k >= 0; k--) {
    const low = draw() < 0.9 ? Math.max(0, to - 8) : 0;
    edges.push({from: low + Math.floor(draw() * (to - low)), to});
  }
const times = [];
for (let r = 0; r < 5; r++) {
  const start = performance.now();
  layoutGraph(sizes, edges);
  times.push(performance.now() - start);
}
console.log(times.sort((a, b) => a - b)[2]);
"""


def layout_seconds() -> float:
    """The layout of 5,000 boxes, in Node: the median of five."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "layout.mjs"
        file.write_text(joined_code("layout.mjs") + LAYOUT, encoding="utf-8")
        done = subprocess.run(["node", str(file)], capture_output=True, text=True, check=True)
    return float(done.stdout) / 1000


# --- A trace of GPT-2's size ----------------------------------------------------------------------


def large_trace() -> dict[str, Any]:
    """100,000 nodes in modules h.0 to h.11, forward and backward, as a trace's file has them."""
    draw = random.Random(0)
    nodes: list[dict[str, Any]] = []

    def add(kind: str, inputs: list[int], module: str) -> int:
        name = {"op": "mul", "input": "input"}.get(kind, "parameter")
        nodes.append(
            {"kind": kind, "op": name, "inputs": inputs, "dtype": "float64", "shape": [],
             "value": draw.randrange(64), "label": "" if kind == "op" else f"p{len(nodes)}",
             "line": "", "module": module, "formula": "a * b" if kind == "op" else ""}
        )  # fmt: skip
        return len(nodes) - 1

    stream = add("input", [], "")
    for block in range(BLOCKS):
        for part in PARTS:
            module, last = f"h.{block}.{part}", stream
            for k in range(OPS):
                weight = add("parameter", [], module) if k % 24 == 0 else stream
                last = add("op", [last, weight], module)
            stream = add("op", [stream, last], f"h.{block}")
    return {"format": "chainrule trace", "version": 1, "name": "a step of GPT-2's size",
            "lines": {}, "nodes": nodes, "sweeps": [sweep(nodes)],
            "arrays": arrays(draw)}  # fmt: skip


def sweep(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    local = {"form": "factor", "values": 1, "rule": "b", "strong": False}
    messages = [
        {"node": i, "place": place, "target": target, "local": local, "contribution": i % 64}
        for i in range(len(nodes) - 1, -1, -1)
        for place, target in enumerate(nodes[i]["inputs"])
    ]
    gradients = {str(i): i % 64 for i in range(len(nodes))}
    return {
        "result": len(nodes) - 1,
        "seed": 0,
        "messages": messages,
        "gradients": gradients,
        "more": {},
    }


def arrays(draw: random.Random) -> list[dict[str, Any]]:
    import base64

    return [
        {"dtype": "float64", "stored": "<f8", "shape": [],
         "data": base64.b64encode(np.float64(draw.gauss(0, 1)).tobytes()).decode()}
        for _ in range(64)
    ]  # fmt: skip


# --- In Chromium ----------------------------------------------------------------------------------


@contextmanager
def chromium() -> Iterator[Any]:
    """A page, offline."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1280, "height": 800})
        browser.close()


def opening_seconds(tab: Any, url: str) -> float:
    """From the start of the navigation to the first card."""
    tab.goto("about:blank")
    tab.goto(url, wait_until="commit")
    tab.locator(".card").first.wait_for(timeout=60_000)
    return tab.evaluate("performance.now()") / 1000


COUNT = """() => {
  globalThis.frames = [];
  const own = frames;  // an earlier count ends
  const count = (t) => { own.push(t); if (own === frames) requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""
RATE = """() => {
  const gaps = frames.slice(1);
  return 1000 * gaps.length / (frames.at(-1) - frames[0]);
}"""


def frame_rate(tab: Any) -> float:
    """Frames a second while the graph is dragged and zoomed."""
    box = tab.locator(".stage").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.evaluate(COUNT)
    for k in range(6):
        tab.mouse.down()
        tab.mouse.move(x + (80 if k % 2 else -80), y + 60, steps=20)
        tab.mouse.up()
        tab.mouse.move(x, y)
        for _ in range(10):
            tab.mouse.wheel(0, -40 if k % 2 else 40)
    return float(tab.evaluate(RATE))


def large_rows() -> list[Row]:
    document = page("GPT-2", "trace_document.mjs", data={"trace": (made := large_trace())})
    count = f"{len(made['nodes']):,} nodes"
    with tempfile.TemporaryDirectory() as folder, chromium() as tab:
        file = Path(folder) / "large.html"
        file.write_text(document, encoding="utf-8")
        opens = statistics.median([opening_seconds(tab, file.as_uri()) for _ in range(ROUNDS)])
        folded = frame_rate(tab)
        tab.evaluate("document.querySelector('[aria-label=\"fold or unfold all groups\"]').click()")
        tab.locator(".card.group").first.click()
        for _ in range(3):
            if tab.locator(".card.group").count():
                tab.locator(".card.group").first.click()
                tab.wait_for_timeout(500)
        unfolded = frame_rate(tab)
    return [
        Row(f"{count}: from file to first card", show(opens), "", "", "≤ 3 s"),
        Row(f"{count}, folded: pan and zoom", f"{folded:.0f} frames/s", "", "", "≥ 30"),
        Row(f"{count}, a block unfolded: pan and zoom", f"{unfolded:.0f} frames/s", "", "", "≥ 30"),
    ]


# --- Training -------------------------------------------------------------------------------------

COUNT_DRAWN = """globalThis.drawn = 0;
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message) {
  if (message.type === "frame") drawn++;
  return post.apply(this, arguments);
};"""
THOUSAND = """async () => {
  const train = [...document.querySelectorAll("button")].find((b) => b.textContent === "Train");
  const step = document.querySelector(".t-fact-step b");
  const start = performance.now();
  train.click();
  while (step.textContent.replaceAll(",", "") !== "1000")
    await new Promise((resolve) => requestAnimationFrame(resolve));
  return (performance.now() - start) / 1000;
}"""


def training_rows() -> list[Row]:
    """Steps and drawn frames a second of a network; microgpt's first 1,000 steps, page drawn."""
    with tempfile.TemporaryDirectory() as folder, chromium() as tab:
        file = Path(folder) / "studio.html"
        file.write_text(studio_page(), encoding="utf-8")
        tab.add_init_script(COUNT_DRAWN)
        tab.goto(f"{file.as_uri()}#page=network&widths=16,16&points=500&split=0&pace=0&batch=1000")
        tab.get_by_role("button", name="Train").click()
        tab.wait_for_timeout(1500)
        tab.evaluate("drawn = 0")
        tab.wait_for_timeout(2000)
        frames = tab.evaluate("drawn") / 2
        speed = tab.locator(".t-fact-speed b").inner_text().replace(",", "")
        tab.goto("about:blank")
        tab.goto(f"{file.as_uri()}#page=gpt&pace=0")
        tab.wait_for_timeout(1500)
        times: list[float] = []
        for _ in range(ROUNDS):
            times.append(tab.evaluate(THOUSAND))
            tab.get_by_role("button", name="Reset").click()
            tab.wait_for_timeout(500)
    name = "2 layers of 16 units, all 500 points a step"
    return [
        Row(f"{name}: steps a second", speed, "", "", "≥ 1,000"),
        Row(f"{name}: frames drawn a second", f"{frames:.0f}", "", "", "≥ 50"),
        Row("microgpt, 1,000 steps", show(statistics.median(times)), "", "", "≤ 200 ms"),
    ]


# --- Sizes, and the command -----------------------------------------------------------------------


def network_page() -> str:
    """A recorded step of an MLP 4-32-16-3 on 32 rows."""
    draw = cr.Generator(0)
    sizes = ((4, 32), (32, 16), (16, 3))
    first, second, third = [nn.Linear(a, b, generator=draw) for a, b in sizes]
    model = nn.Sequential(first, nn.Sigmoid(), second, nn.Sigmoid(), third)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 4)).astype(np.float32), rng.integers(0, 3, 32)
    return trace_page(
        cr.record(lambda x, y: cr.cross_entropy(model(x), y), cr.tensor(x), cr.tensor(y))
    )


def command_rows() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "chainrule", "play", "--no-browser",
                   "--save", f"{folder}/page.html"]  # fmt: skip
        surroundings = {**os.environ, "CHAINRULE_CACHE_DIR": f"{folder}/cache"}

        def play() -> None:
            subprocess.run(command, env=surroundings, capture_output=True, check=True)

        cold = seconds(play)
        warm = statistics.median([seconds(play) for _ in range(ROUNDS)])
        rows.append(Row("chainrule play: command to page, warm cache", show(warm), "", "", "≤ 1 s"))
        rows.append(Row("chainrule play: command to page, cold cache", show(cold), "", "", "≤ 6 s"))
        if shutil.which("chromium"):
            with chromium() as tab:
                opens = opening_seconds(tab, (Path(folder) / "page.html").as_uri())
            rows.append(Row("the studio: from file to first card", show(opens), "", "", ""))
    return rows


def run() -> list[Row]:
    rows: list[Row] = []
    if shutil.which("node"):
        rows.append(Row("layout of 5,000 nodes", show(layout_seconds()), "", "", "≤ 1 s"))
    if shutil.which("chromium"):
        rows += [*large_rows(), *training_rows()]
    rows += command_rows()
    for what, text, aim in (
        ("the studio, one file", studio_page(), "≤ 600 kB"),
        ("a recorded MLP step, one file", network_page(), "≤ 300 kB"),
    ):
        rows.append(Row(what, f"{len(text.encode()) / 1000:.0f} kB", "", "", aim))
    return rows
