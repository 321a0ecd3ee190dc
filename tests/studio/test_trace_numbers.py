"""Recorded traces as the page reads them: every number, every term, every rounding, bit for bit."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.data import Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, python_draw
from chainrule.scalar import Value
from chainrule.studio.slips import slip_trace
from chainrule.traces.files import to_json
from chainrule.traces.local_derivatives.terms import rounding, terms_of
from chainrule.traces.trace import Opaque, Trace
from tests.studio.page_code import needs_node, run_code

pytestmark = needs_node
MOST = 24
"""Of a large contribution so many elements are opened."""


def network() -> Trace:
    """L3: an MLP 4-32-16-3 with sigmoid, on 20 rows."""
    draw = cr.Generator(3)
    sizes = [(4, 32), (32, 16), (16, 3)]
    layers = [nn.Linear(a, b, dtype=np.float64, generator=draw) for a, b in sizes]
    model = nn.Sequential(layers[0], nn.Sigmoid(), layers[1], nn.Sigmoid(), layers[2])
    rng = np.random.default_rng(1)
    x, y = cr.tensor(rng.normal(size=(20, 4))), cr.tensor(rng.integers(0, 3, 20))
    return cr.record(lambda x, y: cr.cross_entropy(model(x), y), x, y)


def attention_head() -> Trace:
    rng = np.random.default_rng(2)
    weights = [cr.tensor(rng.normal(size=(4, 3)), requires_grad=True) for _ in range(3)]
    x = cr.tensor(rng.normal(size=(2, 5, 4)))

    def head(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
        q, k, v = x @ wq, x @ wk, x @ wv
        p = cr.softmax((q @ cr.swapaxes(k, -1, -2)) / 3**0.5, axis=-1)
        return (p @ v).sum()

    return cr.record(head, x, *weights)


def gpt_step() -> Trace:
    model = GPT(GPTConfig.microgpt(27, 16), draw=python_draw(random.Random(42)))
    adam = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))
    batch = Corpus.of(load_names(), random.Random(42)).batch(0, 1, 16)

    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    return cr.record(step, batch.tokens, batch.targets)


def linear() -> Trace:
    """L1, with a bias that is repeated."""
    rng = np.random.default_rng(4)
    x, w, b = [cr.tensor(rng.normal(size=s), requires_grad=True) for s in ((5, 4), (4, 3), (3,))]
    return cr.record(lambda x, w, b: ((x @ w + b) ** 2).sum(), x, w, b)


def softmax_loss() -> Trace:
    """L2, and moves of elements: a flip, a part, a running sum, a sorted row."""
    rng = np.random.default_rng(5)
    x = cr.tensor(rng.normal(size=(4, 5)), requires_grad=True)
    y = cr.tensor(rng.integers(0, 5, 4))

    def loss(x: Any, y: Any) -> Any:
        moved = (
            cr.flip(x, axis=1)[:, 1:].sum() + cr.cumsum(x, axis=0).mean() + cr.sort(x)[:, 0].sum()
        )
        return cr.cross_entropy(cr.softmax(x, axis=-1), y) + moved

    return cr.record(loss, x, y)


def scalars() -> Trace:
    """S6."""

    def neuron(x1: Any, x2: Any, w1: Any, w2: Any, b: Any) -> Any:
        return cr.tanh(x1 * w1 + x2 * w2 + b)

    with cr.record() as recording:
        neuron(*[Value(x) for x in (2.0, 0.0, -3.0, 1.0, 6.881)]).backward()
    return recording.trace


PROGRAMS: dict[str, Callable[[], Trace]] = {
    f.__name__: f
    for f in (network, attention_head, gpt_step, linear, softmax_loss, scalars, slip_trace)
}

READ = """
const all = (x) => !isArray(x) ? null : Array.from(x.data, (v) => bits(Number(v)));
const trace = decodeTrace(text);
print({
  values: trace.nodes.map((n) => all(n.value)),
  sweeps: trace.sweeps.map((sweep) => ({
    gradients: [...sweep.gradients].map(([id, g]) => [id, all(g)]),
    running: [...sweep.gradients.keys()].map((id) => [id, all(sweep.running(id, sweep.messages.length))]),
    messages: sweep.messages.map((m) => {
      const again = m.local.form !== "opaque" && isArray(m.contribution) && isArray(sweep.gradients.get(m.node))
        ? all(pullThrough(trace, m, sweep.gradients.get(m.node))) : null;
      if (m.local.form === "opaque" || !isArray(m.contribution)) return {contribution: all(m.contribution), again, opened: []};
      const n = m.contribution.data.length;
      const opened = [];
      for (let i = 0; i < n; i += Math.max(1, Math.floor(n / most))) {
        const terms = termsOf(trace, sweep, m, i);
        opened.push([i, terms.map((t) => [t.j, bits(t.upstream), bits(t.local)]), bits(roundingOf(terms, m.contribution.data[i]))]);
      }
      return {contribution: all(m.contribution), again, opened};
    }),
  })),
});
"""  # noqa: E501


def hexes(x: Any) -> list[str] | None:
    if not isinstance(x, np.ndarray):
        return None
    return [struct.pack(">d", float(v)).hex() for v in x.ravel()]


def numbers(found: list[str]) -> Any:
    return np.array([struct.unpack(">d", bytes.fromhex(b))[0] for b in found])


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_and_terms_are_python_s(tmp_path: Path, name: str):
    trace = PROGRAMS[name]()
    modules = ("arrays.mjs", "terms.mjs", "trace.mjs")
    got = run_code(tmp_path, modules, READ, text=to_json(trace), most=MOST)
    assert got["values"] == [hexes(n.value) for n in trace.nodes]
    opened = 0
    assert len(got["sweeps"]) == len(trace.sweeps) > 0
    for sweep, found in zip(trace.sweeps, got["sweeps"], strict=True):
        gradients = {i: hexes(g) for i, g in sweep.gradients.items()}
        assert dict(found["gradients"]) == dict(found["running"]) == gradients
        for m, shown in zip(sweep.messages, found["messages"], strict=True):
            assert shown["contribution"] == hexes(m.contribution)
            if isinstance(m.local, Opaque):
                continue
            opened += len(shown["opened"])
            check_opened(trace, sweep, m, shown)
    assert opened > 0


def check_opened(trace: Trace, sweep: Any, m: Any, shown: Any) -> None:
    shape, bar = m.contribution.shape, m.contribution.ravel()
    out = trace.nodes[m.node].shape
    for flat, terms, rest in shown["opened"]:
        at = tuple([int(i) for i in np.unravel_index(flat, shape)])
        expected = terms_of(trace, sweep, m, at)
        assert terms == [
            [
                int(np.ravel_multi_index(t.source, out)) if out else 0,
                *hexes(np.array([t.upstream, t.local])),
            ]
            for t in expected
        ], trace.nodes[m.node].op
        own = rounding(expected, float(bar[flat]))
        assert rest == struct.pack(">d", own).hex() or (own == 0 == numbers([rest])[0]), (own, rest)
    if shown["again"] is not None:
        epsilon = float(np.finfo(bar.dtype).eps)
        size = float(np.max(np.abs(bar), initial=0))
        assert np.max(np.abs(numbers(shown["again"]) - bar), initial=0) <= 64 * epsilon * (
            size + 1e-30
        ) * math.sqrt(max(out or (1,)))


SUMS = "print(lists.map((x) => bits(exactSum(x))));"


def test_exact_sums_are_rounded_once(tmp_path: Path):
    draw = random.Random(7)
    lists = [
        [draw.uniform(-1, 1) * 10.0 ** draw.randint(-20, 20) for _ in range(draw.randint(1, 30))]
        for _ in range(500)
    ]
    lists += [[1.0, 2.0**-53, 2.0**-106], [1.0, 2.0**-53, -(2.0**-106)], [], [1e16, 1.0, 1e-16]]
    got = run_code(tmp_path, ("terms.mjs",), SUMS, lists=lists)
    assert [float(x) for x in numbers(got)] == [math.fsum(x) for x in lists]


DAMAGED = """
print(texts.map((text) => {
  try {
    decodeTrace(text);
    return null;
  } catch (error) {
    return [error.constructor.name, error.message];
  }
}));
"""


def test_a_damaged_trace_is_a_sentence(tmp_path: Path):
    """Each key of the file taken away or replaced, one after the other."""
    whole = json.loads(to_json(linear()))
    damages: list[str] = ["", "[]", "null", "{}", "nonsense", json.dumps({**whole, "version": 7})]

    def damage(x: Any, spoil: Callable[[Any], Any]) -> None:
        keys = list(x) if isinstance(x, dict) else range(len(x)) if isinstance(x, list) else ()
        for key in keys:
            old = x[key]
            x[key] = spoil(old)
            damages.append(json.dumps(whole))
            x[key] = old
            damage(old, spoil)

    damage(whole, lambda _: None)
    damage(whole, lambda old: -1 if isinstance(old, int) else "x")
    found = run_code(tmp_path, ("trace.mjs",), DAMAGED, texts=damages)
    refused = [f for f in found if f is not None]
    assert len(refused) > 0.3 * len(damages)
    for kind, message in refused:
        assert kind == "Error" and message.endswith("."), message
    assert found[:6] == [
        ["Error", "This is no trace: it is not JSON."],
        *[["Error", "This file holds no trace of chainrule."]] * 3,
        ["Error", "This is no trace: it is not JSON."],
        ["Error", "This trace is of version 7; this page reads version 1. Record it again."],
    ]
