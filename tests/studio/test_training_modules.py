"""The studio's WebAssembly, run in Node, beside eager chainrule: same losses, same gradients."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.export.call_data import program_of
from chainrule.compile.llvm.host_target import host
from chainrule.compile.runtime.call.inputs import inputs
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.wasm.loader import write_loader
from chainrule.compile.wasm.target import like_wasm
from chainrule.studio import play
from chainrule.studio.modules import MODULES, page_modules
from chainrule.studio.training_gpt import POSITIONS, gpt_step, shuffled_names, training_data
from tests.compile.wasm.node import NODE, needs_node

WEB = Path(play.__file__).parent / "web"
BASE: dict[str, Any] = {
    "widths": [6, 4], "activation": "tanh", "residual": False, "init": "xavier",
    "optimizer": "adam", "rate": 0.01, "decay": 0, "batch": 32, "seed": 3, "squared": False,
}  # fmt: skip
DATA: dict[str, Any] = {"kind": "moons", "points": 120, "noise": 0.2, "seed": 3}


@cache
def modules() -> dict[str, bytes]:
    return page_modules()


def run_node(folder: Path, script: str, **values: Any) -> Any:
    """What a script that finds all of the pages' modules gives to `print`, read as JSON."""
    write_loader(folder)
    for name, data in modules().items():
        (folder / f"{name}.wasm").write_bytes(data)
    names = ["network_trainer", "gpt_trainer", "datasets", "network_script", "tensor_selector"]
    head = [f'import * as {n} from "{(WEB / n).as_uri()}.mjs";' for n in names]
    head += ['import {load} from "./chainrule.mjs";', 'import fs from "node:fs";']
    head += [f"const {name} = {json.dumps(v)};" for name, v in values.items()]
    head += [f"const modules = Object.fromEntries({[n for n in MODULES if n != 'ops']}.map((n) =>"
             " [n, fs.readFileSync(`${n}.wasm`)]));",
             "const print = (x) => console.log(JSON.stringify(x));"]  # fmt: skip
    (folder / "script.mjs").write_text("\n".join([*head, script]), encoding="utf-8")
    done = subprocess.run([str(NODE), "script.mjs"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TRAIN = """
const trainer = await network_trainer.NetworkTrainer.make(load, modules);
print(cases.map(({settings, data, before, changes}) => {
  const points = datasets.splitPoints(datasets.pointSet(data), 0.2, data.seed);
  trainer.begin(settings, points);
  for (let i = 0; i < before; i++) trainer.train();
  if (changes) trainer.change({...settings, ...changes}, points);
  for (let i = 0; i <= 100; i++) trainer.train();
  const {curve, origin} = trainer;
  const python = network_script.networkPython(
    {data, points, settings: trainer.settings, origin, until: before + 100, every: 20});
  return {python, curve: curve.steps.map((s, i) => [s, curve.train[i], curve.test[i]])};
}));
"""

SETTINGS: dict[str, dict[str, Any]] = {
    "tanh, Adam": {},
    "no hidden layer, SGD": {"widths": [], "optimizer": "sgd", "rate": 0.1},
    "sigmoid, six layers' worth of depth, momentum": {
        "widths": [5, 16, 3, 7], "activation": "sigmoid", "optimizer": "momentum", "rate": 0.05},
    "ReLU with residuals, Adam": {
        "widths": [8, 8, 8], "activation": "relu", "residual": True, "optimizer": "adam",
        "init": "he", "rate": 0.003},
    "leaky ReLU, AdamW with decay": {
        "activation": "leaky_relu", "optimizer": "adamw", "decay": 0.05, "batch": 1000},
    "linear, decay": {"widths": [1], "activation": "linear", "optimizer": "sgd", "decay": 0.01},
    "small weights, one at a time": {"init": "small", "batch": 1},
}  # fmt: skip


CHANGES = {"widths": [6, 5, 5], "residual": True, "activation": "sigmoid", "rate": 0.02}
KINDS = ("circles", "xor", "spirals", "plane", "hills")


def case(
    settings: dict[str, Any], data: dict[str, Any], before: int = 0, changes: Any = None
) -> dict[str, Any]:
    """What trains: `before` steps, then with `changes`."""
    return {"settings": BASE | settings, "data": DATA | data, "before": before, "changes": changes}


PROGRAMS = {
    **{name: case(settings, {}) for name, settings in SETTINGS.items()},
    **{
        kind: case({"squared": kind in ("plane", "hills")}, {"kind": kind, "seed": 11})
        for kind in KINDS
    },
    "a change while it runs": case({}, {}, 40, CHANGES),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of each case the curve of the page, and the program that the page shows."""
    cases = list(PROGRAMS.values())
    found = run_node(tmp_path_factory.mktemp("programs"), TRAIN, cases=cases)
    return dict(zip(PROGRAMS, found, strict=True))


@needs_node
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_that_is_shown_prints_the_losses_of_the_page(
    trained: dict[str, Any], name: str, capsys: pytest.CaptureFixture[str]
):
    found = trained[name]
    exec(compile(found["python"], "shown.py", "exec"), {"__name__": "__main__"})
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    got = [[int(line[0]), float(line[2]), float(line[4])] for line in printed]
    want = [row for row in found["curve"] if row[0] >= PROGRAMS[name]["before"]]
    assert len(got) == len(want) >= 5
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=2e-12)  # twelve digits are printed


@needs_node
def test_gradients_are_those_of_eager_chainrule(tmp_path: Path):
    settings = BASE | {"widths": [3, 3, 3], "activation": "sigmoid", "residual": True}
    found = run_node(tmp_path, """
      const trainer = await network_trainer.NetworkTrainer.make(load, modules);
      const points = datasets.splitPoints(datasets.pointSet(data), 0, 1);
      trainer.begin({...settings, batch: 1000}, points);
      const {layers, last} = trainer.weights(), theta = trainer.engine.arrays["theta.grad"];
      trainer.train();
      print({all: [...layers, last], x: [...points.train.x], y: [...points.train.y],
        norms: trainer.norms(), last: [...theta.slice(1088, 1091)],
        bias: theta[1104]});
    """, settings=settings, data=DATA)  # fmt: skip
    x, y = np.reshape(found["x"], (-1, 2)), np.array(found["y"])
    leaf = lambda v: cr.tensor(np.array(v, float), requires_grad=True)
    pairs = [(leaf(p["w"]), leaf(p["b"])) for p in found["all"]]
    h: Any = cr.tensor(x)
    for i, (w, b) in enumerate(pairs[:-1]):
        made = cr.sigmoid(h @ w + b)
        h = made + h if i else made
    out = (h @ pairs[-1][0] + pairs[-1][1])[:, 0]
    (cr.softplus(out) - out * y).mean().backward()
    norms = [float(np.hypot(np.linalg.norm(w.grad.numpy()), np.linalg.norm(b.grad.numpy())))
             for w, b in pairs]  # fmt: skip
    np.testing.assert_allclose(found["norms"], norms, rtol=1e-12)
    np.testing.assert_allclose(found["last"], pairs[-1][0].grad.numpy()[:, 0], rtol=1e-12)
    np.testing.assert_allclose(found["bias"], pairs[-1][1].grad.item(), rtol=1e-12)


@needs_node
def test_going_back_gives_the_same_run_again(tmp_path: Path):
    found = run_node(tmp_path, """
      const trainer = await network_trainer.NetworkTrainer.make(load, modules);
      trainer.begin(settings, datasets.splitPoints(datasets.pointSet(data), 0.2, 1));
      const losses = [];
      for (let i = 0; i < 400; i++) losses.push(trainer.train());
      trainer.rewind(250);
      const back = trainer.step, again = [];
      while (trainer.step < 400) again.push(trainer.train());
      trainer.change({...trainer.settings, rate: 1e9, optimizer: "sgd", activation: "linear"});
      for (let i = 0; i < 500 && !trainer.stopReason; i++) trainer.train();
      const {stopReason} = trainer;
      trainer.rewind(200);
      print({back, losses: losses.slice(200), again, stopReason,
             good: Number.isFinite(trainer.losses().train)});
    """, settings=BASE, data=DATA)  # fmt: skip
    assert found["back"] == 200 and found["again"] == found["losses"]
    assert "no finite number" in found["stopReason"] and found["good"]


@needs_node
def test_microgpt_trains_to_the_same_bits(tmp_path: Path):
    """As the same step does here, on vectors of 128 bits and without fused multiply-add."""
    steps = 120
    found = run_node(tmp_path, """
      const trainer = await gpt_trainer.GptTrainer.make(load, modules);
      const documents = names.split("\\n"), alphabet = "abcdefghijklmnopqrstuvwxyz";
      trainer.begin({documents, alphabet, steps: 1000, rate: 0.01});
      for (let i = 0; i < steps; i++) trainer.train();
      print({losses: trainer.losses, attention: trainer.attention("emma").heads.map((h) => [...h]),
             samples: trainer.samples(5, 0.5)});
    """, names=training_data()["names"], steps=steps)  # fmt: skip
    assert found["losses"] == native_losses(steps)
    heads = np.reshape(found["attention"], (4, 5, 5))
    np.testing.assert_allclose(heads.sum(-1), 1)
    assert (heads[:, *np.triu_indices(5, 1)] == 0).all()
    assert all(s == "" or s.isalpha() for s in found["samples"])


def native_losses(steps: int) -> list[float]:
    corpus, rng = shuffled_names()
    step, adam = gpt_step(rng)
    compiled = cr.jit(step, dynamic={"tokens": (None, "T"), "targets": (None, "T")})
    batches = [(b.tokens, b.targets) for b in (corpus.batch(n, 1, POSITIONS) for n in range(steps))]
    variant, first = compiled._variant(batches[0], {})
    native, places = program_of(variant)
    twin, losses = Native(native.program, native.checks, like_wasm(host())), list[float]()
    count = len(variant.args)
    state = first.arrays[count : count + len(variant.held) + len(variant.grads)]
    for n, batch in enumerate(batches):
        adam.param_groups[0]["lr"] = 0.01 * (1 - n / 1000)
        given = inputs(variant, batch)
        assert given is not None
        arrays = [*given.arrays[:count], *state, *given.arrays[count + len(state) :]]
        losses.append(float(twin(arrays, {s: arrays[i].shape[a] for s, i, a in places})[0]))
    return losses


def test_modules_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(
        "chainrule.studio.modules._compile", lambda names: {n: n.encode() for n in names}
    )
    assert page_modules() == {n: n.encode() for n in MODULES}
    monkeypatch.setattr(
        "chainrule.studio.modules._compile", lambda names: dict.fromkeys(names, b"")
    )
    assert page_modules() == {n: n.encode() for n in MODULES}
    kept = next(tmp_path.rglob("*network2*"))
    kept.write_bytes(kept.read_bytes()[:-1])
    assert page_modules()["network2"] == b""


@needs_node
def test_points_of_any_settings(tmp_path: Path):
    """As many as are asked for, with three digits, split without loss; the same seed, the same."""
    found = run_node(tmp_path, """
      const random = datasets.studioRandom(7), wrong = [], kinds = Object.keys(datasets.POINT_SETS);
      for (let n = 0; n < 600; n++) {
        const kind = kinds[n % kinds.length], points = 1 + Math.floor(random() * 300);
        const given = {kind, points, noise: random(), seed: Math.floor(random() * 1e9)};
        const held = random() * 0.9, made = datasets.pointSet(given), {x, y, numbers} = made;
        const {train, test} = datasets.splitPoints(made, held, given.seed);
        const rows = (p) => Array.from(p.y, (v, i) => `${p.x[2 * i]} ${p.x[2 * i + 1]} ${v}`);
        const checks = {
          sizes: x.length === 2 * points && y.length === points && train.y.length >= 1,
          digits: [...x].every((v) => Number(v.toFixed(3)) === v),
          labels: numbers || [...y].every((v) => v === 0 || v === 1),
          both: numbers || points < 4 || new Set(y).size === 2,
          same: rows(made).join() === rows(datasets.pointSet(given)).join(),
          whole: rows(made).sort().join() === [...rows(train), ...rows(test)].sort().join(),
        };
        for (const [name, good] of Object.entries(checks)) if (!good) wrong.push([name, given]);
      }
      print(wrong);
    """)  # fmt: skip
    assert found == []


PASTED = {
    "x y label\n1 2 0\n2.5;2;1": (2, ""),
    "1,2,3\n\n2,2,5\n1,1,7\n": (3, ""),
    "a,b,c\nd,e,f\n": (0, "1 line is no"),
    "": (0, "There is no point"),
    "1,2\n1,2,3,4\n1,nan,0\n1,2,0": (1, "3 lines are no"),
    "100,50,1\n-20,3,0": (2, "Coordinates are multiplied by 0.028"),
    "1e400,1,1\n1,1,1": (1, "1 line is no"),
}


@needs_node
def test_pasted_lines(tmp_path: Path):
    found = run_node(tmp_path, """
      const of = (t) => datasets.pastedPoints(t);
      print(texts.map(of).map(({points, note}) => [points?.y.length ?? 0, note]));
    """, texts=list(PASTED))  # fmt: skip
    for (count, note), (text, (wanted, words)) in zip(found, PASTED.items(), strict=True):
        assert count == wanted and words in note and bool(words) == bool(note), text


SELECTED = {
    "wte": "wte.weight 27 16 0 0",
    "h.0.attn.wk.grad[:, :2]": "blocks.0.attn.qkv.weight.grad 16 2 16 0",
    "blocks.0.attn.qkv.weight.grad[:8]": "blocks.0.attn.qkv.weight.grad 8 16 0 0",
    "layer0.attn_wv[-1, ::-3]": "blocks.0.attn.qkv.weight 1 6 47 15",
    "h.0.attn.wo[5:2]": "selects nothing",
    "wte[27]": "27 is outside: axis 0 has 27 elements",
    "wte[0, 0, 0]": "2 axes",
    "wte[::0]": "not 0",
    "wte[": "is no selector",
    "nothing": "There is no tensor nothing",
}


@needs_node
def test_selectors(tmp_path: Path):
    found = run_node(tmp_path, """
      const {tensors} = await gpt_trainer.GptTrainer.make(load, modules);
      print(texts.map((t) => tensor_selector.selectedTensor(t, tensors)).map((s) => s.error
        ?? `${s.name} ${s.rows.length} ${s.columns.length} ${s.rows[0]} ${s.columns[0]}`));
    """, texts=list(SELECTED))  # fmt: skip
    for got, (text, want) in zip(found, SELECTED.items(), strict=True):
        assert (got == want) if want.split()[0].endswith(("weight", "grad")) else want in got, text
