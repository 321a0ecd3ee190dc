"""Where the page puts boxes, and how it folds nodes into groups: over random graphs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.studio.page_code import needs_node, run_code

pytestmark = needs_node

LAYOUT = """
const drawn = graphs.map(({sizes, edges}) => layoutGraph(sizes, edges));
const again = graphs.map(({sizes, edges}) => layoutGraph(sizes, edges));
print({drawn, same: JSON.stringify(drawn) === JSON.stringify(again)});
"""


def random_graph(draw: random.Random, count: int) -> dict[str, Any]:
    """Boxes of many sizes; each reads a few of the latest, and now and then one from far back."""
    edges: set[tuple[int, int]] = set()
    for i in range(1, count):
        for _ in range(draw.choice([0, 1, 1, 2, 2, 3])):
            near = draw.random() < 0.9
            edges.add((draw.randrange(max(0, i - 8) if near else 0, i), i))
    sizes = [{"along": draw.uniform(30, 70), "across": draw.uniform(60, 210)} for _ in range(count)]
    return {"sizes": sizes, "edges": [{"from": a, "to": b} for a, b in sorted(edges)]}


def boxes(graph: Any, drawn: Any) -> list[tuple[float, float, float, float]]:
    return [
        (c["along"] - s["along"] / 2, c["along"] + s["along"] / 2,
         c["across"] - s["across"] / 2, c["across"] + s["across"] / 2)
        for s, c in zip(graph["sizes"], drawn["centers"], strict=True)
    ]  # fmt: skip


def test_boxes_stand_apart_edges_go_on_and_all_is_inside(tmp_path: Path):
    draw = random.Random(3)
    counts = [1, 2, 3, 5, 8, 13, 40, 40, 90, 200]
    graphs = [random_graph(draw, n) for n in counts]
    got = run_code(tmp_path, ("layout.mjs",), LAYOUT, graphs=graphs)
    assert got["same"]
    for graph, drawn in zip(graphs, got["drawn"], strict=True):
        placed = sorted(boxes(graph, drawn))
        for k, (a0, a1, c0, c1) in enumerate(placed):
            assert a0 >= -1e-6 and a1 <= drawn["extent"]["along"] + 1e-6
            assert c0 >= -1e-6 and c1 <= drawn["extent"]["across"] + 1e-6
            for b0, _, d0, d1 in placed[k + 1 :]:
                if b0 > a1:
                    break
                assert c1 <= d0 + 1e-6 or d1 <= c0 + 1e-6, "two boxes overlap"
        for e, bends in zip(graph["edges"], drawn["bends"], strict=True):
            here, there = (drawn["centers"][e[k]]["along"] for k in ("from", "to"))
            way = [here, *[b["from"] for b in bends], there]
            assert way == sorted(way) and here < there


def test_what_belongs_together_is_near(tmp_path: Path):
    """A chain is a straight line; in a tree a parent stands over the middle of its children; and in
    random graphs edges are far shorter than between boxes drawn by lot."""
    draw = random.Random(4)
    size = {"along": 40, "across": 100}
    chain = {"sizes": [size] * 12, "edges": [{"from": i, "to": i + 1} for i in range(11)]}
    tree = {"sizes": [size] * 31, "edges": [{"from": (i - 1) // 2, "to": i} for i in range(1, 31)]}
    wild = random_graph(draw, 150)
    a, b, c = run_code(tmp_path, ("layout.mjs",), LAYOUT, graphs=[chain, tree, wild])["drawn"]
    assert len({round(p["across"], 6) for p in a["centers"]}) == 1
    for i in range(15):
        middle = (b["centers"][2 * i + 1]["across"] + b["centers"][2 * i + 2]["across"]) / 2
        assert abs(b["centers"][i]["across"] - middle) < 1e-6
    across = [p["across"] for p in c["centers"]]
    own = [abs(across[e["from"]] - across[e["to"]]) for e in wild["edges"]]
    lot = [abs(draw.choice(across) - draw.choice(across)) for _ in range(2000)]
    assert sum(own) / len(own) < 0.5 * sum(lot) / len(lot)


# --- Groups --------------------------------------------------------------------------------------

GROUPS = """
const start = performance.now();
const trace = new Trace(made);
const root = buildGroups(trace);
const open = openAtFirst(root);
const seen = [];
const all = (group) => { seen.push(group.nodes.length); group.children.forEach((c) => typeof c === "number" || all(c)); };
all(root);
const states = [open, new Set([root.key]), new Set(keysOf(root))];
function keysOf(group) { return [group.key, ...group.children.flatMap((c) => (typeof c === "number" ? [] : keysOf(c)))]; }
print({
  seconds: (performance.now() - start) / 1000,
  nodes: root.nodes,
  keys: keysOf(root),
  stacks: seen.length,
  states: states.map((s) => {
    const {boxes, boxOf, edges} = visibleBoxes(trace, root, s);
    return {titles: boxes.map((b) => (b.group ? b.group.title : b.node)), counts: boxes.map((b) => b.group?.count ?? 0),
      boxOf: Array.from(boxOf), edges: edges.map((e) => [e.from, e.to, e.pairs.length])};
  }),
});
"""  # noqa: E501


def node(kind: str, inputs: list[int], module: str) -> dict[str, Any]:
    op = "add" if kind == "op" else kind
    return {"kind": kind, "op": op, "inputs": inputs, "label": "", "shape": [], "line": "",
            "dtype": "float64", "module": module, "formula": "", "value": None}  # fmt: skip


def gpt_like(blocks: int, each: int) -> dict[str, Any]:
    """A trace of `blocks` blocks of two modules, and a stream that goes through all of them."""
    nodes = [node("input", [], "")]
    stream = 0
    for b in range(blocks):
        last = stream
        for part in ("attn", "mlp"):
            for k in range(each):
                if k % 5 == 0:
                    nodes.append(node("parameter", [], f"h.{b}.{part}"))
                inputs = [last, len(nodes) - 1] if k % 5 == 0 else [last]
                nodes.append(node("op", inputs, f"h.{b}.{part}"))
                last = len(nodes) - 1
        nodes.append(node("op", [stream, last], f"h.{b}"))
        stream = len(nodes) - 1
    nodes.append(node("op", [stream], "head"))
    return {"name": "gpt", "nodes": nodes, "sweeps": []}


def random_program(draw: random.Random, count: int) -> dict[str, Any]:
    modules = ["", "a", "a.b", "a.b.c", "d", "d.0", "d.1", "d.2"]
    nodes = [node("input", [], "")]
    module = ""
    for i in range(1, count):
        if draw.random() < 0.25:
            module = draw.choice(modules)
        kind = "op" if draw.random() < 0.8 else draw.choice(["parameter", "constant"])
        inputs = [draw.randrange(max(0, i - 6), i) for _ in range(draw.randint(1, 3))]
        nodes.append(node(kind, inputs if kind == "op" else [], module))
    return {"name": "random", "nodes": nodes, "sweeps": []}


def check_states(made: dict[str, Any], got: dict[str, Any]) -> None:
    """Each node is in one place, and whatever is folded, the boxes have an order."""
    count = len(made["nodes"])
    assert sorted(got["nodes"]) == list(range(count))
    assert len(set(got["keys"])) == len(got["keys"])
    for state in got["states"]:
        assert min(state["boxOf"]) >= 0 and max(state["boxOf"]) == len(state["titles"]) - 1
        inputs = {i: set[int]() for i in range(len(state["titles"]))}
        for a, b, _ in state["edges"]:
            inputs[b].add(a)
        ready = [i for i, found in inputs.items() if not found]
        users = {i: [b for b, found in inputs.items() if i in found] for i in inputs}
        done = 0
        while ready:
            i = ready.pop()
            done += 1
            for b in users[i]:
                inputs[b].discard(i)
                if not inputs[b]:
                    ready.append(b)
        assert done == len(state["titles"]), "the folded graph has a cycle"
        pairs = sum([n for _, _, n in state["edges"]])
        across = [
            (i, j)
            for j, n in enumerate(made["nodes"])
            for i in n["inputs"]
            if state["boxOf"][i] != state["boxOf"][j]
        ]
        assert pairs == len(across)
    assert len(got["states"][2]["titles"]) == count


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_fold(tmp_path: Path, seed: int):
    made = random_program(random.Random(seed), 120)
    check_states(made, run_code(tmp_path, ("trace.mjs", "groups.mjs"), GROUPS, made=made))


def test_twelve_blocks_are_one_stack(tmp_path: Path):
    made = gpt_like(12, 40)
    got = run_code(tmp_path, ("trace.mjs", "groups.mjs"), GROUPS, made=made)
    check_states(made, got)
    folded = got["states"][1]
    assert folded["titles"][0] == 0  # the input of the program stands outside
    assert len(folded["titles"]) == 3
    assert len(got["states"][0]["titles"]) <= 70
    assert "0 … 11" in got["states"][0]["titles"]
    assert got["states"][0]["counts"][got["states"][0]["titles"].index("0 … 11")] == 12


def test_a_hundred_thousand_nodes_fold_in_time(tmp_path: Path):
    made = gpt_like(12, 3500)
    got = run_code(tmp_path, ("trace.mjs", "groups.mjs"), GROUPS, made=made)
    assert len(made["nodes"]) > 100_000 and got["seconds"] < 6
    assert len(got["states"][0]["titles"]) <= 70
