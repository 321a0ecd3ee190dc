"""Graphs as pictures: what they say of values, gradients, ops and lines; errors; files."""

from __future__ import annotations

import importlib.util
import re
import stat
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import chainrule as cr
from chainrule import show
from chainrule.page.graph.picture import number
from chainrule.scalar import Value
from chainrule.traces.value_text import value_text

ROOT = Path(__file__).parents[2]


def leaves(*xs: float) -> list[cr.Tensor]:
    return [cr.Tensor(x, requires_grad=True) for x in xs]


def scalar(x: float, label: str) -> Value:
    v = Value(x)
    v.label = label
    return v


def facts(drawing: show.Drawing) -> dict[str, tuple[str, str]]:
    return {card.name: (card.facts.value, card.facts.grad) for card in drawing.picture.cards}


S1 = {
    "a": ("2", "−3"),
    "b": ("−3", "2"),
    "d": ("10", "1"),
    "mul": ("−6", "1"),
    "add": ("4", "1"),
    "relu": ("4", "1"),
}


def test_a_function_shows_every_value_and_gradient():
    assert facts(show.graph(lambda a, b, d: cr.relu(a * b + d), 2.0, -3.0, 10.0)) == S1


def test_a_graph_shows_its_derivative_and_stores_nothing():
    a, b, d = leaves(2.0, -3.0, 10.0)
    y = cr.relu(a * b + d)
    assert facts(show.graph(y, names={"a": a, "b": b, "d": d})) == S1
    assert a.grad is None
    y.backward()  # the picture freed nothing
    assert a.grad is not None and a.grad.item() == -3


def test_after_backward_what_it_left_is_shown_and_the_rest_is_said_to_be_unknown():
    a, b, d = leaves(2.0, -3.0, 10.0)
    y = cr.relu(a * b + d)
    y.backward()
    y2 = show.graph(y, names={"a": a, "b": b, "d": d})
    got = facts(y2)
    assert (got["a"], got["b"], got["d"]) == (S1["a"], S1["b"], S1["d"])
    assert got["mul"][1] == "" and "show.graph(f, *args)" in y2.picture.note
    assert "∂" in y2.svg() and "–" in y2.text()


def test_gradients_that_were_left_win_over_computed_ones():
    (a,) = leaves(3.0)
    y = a + a
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert facts(show.graph(y, names={"a": a}))["a"] == ("3", "4")


def test_a_function_ignores_gradients_left_in_what_it_uses():
    (w,) = leaves(5.0)
    (w * 1.0).backward()
    assert facts(show.graph(lambda x: x * w, 2.0, names={"w": w}))["w"] == ("5", "2")


def test_scalars():
    a, b, d = scalar(2.0, "a"), scalar(-3.0, "b"), scalar(10.0, "d")
    y = (a * b + d).relu()
    y.backward()
    got = {c.name: (c.facts.value, c.facts.grad) for c in show.graph(y).picture.cards}
    assert got == {
        "a": S1["a"],
        "b": S1["b"],
        "d": S1["d"],
        "*": S1["mul"],
        "+": S1["add"],
        "ReLU": S1["relu"],
    }


def test_the_numbers_that_a_scalar_met_are_constants():
    x = Value(3.0)
    cards = show.graph(2 * x + 2).picture.cards
    assert [c.facts.value for c in cards if c.facts.kind == "constant"] == ["2", "2"]


class Plain:
    """A class like micrograd's, which lacks most of what could be shown."""

    def __init__(self, data: float, prev: tuple[Plain, ...] = ()) -> None:
        self.data, self._prev, self.grad = data, prev, 0.0


def test_a_foreign_scalar_is_read_by_its_attributes():
    a = Plain(1.5)
    picture = show.graph(Plain(3.0, (a, a)), names={"a": a}).picture
    assert [c.name for c in picture.cards] == ["op", "a"]
    assert [(e.source, e.target, e.input_index) for e in picture.edges] == [(1, 0, 0), (1, 0, 1)]


def test_the_wrong_order_can_be_drawn():
    a, b = scalar(2.0, "a"), scalar(3.0, "b")
    product = a * b
    total = product + a
    total.grad = 1.0
    for v in (product, total):  # the product hands on its gradient before it has one
        v._backward()
    drawing = show.graph(total, steps=[product, total])
    assert {c.name: c.facts.grad for c in drawing.picture.cards} == {
        "a": "1",
        "b": "0",
        "*": "1",
        "+": "1",
    }
    assert [(c.name, c.step) for c in drawing.picture.cards if c.step] == [("+", 2), ("*", 1)]
    assert ">step 1</text>" in drawing.svg() and "(1) *" in drawing.text()


def test_edges_follow_the_order_of_the_inputs():
    a, b = leaves(1.0, 2.0)
    picture = show.graph(b - a, names={"a": a, "b": b}).picture
    first, second = (picture.cards[e.source].name for e in picture.edges if e.target == 0)
    assert (first, second) == ("b", "a")


def test_the_line_is_the_users():
    (a,) = leaves(1.0)
    y = cr.exp(a)
    line = int(test_the_line_is_the_users.__code__.co_firstlineno) + 2
    assert show.graph(y).picture.cards[0].facts.line == f"{Path(__file__).name}:{line}"


def test_nested_arguments_are_named():
    def f(p: dict[str, cr.Tensor], x: cr.Tensor, *rest: cr.Tensor) -> cr.Tensor:
        return p["w"] * x + p["b"] + rest[0]

    names = {c.name for c in show.graph(f, {"w": 2.0, "b": 1.0}, 3.0, 4.0).picture.cards}
    assert {"p[0]", "p[1]", "x", "argument 2"} <= names


def test_labels_are_names_the_other_way_round():
    a, b = leaves(1.0, 2.0)
    assert show.text(a * b, labels={a: "a", b: "b"}) == show.text(a * b, names={"a": a, "b": b})


def test_an_op_with_several_outputs():
    def f(x: cr.Tensor) -> cr.Tensor:
        first, second = cr.unstack(x)
        return first * second

    cards = show.graph(f, np.array([2.0, 5.0])).picture.cards
    assert cards[0].facts.value == "10" and facts(show.graph(f, np.array([2.0, 5.0])))["x"] == (
        "[2, 5]",
        "[5, 2]",
    )


def test_an_op_of_whose_outputs_one_is_used():
    x = np.array([[2.0, 1.0], [1.0, 5.0]])
    for f in (lambda x: cr.unstack(x)[0][0], lambda x: cr.linalg.eigh(x)[0].sum()):
        assert "x" in facts(show.graph(f, x))


def test_a_constant_alone_is_a_graph():
    assert "[1, 2]" in show.text(cr.Tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.float32(2.5), "2.5"),
        (np.array([[1.0, -2.0]]), "[[1, −2]]"),
        (np.array([True, False]), "[True, False]"),
        (np.array(1 - 2j), "1 − 2i"),
        (np.zeros((0, 3)), "empty"),
        (np.full(100, 0.25), "all 0.25"),
        (np.arange(10.0), "4.5 ± 2.9, 0 … 9"),
        (np.array([*range(8), np.nan, np.inf]), "3.5 ± 2.3, 0 … 7, 2 not finite"),
        (np.full(8, np.nan), "8 not finite"),
    ],
)
def test_values_in_one_line(x: np.ndarray, said: str):
    assert value_text(np.asarray(x)) == said


def test_numbers_are_short():
    got = [number(x) for x in (0.70707, 1e-20, -1e30, 3, 10**12, float("nan"), float("-inf"))]
    assert got == ["0.70707", "1e−20", "−1e30", "3", "1e12", "nan", "−inf"]


# --- leaving out ---------------------------------------------------------------------------------


def test_what_is_left_out_is_said():
    (x,) = leaves(1.0)
    y = x
    for _ in range(50):
        y = cr.sin(y)
    drawing = show.graph(y, max_nodes=10)
    assert len(drawing.picture.cards) == 10 and drawing.picture.cards[9].cut == 1
    for form in (drawing.text(), drawing.svg(), drawing.dot()):
        assert "10 of 51 nodes" in form and re.search("1 inputs? left out", form)


def test_what_is_used_twice_is_shown_once_in_text():
    def f(a: cr.Tensor) -> cr.Tensor:
        h = cr.exp(a)
        return h * h + h

    lines = show.text(f, 1.0).splitlines()
    assert len([line for line in lines if line.lstrip("│├└─ ").startswith("exp #1")]) == 1
    assert len([line for line in lines if "exp → #1" in line]) == 2


def test_text_is_a_tree():
    a, b, d = leaves(2.0, -3.0, 10.0)
    y = (a * b + d) * 2.0
    lines = show.text(y, names={"a": a, "b": b, "d": d}).splitlines()
    assert [re.split(r"  +[^ │├└]", line)[0].rstrip() for line in lines[1:]] == [
        "mul",
        "├─ add",
        "│  ├─ mul",
        "│  │  ├─ a",
        "│  │  └─ b",
        "│  └─ d",
        "└─ constant",
    ]


# --- settings, files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "up"}, "'right' or 'down', not 'up'"),
        ({"max_nodes": 0}, "max_nodes: at least 1"),
        ({"max_nodes": True}, "max_nodes must be an integer or None, not bool True"),
        ({"names": {1: "a"}}, "a name is a string"),
    ],
)
def test_bad_settings(options: dict[str, object], message: str):
    (a,) = leaves(1.0)
    kind = cr.DtypeError if True in options.values() else cr.ConfigError
    with pytest.raises(kind, match=message):
        show.graph(a * 2.0, **options)


def test_what_is_no_graph():
    (a,) = leaves(1.0)
    for y in (3.0, "y", None, np.ones(3), [a]):
        with pytest.raises(cr.DtypeError, match="no part of a graph"):
            show.graph(y)
    with pytest.raises(cr.DtypeError, match="arguments go with a function"):
        show.graph(a, 1.0)
    with pytest.raises(cr.DtypeError, match="no part of a graph"):
        show.graph(lambda x: (x, x), 1.0)
    with pytest.raises(cr.DtypeError, match=r"'b' is float 3\.0"):
        show.graph(a, names={"b": 3.0})


def test_saving(tmp_path: Path):
    drawing = show.graph(lambda x: x * x, 3.0)
    for ending, form in (
        (".svg", drawing.svg()),
        (".txt", drawing.text()),
        (".dot", drawing.dot()),
    ):
        path = tmp_path / f"x{ending}"
        drawing.save(path)
        drawing.save(str(path))
        assert path.read_text("utf-8") == form.rstrip("\n") + "\n"
        assert stat.S_IMODE(path.stat().st_mode) & 0o400
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.dot", "x.svg", "x.txt"]


def test_saving_to_nowhere(tmp_path: Path):
    drawing = show.graph(lambda x: x * x, 3.0)
    with pytest.raises(cr.ConfigError, match=r"must end in \.svg, \.txt or \.dot"):
        drawing.save(tmp_path / "x.png")
    with pytest.raises(cr.ConfigError, match="no folder"):
        drawing.save(tmp_path / "none" / "x.svg")
    (tmp_path / "x.svg").mkdir()
    with pytest.raises(OSError):
        drawing.save(tmp_path / "x.svg")
    assert [p.name for p in tmp_path.iterdir()] == ["x.svg"]


def test_what_a_notebook_and_a_terminal_show():
    drawing = show.graph(lambda x: x * x, 3.0)
    assert str(drawing) == drawing.text()
    assert drawing._repr_svg_() == drawing.svg()
    assert drawing.svg() in drawing._repr_html_()


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readmes_picture_is_what_the_code_draws():
    drawing = script(ROOT / "docs" / "picture.py").drawing()
    assert (ROOT / "docs" / "picture.svg").read_text("utf-8") == drawing.svg()
    assert facts(drawing) == S1
