"""The drawing itself: well-formed, complete, nothing on top of anything, the same every time."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import numpy as np
import pytest

import chainrule as cr
from chainrule import show
from chainrule.page.graph.as_svg import layout_sheets
from chainrule.page.graph.cards import measure, sheet
from chainrule.page.graph.layout import Gaps, Layout, arrange, depths
from chainrule.page.graph.picture import Card, Edge, Facts, Picture

SVG = "{http://www.w3.org/2000/svg}"


def mlp(x: cr.Tensor, W: cr.Tensor, b: cr.Tensor, V: cr.Tensor) -> cr.Tensor:
    h = cr.tanh(x @ W + b)
    return (cr.softmax(h @ V) * 2 + h.sum()).mean()


def drawing(**options: object) -> show.Drawing:
    rng = np.random.default_rng(7)
    shapes = [(4, 3), (3, 5), (5,), (5, 2)]
    return show.graph(mlp, *[rng.normal(size=s) for s in shapes], **options)


def random_picture(seed: int, count: int) -> Picture:
    rng = random.Random(seed)
    edges = [Edge(i, rng.randrange(max(0, i - 12), i), 0) for i in range(1, count)]
    edges += [Edge(i, rng.randrange(i), 1) for i in range(2, count, 2)]
    cards = [
        Card(i, Facts("op", "f" * rng.randrange(1, 9), value="1" * rng.randrange(1, 30)))
        for i in range(count)
    ]
    return Picture(tuple(cards), tuple(sorted(edges, key=lambda e: (e.target, e.input_index))))


@pytest.mark.parametrize("direction", ["right", "down"])
@pytest.mark.parametrize("flow", [False, True])
def test_well_formed_and_complete(direction: str, flow: bool):
    d = drawing(direction=direction, flow=flow)
    root = ET.fromstring(d.svg())
    ids = [g.get("id") for g in root.iter(f"{SVG}g") if g.get("id")]
    assert len(ids) == len(set(ids)) == len(d.picture.cards) + len(d.picture.edges)
    assert {f"n{c.id}" for c in d.picture.cards} <= set(ids)
    assert {f"e{e.source}-{e.target}-{e.input_index}" for e in d.picture.edges} <= set(ids)


def test_everything_from_outside_is_escaped():
    evil = "<script>&\"'\x00\x1b]]>|{}\\ \ud800 \ufffe"
    a = cr.Tensor(1.0, requires_grad=True)
    y = a * 2.0
    d = show.graph(y, names={evil: a, f"{evil} result": y})
    root = ET.fromstring(d.svg())
    texts = [t.text or "" for t in root.iter(f"{SVG}text")]
    assert any(t.startswith("<script>&\"'") for t in texts)
    assert not list(root.iter(f"{SVG}script"))
    d.svg().encode("utf-8")
    assert all(c.isprintable() or c == "\n" for c in d.text())
    assert r"\<script\>&\"'" in d.dot()


def boxes(picture: Picture, direction: str) -> list[tuple[float, float, float, float]]:
    sheets = [sheet(c) for c in picture.cards]
    centers = layout_sheets(picture, sheets, direction).centers
    return [
        (x - s.wide / 2, y - s.tall / 2, x + s.wide / 2, y + s.tall / 2)
        for s, (x, y) in zip(sheets, centers, strict=True)
    ]


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@pytest.mark.parametrize("direction", ["right", "down"])
@pytest.mark.parametrize("seed", range(8))
def test_no_boxes_overlap(seed: int, direction: str):
    found = boxes(random_picture(seed, 60), direction)
    assert not [1 for a, b in combinations(found, 2) if overlap(a, b)]
    assert min(x for b in found for x in b) >= -1e-6


@pytest.mark.parametrize("seed", range(8))
def test_no_edge_meets_a_box_on_its_way(seed: int):
    picture = random_picture(seed, 60)
    sheets = [sheet(c) for c in picture.cards]
    layout = layout_sheets(picture, sheets, "right")
    found = boxes(picture, "right")
    for bends in layout.bends:
        for (x0, y0), (x1, y1) in zip(bends[::2], bends[1::2], strict=True):
            assert y0 == y1
            assert not [1 for b in found if overlap((x0, y0 - 1, x1, y0 + 1), b)]


def test_no_text_leaves_its_box():
    cards = [*drawing().picture.cards, *random_picture(1, 40).cards]
    cards.append(
        Card(0, Facts("op", "漢字" * 20, "W" * 99, "float64 (9, 9)", "M" * 99, "m" * 99), 7)
    )
    for card in cards:
        s = sheet(card)
        for t in s.texts:
            assert t.wide == measure(t.text, t.style)
            assert t.x >= 0 and t.x + t.wide <= s.wide and 0 < t.y <= s.tall
        rows = [t for t in s.texts if s.texts[0].y - 2 <= t.y <= s.texts[0].y + 2]
        for a, b in pairwise(rows):
            assert a.x + a.wide <= b.x
    assert measure("mmm", "op") > measure("iii", "op")


def test_the_drawing_holds_everything_that_is_in_it():
    d = drawing(max_nodes=6)
    svg = ET.fromstring(d.svg())
    wide, tall = float(svg.get("width", 0)), float(svg.get("height", 0))
    corners = [
        tuple(map(float, re.findall(r"-?[\d.]+", g.get("transform", ""))))
        for g in svg.iter(f"{SVG}g")
        if g.get("transform")
    ][1:]
    for c, (x, y) in zip(d.picture.cards, corners, strict=True):
        s = sheet(c)
        assert x >= 0 and x + s.wide + 32 <= wide + 0.2 and y >= 0 and y + s.tall + 32 <= tall
    for t in svg.iter(f"{SVG}text"):
        if t.get("class") == "faint" and "nodes" in (t.text or ""):
            assert float(t.get("x", 0)) + measure(t.text or "", "faint") <= wide - 16


def test_the_same_graph_gives_the_same_bytes():
    one, two = drawing(), drawing()
    assert (one.svg(), one.text(), one.dot()) == (two.svg(), two.text(), two.dot())


def test_a_deep_chain():
    x = y = cr.Tensor(0.5, requires_grad=True)
    for _ in range(3_000):  # three times what Python lets functions call themselves
        y = cr.sin(y)
    d = show.graph(y, max_nodes=None)
    assert len(d.picture.cards) == 3_001
    assert len(ET.fromstring(d.svg()).findall(f".//{SVG}polygon")) == 3_000
    lines = d.text().splitlines()
    assert max(map(len, lines)) < 200
    assert len([line for line in lines if "→" not in line]) == 1 + 3_001
    assert x.grad is None


def test_a_long_edge_does_not_cost_a_bend_for_each_layer():
    edges = [(i + 1, i, 0.3) for i in range(300)] + [(300, i, 0.6) for i in range(299)]
    layout = arrange([(10.0, 10.0)] * 301, edges, Gaps(5, 5, 2))
    assert isinstance(layout, Layout)
    assert max(map(len, layout.bends)) <= 2 * 65


def test_layers_are_longest_paths():
    #      0 <- 1 <- 2,  0 <- 2
    assert depths(3, [(1, 0, 0.5), (2, 1, 0.5), (2, 0, 0.5)]) == [0, 1, 2]


def test_crossings_are_taken_out():
    # 3 goes to 1 and 2, 4 to 1 only: met in this order, (4, 1) and (3, 2) would cross
    edges = [(1, 0, 0.3), (2, 0, 0.6), (3, 1, 0.5), (4, 1, 0.5), (3, 2, 0.5)]
    c = arrange([(10.0, 10.0)] * 5, edges, Gaps(5, 5, 2)).centers
    assert c[1][1] < c[2][1] and c[4][1] < c[3][1]


def test_a_chain_is_straight():
    layout = arrange([(10.0, 10.0 + i) for i in range(9)], [(i + 1, i, 0.5) for i in range(8)],
                     Gaps(5, 5, 2))  # fmt: skip
    assert len({round(y, 9) for _, y in layout.centers}) == 1


def test_large_gradients_get_wide_edges():
    d = show.graph(lambda a, b: a * 1000.0 + b, 1.0, 1.0, flow=True)
    wide = {
        g.get("id"): float(g[0].get("stroke-width", 0))
        for g in ET.fromstring(d.svg()).iter(f"{SVG}g")
        if (g.get("id") or "").startswith("e")
    }
    name = {c.name: c.id for c in d.picture.cards}
    of = {e.source: wide[f"e{e.source}-{e.target}-{e.input_index}"] for e in d.picture.edges}
    assert of[name["a"]] == 5 > of[name["b"]] == 2


def test_dot_names_every_node_and_edge():
    d = drawing(direction="down")
    assert "rankdir=TB" in d.dot()
    assert len(re.findall(r"^  n\d+ \[", d.dot(), re.M)) == len(d.picture.cards)
    assert len(re.findall(r"^  n\d+ -> n\d+;", d.dot(), re.M)) == len(d.picture.edges)
