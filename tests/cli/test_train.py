"""Training runs: the published one, resumed ones, batches; what a run leaves behind."""

from __future__ import annotations

import csv
import ctypes
import importlib
import json
import math
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import optim
from chainrule.cli import checkpoint as checkpoints
from chainrule.cli import compiled_engine, threads
from chainrule.cli.files import CommandError
from chainrule.cli.main import main
from chainrule.cli.settings import PRESETS, Settings, new_settings
from chainrule.cli.trainer import Run, restored_engine
from chainrule.cli.value_engine import ScalarAdam
from chainrule.data import load_names, read_documents
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.models.config import GPTConfig
from chainrule.scalar import Value
from tests.sampling import sampled, sampled_file

pytestmark = sampled_file(one_in=2)


ENGINES = ("tensor", "compiled", "value")
TINY: dict[str, Any] = {"n_layer": 1, "n_head": 2, "n_embd": 4, "block_size": 9}
DOCS = load_names()[:60]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """As the command does it for models of this size: threads that wait for each other are slow."""
    threads.set_threads(1)


def shared(name: str) -> Path:
    """A file of the shared data beside the repository; skips where there is none."""
    for folder in Path(__file__).resolve().parents:
        path = folder / "shared" / "data" / name
        if path.exists():
            return path
    pytest.skip(f"shared/data/{name} is not beside the repository")


def settings(**asked: Any) -> Settings:
    small = {"preset": "microgpt", "steps": 12, "holdout": 0.2, **TINY}
    if asked.get("engine") == "value":
        small["dtype"] = "float64"
    return new_settings({**small, **asked})


def trained(run: Run, until: int | None = None) -> Run:
    while run.step < (until or run.settings.steps):
        run.advance()
    return run


# --- the published run of microgpt


@pytest.mark.parametrize(
    ("engine", "dtype", "steps"),
    [("tensor", "float64", 1000), ("compiled", "float64", 1000), ("compiled", "float32", 1000),
     ("value", "float64", 30)],
)  # fmt: skip
def test_the_published_run(engine: str, dtype: str, steps: int, monkeypatch: pytest.MonkeyPatch):
    reference = json.loads(shared("microgpt_reference.json").read_text(encoding="utf-8"))
    names = shared("names.txt")
    asked = {
        "preset": "microgpt", "seed": 42, "engine": engine, "dtype": dtype, "data": str(names),
    }  # fmt: skip
    run = trained(Run.begin(new_settings(asked), read_documents(names)), steps)
    losses = np.array(reference["losses"][:steps])
    assert np.abs(np.array(run.losses) - losses).max() < 1e-4
    if steps == 1000:
        before = run.rng.getstate()
        assert run.samples(20, 0.5) == reference["samples"]
        after = run.rng.getstate()
        run.rng.setstate(before)
        monkeypatch.setattr(compiled_engine, "MANY", 0)  # where that engine runs: as one loop
        assert run.samples(20, 0.5) == reference["samples"]
        assert run.rng.getstate() == after


def test_the_preset_is_what_the_published_run_says():
    told = json.loads(shared("microgpt_reference.json").read_text(encoding="utf-8"))["settings"]
    s = PRESETS["microgpt"]
    ours = {
        "n_layer": s.n_layer, "n_embd": s.n_embd, "n_head": s.n_head, "block_size": s.block_size,
        "learning_rate": s.lr, "beta1": s.beta1, "beta2": s.beta2, "eps": s.eps,
        "num_steps": s.steps, "documents_per_step": s.batch,
    }  # fmt: skip
    assert ours == {k: told[k] for k in ours}
    assert [s.rate(i) for i in (0, 250, 999)] == pytest.approx([0.01, 0.0075, 0.00001])


def test_data_without_a_preset_is_the_published_recipe():
    plain = new_settings({"data": "x.txt"})
    assert plain == new_settings({"data": "x.txt", "preset": "microgpt", "seed": 42})
    assert plain.holdout == 0 and plain.dtype == "float64"
    assert new_settings({}).preset == "gpt2" and new_settings({}).holdout == 0.1
    assert new_settings({"engine": "value"}).preset == "microgpt"
    assert new_settings({"engine": "value", "preset": "gpt2"}).dtype == "float64"


# --- engines agree


@sampled(one_in=4)
@pytest.mark.parametrize("preset", ["microgpt", "gpt2"])
@pytest.mark.parametrize("batch", [1, 3])
def test_engines_agree(preset: str, batch: int):
    asked: dict[str, Any] = {
        "preset": preset, "batch": batch, "dtype": "float64", "warmup": 2, "weight_decay": 0.1,
    }  # fmt: skip
    a, *others = (trained(Run.begin(settings(engine=e, **asked), DOCS)) for e in ENGINES)
    samples = a.samples(5, 1.0)
    for b in others:
        assert a.losses == pytest.approx(b.losses, rel=1e-9)
        assert np.array(a.held_out) == pytest.approx(np.array(b.held_out), rel=1e-9)
        assert samples == b.samples(5, 1.0)
        theirs = b.engine.state()
        for name, w in a.engine.state().weights.items():
            np.testing.assert_allclose(w, theirs.weights[name], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_loss_of_a_batch_is_the_mean_over_real_positions(engine: str):
    run = Run.begin(settings(engine=engine, dtype="float64", batch=4), DOCS)
    batch = run.corpus.batch(0, 4, 9)
    assert len({len(d) for d in batch.documents}) > 1  # some are filled up
    alone = [run.corpus.batch(i, 1, 9) for i in range(4)]
    total = sum(run.engine.loss(b) * b.positions for b in alone) / batch.positions
    assert run.engine.loss(batch) == pytest.approx(total, rel=1e-12)
    assert run.engine.update(batch, 0.01) == pytest.approx(total, rel=1e-12)
    assert run.engine.loss(batch) < total


def test_scalar_adam_is_adamw():
    rng = np.random.default_rng(3)
    start, gradients = rng.normal(size=7), rng.normal(size=(40, 7))
    gradients[5:, 2] = 0
    p = Tensor(start, requires_grad=True)
    theirs = optim.AdamW([p], betas=(0.85, 0.99), eps=1e-8, weight_decay=0.2)
    values = [Value(x) for x in start.tolist()]
    ours = ScalarAdam(values, (0.85, 0.99), 1e-8, [0.2] * 7)
    for i, g in enumerate(gradients):
        theirs.param_groups[0]["lr"] = lr = 0.1 / (i + 1)
        p.grad = Tensor(g)
        theirs.step()
        for v, x in zip(values, g.tolist(), strict=True):
            v.grad = x
        ours.step(lr)
        assert all(v.grad == 0 for v in values)
    np.testing.assert_allclose([v.data for v in values], p.detach().numpy(), rtol=1e-12)


def test_engines_forget_the_gradient_of_the_step_before():
    for engine in ENGINES:
        run = Run.begin(settings(engine=engine, dtype="float64"), DOCS)
        twin = Run.begin(settings(engine=engine, dtype="float64"), DOCS)
        batch = run.corpus.batch(0, 1, 9)
        run.engine.update(batch, 0.0)
        twin.engine.update(batch, 0.0)
        state = twin.engine.state()
        twin.engine.load(state)  # a fresh start from the same moments
        other = run.corpus.batch(1, 1, 9)
        run.engine.update(other, 0.01)
        twin.engine.update(other, 0.01)
        for name, w in run.engine.state().weights.items():
            assert np.array_equal(w, twin.engine.state().weights[name])


# --- a resumed run is the same run


@sampled(one_in=4)
@pytest.mark.parametrize(
    ("engine", "dtype", "batch"),
    [("tensor", "float32", 1), ("tensor", "float32", 5), ("tensor", "float64", 1),
     ("compiled", "float32", 1), ("compiled", "float64", 5),
     ("value", "float64", 1), ("value", "float64", 2)],
)  # fmt: skip
@pytest.mark.parametrize("stop", [1, 7, 17])
def test_a_resumed_run_is_bit_for_bit_the_same(
    tmp_path: Path, engine: str, dtype: str, batch: int, stop: int
):
    s = settings(engine=engine, dtype=dtype, batch=batch, steps=24, weight_decay=0.1)
    whole = trained(Run.begin(s, DOCS))
    part = trained(Run.begin(s, DOCS), stop)
    path = checkpoints.write(tmp_path, part.checkpoint())
    again = trained(Run.resume(checkpoints.load(path), DOCS, {}))
    assert again.losses == whole.losses and again.held_out == whole.held_out
    a, b = again.engine.state(), whole.engine.state()
    assert a.step == b.step == 24
    for x, y in ((a.weights, b.weights), (a.moments, b.moments)):
        assert x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x)
    assert again.samples(5, 0.8) == whole.samples(5, 0.8)


@pytest.mark.sweep
def test_gpt2_resumes_bit_for_bit_too(tmp_path: Path):
    s = replace(new_settings({"steps": 30, "batch": 8}), eval_every=5)
    whole = trained(Run.begin(s, DOCS))
    path = checkpoints.write(tmp_path, trained(Run.begin(s, DOCS), 13).checkpoint())
    again = trained(Run.resume(checkpoints.load(path), DOCS, {}))
    assert again.losses == whole.losses and again.held_out == whole.held_out


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_continues_what_the_other_began(tmp_path: Path, engine: str):
    first = settings(engine=engine, dtype="float64")
    path = checkpoints.write(tmp_path, trained(Run.begin(first, DOCS), 6).checkpoint())
    other = {"tensor": "compiled", "compiled": "tensor", "value": "compiled"}[engine]
    again = trained(Run.resume(checkpoints.load(path), DOCS, {"engine": other}))
    assert again.losses == pytest.approx(trained(Run.begin(first, DOCS)).losses, rel=1e-9)


def test_other_documents_do_not_continue_a_run(tmp_path: Path):
    saved = trained(Run.begin(settings(), DOCS), 2).checkpoint()
    with pytest.raises(CommandError, match="changed since this run began"):
        Run.resume(saved, DOCS[:-1], {})


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda c: replace(c, weights={}), "does not fit its own settings"),
        (lambda c: replace(c, moments={}), "does not fit its own settings"),
        (lambda c: replace(c, random=[3, [1], None]), "random state"),
        (lambda c: replace(c, settings={"lr": 1}), "not the settings of a run"),
        (lambda c: replace(c, settings={**c.settings, "n_embd": 8}), "does not fit"),
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_refused(harm: Callable[[Any], Any], says: str):
    saved = harm(trained(Run.begin(settings(), DOCS), 2).checkpoint())
    with pytest.raises(ConfigError, match=says):
        Run.resume(saved, DOCS, {})


def test_a_diverging_run_stops_and_says_what_to_try():
    run = Run.begin(settings(lr=1e140, steps=50), DOCS)
    with pytest.raises(CommandError, match=r"diverged; the learning rate 1e\+140 .* smaller --lr"):
        trained(run)
    assert all(map(math.isfinite, run.losses))


# --- the command


ARGS = ["train", "--preset", "microgpt", "--n-embd", "4", "--n-head", "2", "--block-size", "6"]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("\n".join(DOCS), encoding="utf-8")
    return tmp_path / "mine.txt"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("names")
def test_a_run_leaves_numbers_picture_samples_and_checkpoints(
    capsys: pytest.CaptureFixture[str],
):
    args = [*ARGS, "--data", "mine.txt", "--steps", "20", "--holdout", "0.25", "--eval-every", "5"]
    assert main(args) == 0
    out, err = capsys.readouterr()
    folder = Path("runs/mine-microgpt")
    table = rows(folder / "losses.csv")
    assert [r["step"] for r in table] == [str(i) for i in range(1, 21)]
    assert [r["step"] for r in table if r["held_out_loss"]] == ["5", "10", "15", "20"]
    run = trained(Run.begin(new_settings(_asked(args)), DOCS))
    assert [float(r["loss"]) for r in table] == run.losses
    samples = (folder / "samples.txt").read_text(encoding="utf-8").splitlines()
    assert samples == run.samples(20, 0.5)
    assert "</svg>" in (folder / "losses.svg").read_text(encoding="utf-8")
    kept = sorted(p.name for p in (folder / "checkpoints").iterdir())
    assert kept == ["step-000018", "step-000020"]
    assert err == "" and f"held-out loss {run.held_out[-1][1]:.4f}" in out and "\x1b" not in out
    assert all(f"  {s}" in out for s in samples) and "45 documents to train on, 15 held" in out


def _asked(args: list[str]) -> Mapping[str, Any]:
    """The settings among the options of a command line."""
    kinds: dict[str, type] = {"data": str, "preset": str, "holdout": float}
    pairs = [(k[2:].replace("-", "_"), v) for k, v in zip(args[1::2], args[2::2], strict=True)]
    return {k: kinds.get(k, int)(v) for k, v in pairs}


@pytest.mark.usefixtures("names")
def test_no_run_is_written_over():
    args = [*ARGS, "--data", "mine.txt", "--steps", "2"]
    assert [main(args), main(args)] == [0, 0]
    assert sorted(p.name for p in Path("runs").iterdir()) == ["mine-microgpt", "mine-microgpt-2"]


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("engine", ENGINES)
def test_interrupted_and_resumed_is_as_if_it_had_never_stopped(
    engine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    args = [*ARGS, "--data", "mine.txt", "--steps", "12", "--engine", engine, "--holdout", "0.2"]
    assert main([*args, "--out", "whole"]) == 0
    advance = Run.advance

    def interrupted(run: Run) -> float:
        loss = advance(run)
        if run.step == 7:
            signal.raise_signal(signal.SIGINT)
        return loss

    with monkeypatch.context() as patched:
        patched.setattr(Run, "advance", interrupted)
        assert main([*args, "--out", "part"]) == 130
    assert "chainrule train --resume part" in capsys.readouterr().out
    assert len(rows(Path("part/losses.csv"))) == 7
    assert main(["train", "--resume", "part"]) == 0
    for name in ("losses.csv", "samples.txt"):
        assert Path("part", name).read_text(encoding="utf-8") == Path("whole", name).read_text(
            encoding="utf-8"
        )
    for name in ("model.safetensors", "training.safetensors"):
        files = [Path(run, "checkpoints/step-000012", name) for run in ("part", "whole")]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.usefixtures("names")
def test_a_finished_run_goes_on_for_more_steps():
    assert main([*ARGS, "--data", "mine.txt", "--steps", "4", "--out", "r"]) == 0
    Path("mine.txt").rename("moved.txt")
    more = ["train", "--resume", "r", "--steps", "6", "--data", "moved.txt", "--n-embd", "4"]
    assert main(more) == 0
    assert len(rows(Path("r/losses.csv"))) == 6


@pytest.mark.usefixtures("names")
def test_resuming_from_an_earlier_checkpoint_sets_later_ones_aside():
    args = [*ARGS, "--data", "mine.txt", "--steps", "10", "--out", "r", "--save-every", "4"]
    assert main(args) == 0
    whole = Path("r/losses.csv").read_text(encoding="utf-8")
    assert main(["train", "--resume", "r/checkpoints/step-000008"]) == 0
    kept = sorted(p.name for p in Path("r/checkpoints").iterdir())
    assert kept == ["step-000008", "step-000010", "step-000010.aside"]
    assert Path("r/losses.csv").read_text(encoding="utf-8") == whole
    assert main(["train", "--resume", "r/checkpoints/step-000008", "--steps", "9"]) == 0
    assert checkpoints.find(Path("r")).name == "step-000009"  # not one that was left behind


@pytest.mark.usefixtures("names")
def test_sample_draws_what_is_asked(capsys: pytest.CaptureFixture[str]):
    assert main([*ARGS, "--data", "mine.txt", "--steps", "30", "--out", "r"]) == 0
    capsys.readouterr()

    def drawn(*more: str) -> list[str]:
        assert main(["sample", "--checkpoint", "r", *more]) == 0
        return capsys.readouterr().out.splitlines()

    assert len(drawn()) == 20
    with_prompt = drawn("--prompt", "jo", "--count", "7", "--seed", "3")
    assert len(with_prompt) == 7 and all(n.startswith("jo") for n in with_prompt)
    assert all(len(n) <= 6 for n in with_prompt)
    assert drawn("--seed", "5") == drawn("--seed", "5") != drawn("--seed", "6")
    assert drawn("--seed", "5", "--count", "300")[:20] == drawn("--seed", "5")  # compiled
    assert len(set(drawn("--temperature", "0"))) == 1
    assert len(set(drawn("--temperature", "2"))) > 10


@pytest.mark.usefixtures("names")
def test_the_saved_weights_load_into_the_model_by_name():
    assert main([*ARGS, "--data", "mine.txt", "--steps", "3", "--out", "r"]) == 0
    saved = checkpoints.load(checkpoints.find(Path("r")))
    s = Settings.from_dict(saved.settings)
    engine = restored_engine(s, saved)
    assert isinstance(s.model(27), GPTConfig) and engine.state().step == 3
    assert set(saved.weights) == set(engine.state().weights)
    run = trained(Run.begin(s, DOCS))
    rng = random.Random(1)
    tokens = [run.corpus.tokenizer.bos, rng.randrange(5)]
    ours, theirs = (
        e.generate([tokens] * 5, random.Random(2), stop=tokens[0], limit=5, temperature=1.0)
        for e in (engine, run.engine)
    )
    assert ours == theirs


# --- threads


def test_a_small_model_uses_one_thread_and_a_large_one_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[int] = []
    monkeypatch.setattr(threads, "set_threads", lambda n: asked.append(n) or True)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert threads.limit(new_settings({})) and asked == [1]
    assert not threads.limit(new_settings({"n_embd": 512}))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert not threads.limit(new_settings({})) and asked == [1]


@pytest.mark.skipif(
    "openblas" not in str(np.show_config("dicts")["Build Dependencies"]["blas"]["name"]),
    reason="this NumPy does not use OpenBLAS",
)
def test_the_number_of_threads_is_set():
    module: Any = importlib.import_module("numpy._core._multiarray_umath")
    getter: Any = getattr(ctypes.CDLL(module.__file__), "scipy_openblas_get_num_threads64_", None)
    if getter is None:
        pytest.skip("this NumPy does not tell how many threads it uses")
    before = getter()
    try:
        for n in (1, 2):
            assert threads.set_threads(n) and getter() == n
    finally:
        threads.set_threads(before)
