"""A compiled step in C trains to the same losses as in Python."""

from __future__ import annotations

import random
import re
import runpy
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.data import Corpus, load_names
from chainrule.errors import ConfigError, DtypeError, TraceError
from chainrule.models.gpt import GPT, GPTConfig, python_draw
from tests.compile.c.ccompiler import built, left, losses, needs_compiler, ran
from tests.sampling import sampled, sampled_file

pytestmark = [needs_compiler, sampled_file(one_in=2)]
RNG = np.random.default_rng(7)


def corpus() -> Corpus:
    return Corpus.of(load_names(), random.Random(42))


def training(config: GPTConfig, dtype: Any, lr: float) -> tuple[Any, Any]:
    """A compiled step of a GPT, and its optimizer."""
    model = GPT(config, draw=python_draw(random.Random(42)), dtype=dtype)
    adam = optim.AdamW(model.parameters(), lr=lr, betas=(0.85, 0.99))

    @cr.jit
    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    return step, adam


def windows(count: int, B: int, T: int) -> list[tuple[Any, Any]]:
    """Batches of consecutive tokens of the names in the package, all of one shape."""
    names = corpus()
    stream = [
        t for name in names.training for t in (names.tokenizer.bos, *names.tokenizer.encode(name))
    ]
    out: list[tuple[Any, Any]] = []
    for n in range(count):
        rows = [stream[(n * B + b) * T :][: T + 1] for b in range(B)]
        both = np.array(rows, np.int64)
        out.append((cr.tensor(both[:, :-1]), cr.tensor(both[:, 1:])))
    return out


MODELS: dict[str, Callable[[], GPTConfig]] = {
    "microgpt": lambda: GPTConfig.microgpt(27, 16),
    "gpt2": lambda: GPTConfig.gpt2(27, 16, n_layer=2, n_head=4, n_embd=32),
}


@sampled(one_in=4)
@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("model", MODELS)
def test_a_gpt_trains_to_the_same_losses(
    model: str, dtype: Any, close: float, tmp_path: Path
) -> None:
    step, _ = training(MODELS[model](), dtype, 0.01 if model == "microgpt" else 1e-3)
    batches = windows(100, 1 if model == "microgpt" else 4, 12)
    files = step.to_c(tmp_path, batches=batches)
    want = [step(*b).item() for b in batches]
    got = losses(files.source, 100)
    assert want[-1] < want[0] - 0.3
    np.testing.assert_allclose(got, want, rtol=0, atol=close)


def test_large_products_are_a_function_of_their_own(tmp_path: Path) -> None:
    step, _ = training(GPTConfig.gpt2(27, 32, n_layer=1, n_head=2, n_embd=96), np.float64, 1e-3)
    batches = windows(10, 4, 32)
    files = step.to_c(tmp_path / "big.c", batches=batches)
    assert files.source.read_text(encoding="utf-8").count("matmul(128, ") >= 6
    want = [step(*b).item() for b in batches]
    np.testing.assert_allclose(losses(files.source, 10), want, rtol=0, atol=1e-12)


def test_attention_a_block_of_rows_at_a_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    args = [cr.asarray(rng.standard_normal((6, 192, 16))) for _ in range(4)]

    @cr.jit
    def score(q: Any, k: Any, v: Any, g: Any) -> Any:
        def loss(q: Any, k: Any, v: Any) -> Any:
            return (cr.scaled_dot_product_attention(q, k, v, causal=True) * g).sum()

        parts = cr.grad(loss, argnums=(0, 1, 2))(q, k, v)
        return sum([(x * x * x).sum() for x in parts], cr.tensor(0.0, dtype=np.float64))

    want = score(*args).item()
    files = score.to_c(tmp_path / "rows.c", *args)
    assert "of_rows" in files.source.read_text(encoding="utf-8")
    np.testing.assert_allclose(losses(files.source, 1), [want], rtol=1e-12)


def test_one_program_for_every_length_and_a_rate_that_falls(tmp_path: Path) -> None:
    model = GPT(MODELS["microgpt"](), draw=python_draw(random.Random(1)), dtype=np.float64)
    adam = optim.Adam(model.parameters(), lr=0.01)

    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    names = corpus()
    compiled = cr.jit(step, dynamic={"tokens": (None, "T"), "targets": (None, "T")})
    before = [p.detach().numpy().copy() for p in model.parameters()]

    def batches() -> Iterator[tuple[Any, Any]]:
        for n in range(40):
            batch = names.batch(n, 1, 16)
            adam.param_groups[0]["lr"] = 0.01 * (1 - n / 40)
            yield batch.tokens, batch.targets

    files = compiled.to_c(tmp_path, batches=batches())
    assert "int T" in files.source.read_text(encoding="utf-8")
    for p, was in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), was)  # to_c trains nothing
    want = [compiled(*b).item() for b in batches()]
    np.testing.assert_allclose(losses(files.source, 40), want, rtol=0, atol=1e-12)


class Net(nn.Module):
    """A network by hand, with a state of its own: a running mean, and dropout."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.w1 = cr.tensor(rng.standard_normal((5, 7)), requires_grad=True)
        self.b1 = cr.tensor(rng.standard_normal(7), requires_grad=True)
        self.w2 = cr.tensor(rng.standard_normal((7, 3)), requires_grad=True)
        self.drop = nn.Dropout(0.25)
        self.mean = cr.tensor(np.zeros(7))

    def forward(self, x: Any) -> Any:
        hidden = cr.tanh(x @ self.w1 + self.b1)
        self.mean.data = 0.9 * self.mean + 0.1 * hidden.detach().mean(axis=0)
        return self.drop(hidden - self.mean) @ self.w2


def stepping(net: Net, opt: Any) -> Any:
    @cr.jit
    def step(x: Any, y: Any) -> Any:
        error = net(x) - y
        loss = (error * error).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, abs(error).max()

    return step


def pairs(count: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(4)
    return [(cr.tensor(rng.standard_normal((6, 5))), cr.tensor(rng.standard_normal((6, 3))))
            for _ in range(count)]  # fmt: skip


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda ps: optim.SGD(ps, lr=0.05, momentum=0.9, nesterov=True),
    "adamw": lambda ps: optim.AdamW(ps, lr=0.01, weight_decay=0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_running_statistics_and_drawn_numbers(optimizer: str, tmp_path: Path) -> None:
    data = pairs(8)
    cr.manual_seed(5)
    net = Net()
    step = stepping(net, OPTIMIZERS[optimizer](net.parameters()))
    files = step.to_c(tmp_path, batches=data)
    cr.manual_seed(5)
    want = [step(*d)[0].item() for d in data]
    lines = ran(built(files.source), "8").splitlines()
    got = [float(line.split()[3]) for line in lines]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)
    assert lines[0].startswith("step 1  loss ")


def test_batches_come_round_again_and_the_state_is_left(tmp_path: Path) -> None:
    w = cr.tensor([1.0, -2.0], dtype=np.float64, requires_grad=True)

    @cr.jit
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        w.data = w.data - 0.5 * x
        return loss

    files = step.to_c(tmp_path, batches=[(np.array([1.0, 2.0]),), (np.array([3.0, 5.0]),)])
    w_left, loss = left(files.source, [np.zeros(2), np.zeros(())], steps=3)
    np.testing.assert_array_equal(w_left, [1 - 0.5 * 5, -2 - 0.5 * 9])
    assert loss == (1 - 2) * 1 + (-2 - 3.5) * 2


def test_what_a_reader_finds(tmp_path: Path) -> None:
    cr.manual_seed(5)
    net = Net()
    step = stepping(net, optim.Adam(net.parameters()))
    text = step.to_c(tmp_path / "net.c", *pairs(1)[0]).source.read_text(encoding="utf-8")
    for line in (
        "static double w1[35];  /* float64 (5, 7); parameter */",
        "static double mean[7];  /* float64 (7); updated */",
        "static double w2_grad[21];  /* float64 (7, 3); its gradient */",
        "test_c.py:", "hidden = cr.tanh(x @ self.w1 + self.b1)", "loss.backward()", "opt.step()",
        "static double lr[1];  /* float64; a setting, read at every step */",
        "\n        forward();\n        backward();\n        update();\n",
    ):  # fmt: skip
        assert line in text, line
    assert max(map(len, text.splitlines())) <= 100
    assert text.index("static void forward(void)") < text.index("static void backward(void)")
    backward = text[text.index("/* ---- backward") : text.index("/* ---- update")]
    assert "loss.backward()" in backward
    assert "opt.step()" not in backward


def test_phases_without_gradients_that_stay(tmp_path: Path) -> None:
    w = cr.tensor(RNG.standard_normal((4, 3)), requires_grad=True)

    @cr.jit
    def step(x: Any) -> Any:
        loss = (cr.tanh(x @ w) ** 2).sum()
        loss.backward()
        w.data = w.detach() - 0.1 * w.grad
        w.grad = None
        return loss

    x = cr.tensor(RNG.standard_normal((2, 4)))
    files = step.to_c(tmp_path, x)
    text = files.source.read_text(encoding="utf-8")
    assert "static void backward(" in text
    assert "w[" in text[text.index("/* ---- update") : text.index("static void update(")]
    want = [step(x).item() for _ in range(5)]
    np.testing.assert_allclose(losses(files.source, 5), want, rtol=1e-12)


def test_without_arguments_it_takes_those_of_the_latest_trace(tmp_path: Path) -> None:
    double = cr.jit(lambda x: (x + x).sum())
    x = cr.tensor([1.5, 2.25])
    want = double(x).item()
    assert losses(double.to_c(tmp_path / "double.c").source, 1) == [want]


def test_the_readme_shows_what_step_23_writes() -> None:
    root = Path(__file__).parents[3]
    shown = re.search(
        r"```c\n(.*?)```", (root / "docs" / "c_export.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert shown is not None
    step = runpy.run_path(str(root / "docs" / "steps" / "23_the_same_in_c.py"))
    assert shown[1] in step["text"]


# --- what is refused -----------------------------------------------------------------------------


def test_an_op_without_loops_is_named_with_its_line(tmp_path: Path) -> None:
    f = cr.jit(lambda x: cr.linalg.inv(x).sum())
    with pytest.raises(TraceError, match=r"inv has no loops .*test_c\.py:\d+"):
        f.to_c(tmp_path, cr.tensor([[2.0, 1.0], [0.5, 3.0]]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [cr.float16, cr.bfloat16], ids=str)
def test_half_precision_is_refused(tmp_path: Path, dtype: Any) -> None:
    f = cr.jit(lambda x: (x * x).sum())
    with pytest.raises(DtypeError, match="float16, which C99 has no numbers for"):
        f.to_c(tmp_path, cr.tensor([1.0, 2.0], dtype=dtype))
    within = cr.jit(lambda x: (x.astype(dtype) * 2).astype(cr.float32).sum())
    with pytest.raises(DtypeError, match="float16, which C99 has no numbers for"):
        within.to_c(tmp_path, cr.tensor([1.0, 2.0]))
    assert not list(tmp_path.iterdir())


def test_batches_of_two_shapes_are_refused(tmp_path: Path) -> None:
    f = cr.jit(lambda x: x.sum())
    with pytest.raises(ConfigError, match=r"\(3,\).* in the place of .*\(2,\)"):
        f.to_c(tmp_path, batches=[(np.ones(2),), (np.ones(3),)])
    with pytest.raises(ConfigError, match="no batch"):
        f.to_c(tmp_path, batches=[])


def test_arrays_without_elements(tmp_path: Path) -> None:
    def f(e: Any, y: Any) -> Any:
        return cr.sum(e) + 2 * y, 2 * e

    xs = [np.zeros((0, 3)), np.arange(4.0)]
    files = cr.jit(f).to_c(tmp_path / "empty.c", *xs)
    doubled, empty = left(files.source, [np.zeros(4), np.zeros((0, 3))])
    np.testing.assert_array_equal(doubled, [0, 2, 4, 6])
    assert empty.shape == (0, 3)


def test_a_dynamic_axis_must_have_a_name_that_c_can_have(tmp_path: Path) -> None:
    for name in ("double", "two words", "i"):
        f = cr.jit(lambda x: x.sum(), dynamic={"x": (name,)})
        with pytest.raises(ConfigError, match=f"'{name}', which is no name for a number in C"):
            f.to_c(tmp_path, np.ones(5))


def test_gradients_that_pile_up_are_refused_until_there_are_some(tmp_path: Path) -> None:
    w = cr.tensor([1.0, 2.0], requires_grad=True)

    @cr.jit
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss

    x = cr.tensor([3.0, 4.0])
    with pytest.raises(TraceError, match="call the function once before"):
        step.to_c(tmp_path, x)
    step(x)
    files = step.to_c(tmp_path, x)
    like = [np.zeros(2, np.float32), np.zeros(2, np.float32), np.zeros((), np.float32)]
    np.testing.assert_array_equal(left(files.source, like, steps=2)[1], [9, 12])


def test_an_index_that_is_outside_stops_the_program(tmp_path: Path) -> None:
    table = cr.tensor([1.0, 2.0, 3.0])
    rows = cr.jit(lambda i: cr.take(table, i, axis=0).sum())
    files = rows.to_c(tmp_path / "rows.c", batches=[(np.array([0, -1]),), (np.array([1, 3]),)])
    done = subprocess.run(
        [built(files.source), "2"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "step 1  result 4\n")
    assert re.fullmatch(r"an index of 'take' at test_c\.py:\d+ is outside 0\.\.2\n", done.stderr)


def test_data_that_is_cut_or_another_programs(tmp_path: Path) -> None:
    files = cr.jit(lambda x: x.sum()).to_c(tmp_path / "sum.c", cr.tensor([1.0, 2.0]))
    program = built(files.source)

    def complaint() -> str:
        done = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    whole = files.data.read_bytes()
    files.data.write_bytes(whole[:-4])
    assert "ends too soon" in complaint()
    files.data.write_bytes(b"x" + whole[1:])
    assert "not the data of this program" in complaint()
    files.data.unlink()
    assert "cannot be read" in complaint()
