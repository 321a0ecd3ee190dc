"""The expression language of the page: its trees, its sentences, its numbers, and its Python."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import random
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.studio.op_table import every_function, functions, table_data
from tests.studio.page_code import needs_node, run_code

pytestmark = needs_node
MODULES = ("expression.mjs", "expression_python.mjs", "scalar_trace.mjs", "op_table.mjs")
KNOWN = """
const known = (name) => {
  const found = table.named(name);
  return found && {name: found, arguments: table.functions[found].arguments};
};
const signs = Object.fromEntries(
  Object.entries(table.functions).filter(([, f]) => f.sign).map(([name, f]) => [name, f.sign]));
"""
TREES = """
const shape = (t) => t.kind === "number" ? t.value
  : t.kind === "name" ? t.name : [t.name, ...t.xs.map(shape)];
print(texts.map((text) => {
  try {
    return parseExpression(text, known).map(({name, tree}) => [name, shape(tree)]);
  } catch (error) {
    if (!(error instanceof ExpressionError)) return `${error.stack}`;
    return {error: error.message, at: error.at};
  }
}));
"""

# fmt: off
READ: dict[str, Any] = {
    "a": [["", "a"]],
    "a + b - c": [["", ["sub", ["add", "a", "b"], "c"]]],
    "a - (b - c)": [["", ["sub", "a", ["sub", "b", "c"]]]],
    "a + b*c": [["", ["add", "a", ["mul", "b", "c"]]]],
    "a / b / c": [["", ["div", ["div", "a", "b"], "c"]]],
    "-a**2": [["", ["neg", ["square", "a"]]]],
    "(-a)**2": [["", ["square", ["neg", "a"]]]],
    "a**b**c": [["", ["pow", "a", ["pow", "b", "c"]]]],
    "a**-1": [["", ["pow", "a", -1]]],
    "2**-x": [["", ["pow", 2, ["neg", "x"]]]],
    "-3": [["", -3]],
    "--x": [["", ["neg", ["neg", "x"]]]],
    "+x": [["", "x"]],
    "a * -b": [["", ["mul", "a", ["neg", "b"]]]],
    "3x + 1": [["", ["add", ["mul", 3, "x"], 1]]],
    "2(a + b)": [["", ["mul", 2, ["add", "a", "b"]]]],
    "2x**3": [["", ["mul", 2, ["pow", "x", 3]]]],
    "1.5e-3": [["", 0.0015]],
    ".5": [["", 0.5]],
    "5.": [["", 5]],
    "ln(x)": [["", ["log", "x"]]],
    "max(a, b)": [["", ["maximum", "a", "b"]]],
    "a · b − c × d": [["", ["sub", ["mul", "a", "b"], ["mul", "c", "d"]]]],
    "h = tanh(w*x); y = h**2": [["h", ["tanh", ["mul", "w", "x"]]], ["y", ["square", "h"]]],
    "h = a\nh*b\n": [["h", "a"], ["", ["mul", "h", "b"]]],
    "\n\n a \n ; b;": [["", "a"], ["", "b"]],
    "x = x*2": [["x", ["mul", "x", 2]]],
    "constructor + toString": [["", ["add", "constructor", "toString"]]],
}
REFUSED: dict[str, tuple[str, int]] = {
    "": ("Type an expression, such as relu(a*b + d).", 0),
    " ;\n;": ("Type an expression, such as relu(a*b + d).", 0),
    "a +": ("The expression ends too early.", 3),
    "a b": ('"b" is out of place here.', 2),
    "a $ b": ('I cannot read "$" here.', 2),
    "x^2": ("A power is written ** here, as in Python: x**2.", 1),
    "(a + b": ("A ) is missing.", 6),
    "relu(a": ("A ) is missing.", 6),
    "a)": ("This ) closes nothing.", 1),
    "a + b = c": ("Only a name can stand before =.", 6),
    "relu = 3": ("relu is a function of the op table and cannot be assigned to.", 0),
    "relu + 1": ("relu is a function: write relu(x).", 0),
    "foo(x)": ("There is no function foo in the op table.", 0),
    "toString(x)": ("There is no function toString in the op table.", 0),
    "tanh(a, b)": ("tanh takes 1 number, not 2.", 0),
    "1 + maximum(a)": ("maximum takes 2 numbers, not 1.", 4),
    "relu()": ("This ) closes nothing.", 5),
    "1e999": ("1e999 is too large for a number.", 0),
    "a,b": ('"," is out of place here.', 1),
    "é": ('I cannot read "é" here.', 0),
}
# fmt: on


def test_what_it_reads_and_what_it_refuses(tmp_path: Path):
    deep = "(" * 5000 + "a"
    texts = [*READ, *REFUSED, "x" * 10**6, deep[:3000], "-" * 3000 + "x", "2**" * 900 + "2"]
    got = run_code(tmp_path, MODULES, KNOWN + TREES, texts=texts)
    for text, tree in READ.items():
        assert got[texts.index(text)] == tree, text
    for text, (sentence, at) in REFUSED.items():
        assert got[texts.index(text)] == {"error": sentence, "at": at}, text
    assert got[-4]["error"] == "This is 1000000 characters long; 4000 are the most."
    for found in got[-3:]:
        assert found["error"] == "This is nested more than 120 deep."


def test_no_text_breaks_the_parser(tmp_path: Path):
    draw = random.Random(5)
    names = ["relu", "tanh", "maximum", "__proto__", "a", "b", "x1", "e"]
    words = [*names, *"()+-*/,;=^$\n\t1\u2212\u00b7", "**", "2.", ".5", "1e9"]
    texts = ["".join(draw.choices(words, k=draw.randint(1, 40))) for _ in range(1200)]
    for _ in range(300):
        text = random_expression(draw, 3)
        at = draw.randrange(len(text))
        texts.append(text[:at] + draw.choice(["", *"()*+-;a2,"]) + text[at + 1 :])
    texts += [
        "".join([chr(draw.randint(1, 0x2FFF)) for _ in range(draw.randint(1, 30))])
        for _ in range(500)
    ]
    got = run_code(tmp_path, MODULES, KNOWN + TREES, texts=texts)
    for text, found in zip(texts, got, strict=True):
        if isinstance(found, dict):
            assert found["error"].endswith((".", '" here.')), found
            assert 0 <= found["at"] <= len(text), (text, found)
        else:
            assert isinstance(found, list), (text, found)
    assert 50 < sum([isinstance(f, list) for f in got]) < 1900


# --- Numbers -------------------------------------------------------------------------------------

CASES: dict[str, dict[str, float]] = {
    "f = relu(a*b + d)": {"a": 2, "b": -3, "d": 10},
    "b = a + a": {"a": 3},
    "d = a*b + a": {"a": 2, "b": 3},
    "y = (3x + 1)**2": {"x": 1},
    "h = tanh(x1*w1 + x2*w2 + b)": {"x1": 2, "x2": 0, "w1": -3, "w2": 1, "b": 6.881},
    "y = 2**v + 1/v": {"v": 3},
    "x = x*x; x = x + 2**x; lambda = x": {"x": 1.25},
    "result = 2; result*y**2**3": {"y": 1.5},
    "(x**2)**3 + ((x + 1)**2)**2 - (-x)**3": {"x": 0.75},
    "Value = 3; cr = Value*print; cr": {"print": 2.5},
    "exp(2)*x - (3 - -2)/x": {"x": 0.5},
    "maximum(2, x) + ln(3*4)*x": {"x": 5},
}
RUN = """
const size = (x) => Math.abs(x.data[0]);
print(cases.map(([text, inputs]) => {
  const statements = parseExpression(text, known);
  const names = inputNames(statements);
  const trace = traceOfExpression(table, statements, inputs);
  const [sweep] = trace.sweeps;
  const input = (name) => trace.nodes.findIndex((n) => n.kind === "input" && n.label === name);
  return {
    value: bits(trace.nodes[sweep.result].value.data[0]),
    again: bits(valueOfExpression(table, statements, inputs)),
    largest: Math.max(...trace.nodes.map((n) => size(n.value)),
      ...[...sweep.gradients.values()].map(size),
      ...sweep.messages.map((m) => size(m.local.values))),
    gradients: names.map((n) => {
      const g = sweep.gradients.get(input(n));
      return [n, g ? bits(g.data[0]) : null];
    }),
    python: pythonOf(statements, names.map((n) => [n, inputs[n]]), signs),
  };
}));
"""
SMOOTH = ("tanh", "sigmoid", "exp", "softplus", "sin", "cos", "relu", "square", "atan")


def number(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def random_expression(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.15:
        return draw.choice([*"abc", f"{draw.uniform(0.1, 3):.3f}"])
    a, b = random_expression(draw, depth - 1), random_expression(draw, depth - 1)
    return draw.choice(
        [f"({a} + {b})", f"{a} * ({b})", f"({a}) / (2 + sigmoid({b}))", f"-({a})", f"({a}) - ({b})",
         f"({a})**2", f"(1 + softplus({a}))**({b})", f"maximum({a}, {b})"]
        + [f"{draw.choice(SMOOTH)}({a})" for _ in range(4)]
    )  # fmt: skip


def cases() -> list[tuple[str, dict[str, float]]]:
    draw = random.Random(11)
    out = list(CASES.items())
    while len(out) < len(CASES) + 100:
        text = f"y = {random_expression(draw, 3)}; y*0.5 + a*0.25"
        out.append((text, {name: round(draw.uniform(-2, 2), 4) for name in "abc"}))
    return out


def ran(program: str) -> dict[str, float]:
    """What a program prints, by what stands before the sign."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "shown", "exec"), {"__name__": "shown"})
    return {k: float(v) for k, v in re.findall(r"^(.*) = (.*)$", printed.getvalue(), re.M)}


def test_python_that_is_shown_prints_the_same_numbers(tmp_path: Path):
    """Within 4 ulp of the largest number on the way: a difference of large numbers may cancel."""
    asked = cases()
    exact_pairs = total = 0
    for (text, _), found in zip(
        asked, run_code(tmp_path, MODULES, KNOWN + RUN, cases=asked), strict=True
    ):
        assert found["value"] == found["again"], text
        python = ran(found["python"])
        [(_, shown), *gradients] = python.items()
        bound = 4 * math.ulp(found["largest"]) if math.isfinite(found["largest"]) else 0.0
        pairs = [(number(found["value"]), shown)]
        for name, bits in found["gradients"]:
            own = python[f"gradient of {name}"]
            pairs.append((number(bits) if bits else 0.0, own))
        for ours, theirs in pairs:
            same = ours == theirs or (math.isnan(ours) and math.isnan(theirs))
            total += 1
            exact_pairs += same
            assert same or abs(ours - theirs) <= bound, (text, ours, theirs, found["python"])
        assert len(gradients) == len(found["gradients"])
    assert exact_pairs > 0.6 * total


EXACT: dict[str, list[float]] = {
    "f = relu(a*b + d)": [4, -3, 2, 1],
    "b = a + a": [6, 2],
    "d = a*b + a": [8, 4, 2],
    "y = (3x + 1)**2": [16, 24],
}
"""Results, then gradients of the inputs in order, of some of `CASES`."""


def test_small_cases_are_exact(tmp_path: Path):
    asked = [(text, CASES[text]) for text in EXACT]
    found = run_code(tmp_path, MODULES, KNOWN + RUN, cases=asked)
    numbers = [[number(f["value"]), *[number(g) for _, g in f["gradients"]]] for f in found]
    assert dict(zip(EXACT, numbers, strict=True)) == EXACT


TABLE = """
print(points.map(([a, b]) => Object.entries(table.functions).flatMap(([name, f]) => {
  const {y, partials} = table.compute(name, [a, b].slice(0, f.arguments));
  return [y, ...partials].map(bits);
})));
"""


def test_the_table_in_the_page_is_the_compiled_engine(tmp_path: Path):
    """Within 2 ulp of what the engine compiles here, where it may fuse a product and a sum."""
    draw = random.Random(2)
    points = [(draw.uniform(-3, 3), draw.uniform(-3, 3)) for _ in range(20)] + [
        (0.0, 1.0),
        (0.5, 0.25),
    ]
    got = run_code(tmp_path, MODULES, TABLE, points=points)
    step = cr.jit(every_function)
    names = list(itertools.chain(*[[r.name] * (1 + len(r.partials)) for r in functions()]))
    assert list(table_data()["functions"]) == [r.name for r in functions()]
    for (a, b), row in zip(points, got, strict=True):
        native: list[Any] = step(np.float64(a), np.float64(b))
        for name, bits, value in zip(names, row, native, strict=True):
            x, y = number(bits), float(value)
            same = x == y or (math.isnan(x) and math.isnan(y))
            assert same or abs(x - y) <= 2 * math.ulp(y), (name, a, b, x, y)
