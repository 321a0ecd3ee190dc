"""A compiled step as a WebAssembly module: it trains to the same bits, and says what it cannot."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.compile.export.call_data import program_of
from chainrule.compile.llvm.host_target import host
from chainrule.compile.runtime.call.inputs import inputs
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.wasm import object_file
from chainrule.compile.wasm.draws import state_words
from chainrule.compile.wasm.loader import script
from chainrule.compile.wasm.object_file import Reader
from chainrule.compile.wasm.target import like_wasm
from chainrule.errors import ConfigError, DtypeError, TraceError
from chainrule.models.gpt import GPT, GPTConfig, python_draw
from tests.compile.c.test_c import corpus
from tests.compile.wasm.node import left, needs_node, ran

STEPS = 200


class Training:
    """A compiled training step of microgpt, one name at a time, with a rate that falls."""

    def __init__(self, dtype: Any) -> None:
        config = GPTConfig.microgpt(27, 16)
        model = GPT(config, draw=python_draw(random.Random(42)), dtype=dtype)
        self.adam = adam = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))

        def step(tokens: Any, targets: Any) -> Any:
            loss = model.loss(tokens, targets)
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss

        self.step = cr.jit(step, dynamic={"tokens": (None, "T"), "targets": (None, "T")})
        names = corpus()
        self.batches = [
            (b.tokens, b.targets) for b in (names.batch(n, 1, 16) for n in range(STEPS))
        ]

    def rate(self, n: int) -> float:
        return 0.01 * (1 - n / STEPS)

    def told(self) -> list[dict[str, Any]]:
        """What each call is given, for JavaScript."""
        return [
            {"T": x.shape[1], "tokens": [str(v) for v in np.asarray(x).ravel()],
             "targets": [str(v) for v in np.asarray(y).ravel()], "lr": self.rate(n)}
            for n, (x, y) in enumerate(self.batches)
        ]  # fmt: skip

    def narrow(self) -> list[float]:
        """The losses of the same program on a processor used like WebAssembly's."""
        self.adam.param_groups[0]["lr"] = self.rate(0)
        variant, first = self.step._variant(self.batches[0], {})
        native, places = program_of(variant)
        twin, losses = Native(native.program, native.checks, like_wasm(host())), list[float]()
        count = len(variant.args)
        state = first.arrays[count : count + len(variant.held) + len(variant.grads)]
        for n, batch in enumerate(self.batches):
            self.adam.param_groups[0]["lr"] = self.rate(n)
            given = inputs(variant, batch)
            assert given is not None
            arrays = [*given.arrays[:count], *state, *given.arrays[count + len(state) :]]
            losses.append(float(twin(arrays, {s: arrays[i].shape[a] for s, i, a in places})[0]))
        return losses


TRAIN = """
const losses = [];
for (const call of calls) {
  step.resize({[step.about.sizes[0].name]: call.T});
  step.inputs.tokens.set(call.tokens.map(BigInt));
  step.inputs.targets.set(call.targets.map(BigInt));
  step.inputs[rate][0] = call.lr;
  losses.push(step.call().loss[0]);
}
console.log(JSON.stringify(losses));
"""


@needs_node
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.sweep)])
def test_a_gpt_trains_to_the_same_bits(dtype: Any, tmp_path: Path):
    t = Training(dtype)
    module = t.step.to_wasm(tmp_path, *t.batches[0], largest={"T": 16})
    assert len(gzip.compress(module.read_bytes())) < 60_000
    losses = json.loads(ran(module, TRAIN, calls=t.told(), rate="lr"))
    assert losses == t.narrow()
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.3


# --- where it runs -------------------------------------------------------------------------------

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:"
)
PAGE = """<!doctype html>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<body><script type="module" id="loader">
{loader}
const bytes = Uint8Array.from(atob("{module}"), (c) => c.charCodeAt(0));
const run = async (bytes) => {{
  const step = await load(bytes), found = [];
  for (let i = 0; i < 3; i++) found.push(step.call().loss[0]);
  return found;
}};
const source = document.getElementById("loader").textContent.split("const bytes = Uint8Array")[0];
const text = `${{source}}\nconst run = ${{run}};
  onmessage = async (e) => postMessage(await run(e.data));`;
const code = URL.createObjectURL(new Blob([text], {{type: "text/javascript"}}));
const here = await run(bytes), worker = new Worker(code);
// the browser skips idle time, which is when a worker works: so this thread is busy till it answers
const busy = setInterval(() => {{ for (let i = 0; i < 3e7; i++); }}, 100);
worker.onmessage = (e) => {{
  clearInterval(busy);
  document.body.textContent = JSON.stringify([here, e.data]);
}};
worker.postMessage(bytes);
</script>"""


def descent() -> tuple[Any, Any]:
    """A compiled step of gradient descent, and what it is given."""
    w = cr.tensor(np.array([[0.3, -0.2], [0.1, 0.4]]), requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    @cr.jit
    def step(x: Any) -> Any:
        loss = cr.mean(cr.tanh(x @ w) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, cr.tensor(np.array([[1.0, 2.0], [3.0, -1.0]]))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_it_runs_in_a_page_without_a_server_and_in_a_worker(tmp_path: Path):
    step, x = descent()
    module = step.to_wasm(tmp_path, x)
    page = PAGE.format(
        policy=POLICY, loader=script(), module=base64.b64encode(module.read_bytes()).decode()
    )
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
               "--virtual-time-budget=20000", f"--user-data-dir={tmp_path / 'profile'}",
               (tmp_path / "page.html").as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    here, worker = json.loads(re.findall(r"<body>(.*?)</body>", done.stdout)[0])
    want = [step(x).item() for _ in range(3)]
    np.testing.assert_allclose(here, want, rtol=1e-14)
    assert worker == here and here[2] < here[0]


# --- what lies where -----------------------------------------------------------------------------


@needs_node
def test_state_inputs_sizes_and_results_are_views_of_memory(tmp_path: Path):
    total = cr.tensor(np.zeros(3))

    @cr.jit(dynamic={"x": ("B", None)})
    def step(x: Any) -> Any:
        total.data = total + x.sum(axis=0)
        return total * 2.0, x + 1.0

    x = np.arange(6.0).reshape(2, 3)
    module = step.to_wasm(tmp_path / "of" / "rows.wasm", x, largest={"B": 5}, loader=True)
    assert module.name == "rows.wasm" and (module.parent / "chainrule.mjs").exists()
    printed = ran(module, """
      step.call();
      step.resize({B: 5});
      const ones = new Array(15).fill(1);
      const first = step.loop([{x: ones}, {x: ones}]);
      console.log(JSON.stringify([step.sizes, Object.keys(step.inputs), Object.keys(step.state),
        first.result0.length, [...step.results.result0], step.results.result1.length]));
      step.reset();
      console.log(JSON.stringify([step.sizes, [...Object.values(step.state)[0]]]));
    """)  # fmt: skip
    first, second = map(json.loads, printed.splitlines())
    assert first == [{"B": 5}, ["x"], ["total"], 6, [26.0, 30.0, 34.0], 15]
    assert second == [{"B": 2}, [0.0, 0.0, 0.0]]


@needs_node
def test_many_calls_in_one(tmp_path: Path):
    """`steps` goes through calls that lie one after the other, and leaves result after result."""
    step = cr.jit(lambda x: (x * x).sum())
    module = step.to_wasm(tmp_path, np.zeros(3))
    printed = ran(module, """
      const [, bytes] = step.about.call, [, each] = step.about.returned;
      const memory = step.code.memory, from = memory.buffer.byteLength;
      memory.grow(1);
      const calls = new DataView(memory.buffer);
      for (let i = 0; i < 4; i++)
        for (let j = 0; j < 3; j++) calls.setFloat64(from + i * bytes + j * 8, i + j, true);
      step.code.steps(4, from, from + 4 * bytes);
      const got = [0, 1, 2, 3].map((i) => calls.getFloat64(from + 4 * bytes + i * each, true));
      console.log(JSON.stringify(got));
    """)  # fmt: skip
    assert json.loads(printed) == [5.0, 14.0, 29.0, 50.0]


# --- random numbers ------------------------------------------------------------------------------

DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda g: g.uniform((500,), low=-2.0, high=3.0, dtype=np.float64),
    "uniform, float32": lambda g: g.uniform((500,)),
    "bernoulli": lambda g: g.bernoulli(0.3, (500,)),
    "normal": lambda g: g.normal((40, 500), mean=1.0, std=2.0, dtype=np.float64),
    "few integers": lambda g: g.integers(-3, 7, (501,)),
    "many integers": lambda g: g.integers(0, 3 * 2**30, (501,)),
    "all halves": lambda g: g.integers(-5, 2**32 - 5, (501,)),
    "large integers": lambda g: g.integers(-(2**62), 2**61, (500,)),
    "one integer": lambda g: g.integers(4, 5, (3,)),
    "several": lambda g: (g.integers(0, 9, (3,)), g.normal((2,)), g.integers(0, 9, (2,)))[2],
}


@needs_node
@pytest.mark.parametrize("draw", DRAWS)
def test_draws_are_those_of_python(draw: str, tmp_path: Path):
    """Several calls give what the generator gives, bit for bit, and leave it where it is then."""
    generator = cr.Generator(7)
    f = cr.jit(lambda x: DRAWS[draw](generator) * x)
    module = f.to_wasm(tmp_path, np.ones((), np.float32))
    assert generator.state == cr.Generator(7).state
    (got, *_), state = left(module, 3)
    for _ in range(3):
        want = f(np.ones((), np.float32))
    np.testing.assert_array_equal(got, want.numpy())
    np.testing.assert_array_equal(state["generator"], state_words(generator))


@needs_node
def test_dropout_drops_the_same(tmp_path: Path):
    generator = cr.Generator(3)
    drop = nn.Dropout(0.4, generator=generator)
    f = cr.jit(lambda x: drop(x).sum())
    x = np.arange(100.0)
    module = f.to_wasm(tmp_path, x)
    sums = "for (let i = 0; i < 4; i++) console.log(step.call().result[0]);"
    got = [float(line) for line in ran(module, sums).splitlines()]
    assert got == [f(x).item() for _ in range(4)]


# --- what is refused -----------------------------------------------------------------------------

MISTAKES = {
    "step.resize({B: 9})": "B is a whole number up to 4, not 9: write the module with largest",
    "step.resize({C: 1})": "there is no size C in rows",
    "step.loop([{y: [1]}])": "rows has no input y; it has i",
    "step.loop([{i: [1n]}])": "i has 2 elements, not 1",
    "step.inputs.i.set([1n, 7n]); step.call()": "Error: an index of 'take' at test_wasm.py:",
    "await load(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))": "was not written by chainrule",
    "await load(fs.readFileSync('broken.wasm'))": "this is no whole WebAssembly module",
}


@needs_node
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_javascript_are_told(mistake: str, tmp_path: Path):
    table = cr.tensor([1.0, 2.0, 3.0])

    def rows(i: Any) -> Any:
        return cr.take(table, i, axis=0).sum()

    step = cr.jit(rows, dynamic={"i": ("B",)})
    module = step.to_wasm(tmp_path, np.array([0, 1]), largest={"B": 4})
    (tmp_path / "broken.wasm").write_bytes(module.read_bytes()[:-900])
    told = ran(module, f"process.chdir({json.dumps(str(tmp_path))}); {mistake}", fails=True)
    assert re.search(MISTAKES[mistake], told), told


@needs_node
def test_memory_that_there_is_not(tmp_path: Path):
    module = cr.jit(lambda x: x.sum()).to_wasm(tmp_path, np.ones(100_000))
    told = ran(module, "step.call()", fails=True, options=["--wasm-max-mem-pages=4"])
    assert "does not get the memory that it needs" in told


@needs_node
def test_addresses_beyond_two_gibibytes(tmp_path: Path):
    """They are negative as 32-bit numbers. Memory is asked for, and hardly any of it touched."""
    f = cr.jit(lambda x: cr.sum(x) * cr.tensor([1.0, 2.0, 3.0]), dynamic={"x": ("B",)})
    module = f.to_wasm(tmp_path, np.arange(5.0), largest={"B": 280_000_000})
    assert module.stat().st_size < 10_000  # what is only room is not in the file
    script = "console.log(...step.call().result, step.about.results[0].address);"
    *got, address = ran(module, script).split()
    assert got == ["10", "20", "30"] and int(address) > 1 << 31


def test_an_op_without_loops_is_named_with_its_line(tmp_path: Path):
    f = cr.jit(lambda x: cr.linalg.inv(x).sum())
    with pytest.raises(TraceError, match=r"to_wasm: inv has no loops .*test_wasm\.py:\d+"):
        f.to_wasm(tmp_path, cr.tensor([[2.0, 1.0], [0.5, 3.0]]))
    assert not list(tmp_path.iterdir())


def test_a_draw_that_a_module_cannot_make_is_named(tmp_path: Path):
    generator = cr.Generator(0)
    shuffled = cr.jit(lambda x: x[generator.permutation(3)])
    with pytest.raises(TraceError, match="to_wasm: permutation has no code"):
        shuffled.to_wasm(tmp_path, np.zeros(3))
    within = cr.jit(lambda x: cr.scan(lambda c, i: (c + generator.normal(()), i), x, cr.zeros(40)))
    with pytest.raises(TraceError, match="to_wasm: a draw within a scan has no code"):
        within.to_wasm(tmp_path, np.float32(0))


def test_half_precision_runs_or_is_refused(tmp_path: Path):
    f = cr.jit(lambda x: (x.astype(cr.float16) * 2).astype(cr.float32))
    with pytest.raises(DtypeError, match="to_wasm: WebAssembly has no instruction for"):
        f.to_wasm(tmp_path, np.ones(3, np.float32))
    assert not list(tmp_path.iterdir())


def test_too_much_memory_and_sizes_that_are_not_there(tmp_path: Path):
    f = cr.jit(lambda x: (x * 2.0).sum(), dynamic={"x": ("B",)})
    with pytest.raises(ConfigError, match="bytes, and a module has at most"):
        f.to_wasm(tmp_path, np.ones(3), largest={"B": 1 << 30})
    with pytest.raises(ConfigError, match="largest names 'C', which is no dynamic size"):
        f.to_wasm(tmp_path, np.ones(3), largest={"C": 2})
    with pytest.raises(ConfigError, match="has not been called yet"):
        cr.jit(lambda x: x).to_wasm(tmp_path)


@pytest.mark.parametrize(
    "n", [0, 1, 63, 64, 127, 128, 1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
)
def test_numbers_are_written_and_read(n: int):
    as_signed = n - (1 << 32) if n >> 31 else n
    assert Reader(object_file.leb128(n)).number() == n
    assert Reader(object_file.signed(as_signed)).signed() == as_signed
    assert Reader(object_file.word(n)).signed() == as_signed
    assert (
        Reader(object_file.leb128_padded(n)).number() == n
        and len(object_file.leb128_padded(n)) == 5
    )
    assert Reader(object_file.leb128_padded(n, sign=True)).signed() == as_signed
