"""The slips of the page: each makes wrong exactly the gradients that it must, by differences of the
loss, computed again in the page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule.studio.slips import slip_trace
from chainrule.traces.files import to_json
from chainrule.verify.mistakes import MISTAKES
from tests.studio.page_code import needs_node, run_code

pytestmark = needs_node
MODULES = ("trace.mjs", "replay.mjs", "slips.mjs", "walk.mjs", "op_table.mjs")

WALK = """
const trace = decodeTrace(text);
const sweep = trace.sweeps[0];
const plan = replayPlan(trace, sweep, table);
const named = trace.nodes.filter((n) => ["W1", "b1", "W2", "b2"].includes(n.label));
const values = new Map(named.map((n) => [n.id, {...n.value, data: n.value.data.map((x, i) => x + 0.1 * Math.sin(3 * i + n.id))}]));
const now = replayValues(trace, plan, table, values);
const moved = traceWithValues(trace, sweep, table, now);
const loss = (with_) => replayValues(trace, plan, table, with_)[sweep.result].data[0];
const differences = named.map((n) => Array.from(n.value.data, (_, i) => {
  const at = (h) => {
    const data = values.get(n.id).data.slice();
    data[i] += h;
    return loss(new Map(values).set(n.id, {...n.value, data}));
  };
  return (at(1e-5) - at(-1e-5)) / 2e-5;
}));
const pull = (m, g) => pullThrough(moved, m, g);
const walked = (slip, before) => walkAgain(moved, moved.sweeps[0], rightOrder(moved.sweeps[0]), slipRules(slip, moved, moved.sweeps[0], pull, before));
const gradients = (found) => Object.fromEntries(named.map((n) => [n.label, Array.from(found.gradients.get(n.id)?.data ?? [])]));
const right = walked(null);
const kept = new Map(named.map((n) => [n.id, right.gradients.get(n.id)]));
const same = replayValues(trace, plan, table, new Map());
print({
  replayed: trace.nodes.map((n, i) => n.kind === "op" ? [Array.from(n.value.data), Array.from(same[i].data)] : [[0], [0]]),
  recorded: Object.fromEntries(named.map((n) => [n.label, [Array.from(sweep.gradients.get(n.id).data), Array.from(walkAgain(trace, sweep, rightOrder(sweep)).gradients.get(n.id).data)]])),
  differences: Object.fromEntries(named.map((n, k) => [n.label, differences[k]])),
  right: gradients(right),
  slips: Object.fromEntries(SLIPS.map((s) => [s.key, {code: s.code, gradients: gradients(walked(s, s.keeps ? kept : undefined)), where: s.where}])),
  wrongOrder: gradients(walkAgain(moved, moved.sweeps[0], wrongOrder(moved.sweeps[0]))),
});
"""  # noqa: E501

ALL = {"W1", "b1", "W2", "b2"}
WRONG = {
    "V1": {"W1", "b1"}, "V2": ALL, "V3": ALL, "V4": {"W1", "b1"}, "V5": ALL, "V6": {"b1"},
    "V7": {"W1", "b1"}, "V8": {"W1", "b1"}, "V9": {"b2"}, "V10": ALL, "V11": {"W1", "b1"},
    "V12": {"W1", "b1"},
}  # fmt: skip
"""Which gradients a slip makes wrong: those of all that is computed before it."""


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("slips")
    return run_code(folder, MODULES, WALK, text=to_json(slip_trace()))


def test_values_are_computed_again(walked: Any):
    for recorded, again in walked["replayed"]:
        np.testing.assert_allclose(again, recorded, rtol=1e-14, atol=1e-14)
    for recorded, again in walked["recorded"].values():
        np.testing.assert_allclose(again, recorded, rtol=1e-13, atol=1e-15)


def test_the_right_walk_is_the_difference_of_the_loss(walked: Any):
    for name, g in walked["right"].items():
        np.testing.assert_allclose(g, walked["differences"][name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("key", WRONG)
def test_a_slip_makes_wrong_what_it_must(walked: Any, key: str):
    slip = walked["slips"][key]
    found = {
        name
        for name, expected in walked["differences"].items()
        if not np.allclose(
            slip["gradients"][name] or np.zeros(len(expected)), expected, rtol=1e-5, atol=1e-8
        )
    }
    assert found == WRONG[key]
    assert slip["code"] in {m.code for m in MISTAKES.values()}


def test_every_slip_is_here(walked: Any):
    assert list(walked["slips"]) == list(WRONG) == [f"V{k}" for k in range(1, 13)]


def test_the_wrong_order_is_wrong(walked: Any):
    assert any(
        not np.allclose(g or 0, walked["differences"][name], rtol=1e-3)
        for name, g in walked["wrongOrder"].items()
    )
