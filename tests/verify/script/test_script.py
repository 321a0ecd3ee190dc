"""`chainrule verify script.py`: scripts run as without us, and what is wrong in them is found."""

from __future__ import annotations

import io
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch

from chainrule.cli.main import main
from chainrule.errors import ConfigError
from chainrule.verify import script
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Checked, Ledger
from chainrule.verify.observer import Observer
from chainrule.verify.patches import Patches
from chainrule.verify.reporting.report import Report
from chainrule.verify.script.clock import Steps
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.script.sandbox.quiet import calm
from chainrule.verify.script.step.one_step import OneStep
from chainrule.verify.script.step.torch_step import TorchRecorder
from chainrule.verify.training.record.bus import Bus
from chainrule.verify.training.record.torch_loop import TorchTap
from tests.sampling import sampled, sampled_file

pytestmark = sampled_file(one_in=12)


SCRIPTS = Path(__file__).parents[1] / "scripts"
ENV = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def ran(name: str, *args: str, steps: int = 3, only: Sequence[Observer] | None = None):
    """A script of this folder, in this process: the outcome, and what it printed."""
    torch_makers = script.TORCH if only is None else (lambda: only,)
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(str(SCRIPTS / name)),
            args,
            steps=steps,
            own=script.OWN,
            torch=torch_makers,
        )
    return outcome, out.getvalue()


def one_step() -> OneStep:
    """What looks at one step of PyTorch's as a whole, and nothing else."""
    return OneStep(Bus([TorchTap()]), TorchRecorder())


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def plain(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, env=ENV)


def observed(*argv: str) -> subprocess.CompletedProcess[str]:
    return plain("-m", "chainrule", "verify", *argv)


class Copy:
    """A copy of this process, which has imported torch, that runs something and ends."""

    def __init__(self, folder: Path, run: Callable[[], int]) -> None:
        self.paths = [folder / name for name in ("stdout", "stderr")]
        self.pid = os.fork()
        if self.pid == 0:
            code = 99
            try:
                for fd, path in enumerate(self.paths, 1):
                    os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), fd)
                sys.stdout, sys.stderr = (
                    os.fdopen(1, "w", encoding="utf-8"),
                    os.fdopen(2, "w", encoding="utf-8"),
                )
                code = run()
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def printed(self, line: str, patience: float = 60.0) -> bool:
        """Wait until it has printed a line."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.paths[0].exists() and line in self.paths[0].read_text(encoding="utf-8"):
                return True
            time.sleep(0.02)
        return False

    def ended(self) -> subprocess.CompletedProcess[str]:
        """What it printed, and the code that it returned."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return subprocess.CompletedProcess(
            [], code, *[p.read_text(encoding="utf-8") for p in self.paths]
        )


def forked(tmp_path: Path, run: Callable[[], int]) -> subprocess.CompletedProcess[str]:
    """What `run()` prints and returns in a copy of this process."""
    return Copy(tmp_path, run).ended()


def alone(*argv: str) -> int:
    """A script, without us."""
    sys.argv = list(argv)
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def serious(report: Report) -> list[Finding]:
    return [f for f in report.findings if f.level != "note"]


# --- The script must not notice


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_output_results_streams_and_settings_are_those_of_a_plain_run(tmp_path: Path):
    path = str(SCRIPTS / "functions.py")
    before = forked(tmp_path, lambda: alone(path))
    after = forked(tmp_path, lambda: main(["verify", "--steps", "3", path]))
    assert before.stdout.count("\n") > 20
    assert after.stdout == before.stdout
    assert (before.returncode, after.returncode) == (0, 0)
    assert "nothing wrong" in after.stderr


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_a_wrong_backward_is_named_and_the_script_goes_on_as_before(tmp_path: Path):
    argv = [str(SCRIPTS / "functions.py"), "--wrong", "--raises"]
    before = forked(tmp_path, lambda: alone(*argv))
    after = forked(tmp_path, lambda: main(["verify", "--steps", "3", *argv]))
    assert after.stdout == before.stdout
    assert after.returncode == 1
    _, _, trace = before.stderr.rpartition("runpy>")
    assert trace.partition("\n")[2] in after.stderr  # the traceback, unchanged
    assert "ValueError" in trace
    assert "WRONG" in after.stderr
    assert "Sigmoid" in after.stderr
    assert "ended with exit code 1" in after.stderr


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_exit_codes(tmp_path: Path):
    def observed(*argv: str) -> subprocess.CompletedProcess[str]:
        return forked(tmp_path, lambda: main(["verify", *argv]))

    path = str(SCRIPTS / "functions.py")
    found = observed("--stop", "--json", "-", path, "--wrong")
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert [f["subject"] for f in report["findings"]] == ["Sigmoid"]
    assert observed(written(tmp_path, "raise SystemExit(7)")).returncode == 7
    nothing = observed(written(tmp_path, "print('hello')\n"))
    assert (nothing.returncode, nothing.stdout) == (2, "hello\n")
    assert "looked for" in nothing.stderr


def test_what_cannot_run_says_why(tmp_path: Path):
    with pytest.raises(ConfigError, match="is not there"):
        script.target("nothing.py")
    with pytest.raises(ConfigError, match="no module no_such_thing"):
        script.target("no_such_thing")
    with pytest.raises(ConfigError, match="line 2"):
        script.target(written(tmp_path, "a = 1\nb = (\n"))


def test_argv_path_and_main_are_those_of_a_plain_run(tmp_path: Path):
    text = """
import sys, __main__
print(sys.argv, sys.path[0], __name__, __file__, __spec__, __main__.marker if 0 else "", __doc__)
marker = 1
import pickle
class A: pass
assert isinstance(pickle.loads(pickle.dumps(A())), A)
sys.exit("the reason")
"""
    path = written(tmp_path, text)
    before, after = plain(path, "--lr", "0.1", "-h"), observed(path, "--lr", "0.1", "-h")
    assert after.stdout == before.stdout
    assert (before.returncode, after.returncode) == (1, 1)
    assert "the reason" in after.stderr


def test_a_module_runs_as_with_python_m(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "trained"
    package.mkdir()
    (package / "__init__.py").write_text("value = 3\n", encoding="utf-8")
    (package / "__main__.py").write_text(
        "from . import value\nprint(__package__, value)\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()
    with redirect_stdout(out):
        outcome = script.run(script.target("trained"))
    assert (out.getvalue(), outcome.code) == ("trained 3\n", 0)
    assert not outcome.is_seen


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_an_interrupt_is_the_scripts_and_what_there_is_is_reported(tmp_path: Path):
    text = """
import torch, sys, time
p = torch.nn.Linear(2, 2)
o = torch.optim.SGD(p.parameters(), lr=0.1)
p(torch.ones(1, 2)).sum().backward()
o.step()
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
    raise
"""
    path = written(tmp_path, text)

    def run() -> int:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # where the suite ignores it
        return main(["verify", path])

    process = Copy(tmp_path, run)
    assert process.printed("ready")
    os.kill(process.pid, signal.SIGINT)
    done = process.ended()
    assert done.stdout == "ready\ninterrupted\n"
    assert done.returncode == 130
    assert "KeyboardInterrupt" in done.stderr
    assert "the script ended after 1 of 3 steps" in " ".join(done.stderr.split())


BY_HAND = """
import numpy as np
class Dense:
    def __init__(self): self.w = np.ones((3, 2))
    def forward(self, x):
        self.x = x
        return x @ self.w
    def backward(self, g):
        self.dw = self.x.T @ g
        return g @ self.w.T
class Data:
    def forward(self): pass
d = Dense()
d.backward(d.forward(np.ones((4, 3))))
"""


def test_layers_by_hand_are_named_and_what_verifies_them(tmp_path: Path):
    outcome = script.run(script.target(written(tmp_path, BY_HAND)), own=script.OWN)
    assert not outcome.is_seen
    told = {s.subject: s.why for s in outcome.report.ledger.skipped}
    assert "chainrule.verify.pair(layer, x)" in told["Dense"]
    assert "Data" not in told


class Failing(Observer):
    """Fails wherever it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.stopped = False

    def fail(self, where: str) -> None:
        if where == self.where:
            raise RuntimeError(f"failed in {where}")

    def start(self) -> None:
        self.fail("start")

    def step_done(self, step: int) -> None:
        self.fail("step_done")

    def stop(self) -> None:
        self.stopped = True
        self.fail("stop")

    def findings(self, ledger: Ledger) -> list[Finding]:
        print("never to be seen")
        self.fail("findings")
        ledger.checked.append(Checked("x", "y", 1, 0.0))
        torch.rand(3)
        np.random.rand()
        random.random()
        return []


@pytest.mark.parametrize("where", ["start", "step_done", "stop", "findings", "nowhere"])
def test_a_failing_observer_is_a_line_of_the_ledger(where: str):
    quiet, expected = ran("functions.py", "--steps", "4", only=[])
    outcome, printed = ran("functions.py", "--steps", "4", only=[Failing(where)])
    assert printed == expected
    assert (outcome.code, quiet.code) == (0, 0)
    said = [s.why for s in outcome.report.ledger.skipped if s.subject == "Failing"]
    assert bool(said) == (where != "nowhere")
    assert all(f"failed in {where}" in why for why in said)


def test_nothing_stays_after_the_last_observed_step():
    hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
    before = torch.autograd.backward, torch.Tensor.backward, torch.autograd.grad, len(hooks)
    finders, level = list(sys.meta_path), torch.autograd.Function.__mro__[1]
    for name, args in [("functions.py", ["--steps", "5"]), ("deliberate.py", ["by_hand"])]:
        ran(name, *args)
        now = torch.autograd.backward, torch.Tensor.backward, torch.autograd.grad, len(hooks)
        assert now == before
        assert torch._C._len_torch_function_stack() == 0
        assert "apply" not in vars(level)
        assert sys.meta_path == finders


STACK = """
import threading
import torch
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        return f(*args, **(kwargs or {}))
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
def aside():
    with torch.no_grad():
        layer(torch.ones(1, 3))
    layer(torch.ones(1, 3))
    left.append(torch._C._len_torch_function_stack())
left = []
for i in range(6):
    torch.set_default_device("cpu" if i % 2 else None)
    with torch.device("cpu"):
        with Mode():
            optimizer.zero_grad()
            layer(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()
        with Mode(), torch.no_grad():
            layer(torch.rand(2, 3))
            thread = threading.Thread(target=aside)
            thread.start()
            thread.join()
torch.set_default_device(None)
assert left == [0] * 6, left
"""


def test_the_programs_own_modes_come_and_go_as_without_us(tmp_path: Path):
    outcome = script.run(
        script.target(written(tmp_path, STACK)), own=script.OWN, torch=script.TORCH
    )
    assert (outcome.code, outcome.report.ok) == (0, True)
    assert torch._C._len_torch_function_stack() == 0


EVALUATED = """
import torch
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for i in range(3):
    optimizer.zero_grad()
    layer(torch.ones(2, 3)).square().sum().backward()
    optimizer.step()
    with torch.no_grad():
        for _ in range(800):
            torch.relu(layer(torch.ones(1, 3)))
"""


def test_a_long_evaluation_is_not_recorded(tmp_path: Path):
    seen: list[int] = []
    whole = one_step()
    done = whole.step_done

    def step_done(step: int) -> None:
        tape = whole.recorder.tape
        seen.append(len(tape.entries) if tape is not None else 0)
        done(step)

    whole.step_done = step_done
    path = written(tmp_path, EVALUATED)
    outcome = script.run(script.target(path), torch=(lambda: [whole],), steps=3)
    assert whole.recorder.tape is not None
    assert outcome.report.ok
    assert 0 < seen[1] <= 600  # two calls for each batch would be 1,600
    assert [c.subject for c in outcome.report.ledger.checked] == ["one step as a whole"]


# --- Parts


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_work_apart_cannot_touch_us():
    seen: list[int] = []

    def work() -> int:
        seen.append(1)
        random.random()
        print("nobody hears this")
        return 3

    state = random.getstate()
    assert in_copy(work) == 3
    assert not seen
    assert random.getstate() == state
    with pytest.raises(LostError, match="ValueError: bad"):
        in_copy(lambda: (_ for _ in ()).throw(ValueError("bad")))
    with pytest.raises(LostError, match="SIGKILL"):
        in_copy(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(LostError, match="longer than"):
        in_copy(lambda: time.sleep(30), patience=0.2)


def test_calm_puts_everything_back(capsys: pytest.CaptureFixture[str]):
    states = torch.get_rng_state(), random.getstate(), np.random.get_state(legacy=False)
    with calm():
        torch.rand(2), random.random(), np.random.rand(2)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        print("not shown")
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert np.array_equal(
        states[2]["state"]["key"], np.random.get_state(legacy=False)["state"]["key"]
    )
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert capsys.readouterr().out == ""


def test_the_clock():
    done: list[int] = []
    steps, a, b = Steps(done.append), object(), object()
    for optimizer in (a, b, a, b, a):  # a GAN: both make one step
        steps.note_step(optimizer)
    assert done == [1, 2]
    done.clear()
    steps = Steps(done.append)
    for _ in range(3):  # no optimizer: a backward pass ends the step before
        steps.note_backward()
    assert done == [1, 2]
    done.clear()
    steps = Steps(done.append)
    steps.note_optimizer()
    for _ in range(3):  # accumulation
        steps.note_backward()
    assert done == []
    steps.note_step(a)
    assert done == [1]


def test_patches_come_off_in_any_order():
    class Owner:
        def f(self) -> str:
            return "f"

    class Heir(Owner):
        pass

    first, second = Patches(), Patches()
    first.put(Heir, "f", lambda f: lambda self: "1" + f(self))
    second.put(Heir, "f", lambda f: lambda self: "2" + f(self))
    assert Heir().f() == "21f"
    first.undo()  # the later one stays as it is, and keeps it alive
    assert Heir().f() == "21f"
    second.undo()
    assert "f" in vars(Heir)
    third = Patches()
    third.put(Owner, "f", lambda f: lambda self: "3" + f(self))
    third.undo()
    assert Owner().f() == "f"


# --- One step as a whole


@pytest.mark.parametrize(
    ("slip", "code", "text"),
    [
        ("weights", "partly_detached", "weights = weights.detach()"),
        ("branch", "partly_detached", "return x + self.mlp(self.norm2(x.detach()))"),
        ("data", "detached", "return x + self.mlp(self.norm2(x).data)"),
        ("no_grad", "detached", "with torch.no_grad():"),
        ("rewrapped", "detached", "logits = torch.tensor(logits, requires_grad=True)"),
        ("penalty", "partly_detached", "loss = loss + 0.01 * sum("),
        ("term", "partly_detached", "loss = loss + 0.1 * (logits.detach()"),
        ("tied", "partly_detached", "return x @ self.embedding.weight.detach().T"),
        ("number", "partly_detached", "loss = loss + 0.01 * sum("),
        ("weight", "unseen_change", "model.head.weight.data.mul_(1.5)"),
        ("", "", ""),
    ],
)
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_cuts_in_a_transformer(slip: str, code: str, text: str):
    outcome, _ = ran("transformer.py", "--slip", slip, only=[one_step()])
    found = serious(outcome.report)
    assert [f.name.code for f in found] == ([code] if code else [])
    for f in found:
        assert f.place is not None
        assert f.place.text.startswith(text)
        if "detach()" in text:
            assert f.correction is not None
            assert f.correction.rechecked
            assert f.correction.after.strip() == f.place.text.replace(".detach()", "")
    rows = [c for c in outcome.report.ledger.checked if c.subject == "one step as a whole"]
    assert [c.seconds > 0 for c in rows] == [True]
    assert outcome.report.ledger.planted is not None
    assert outcome.report.ledger.planted.caught


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [
        ("by_hand", "unseen_change", "ctx.x, ctx.w = x, w"),
        ("view", "unseen_change", "z.detach().numpy()[:] *= 0.5"),
        ("input", "unseen_change", "loss.backward()"),
        ("random", "recomputed", "noise = "),
        ("reentrant", "recomputed", "noise = "),
        ("fine", "", ""),
    ],
)
def test_values_that_change_behind_autograds_back(how: str, code: str, text: str):
    outcome, _ = ran("kept.py", how)
    found = serious(outcome.report)
    assert [f.name.code for f in found] == ([code] if code else [])
    for f in found:
        assert f.place is not None
        assert f.place.text.startswith(text)


def deliberate() -> list[str]:
    import ast

    tree = ast.parse((SCRIPTS / "deliberate.py").read_text(encoding="utf-8"))
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    return [n for n in names if n != "mlp"]


@sampled(one_in=6)
@pytest.mark.parametrize("name", deliberate())
def test_cuts_on_purpose_are_no_mistakes(name: str):
    outcome, _ = ran("deliberate.py", name, only=[one_step()])
    assert outcome.code == 0
    assert serious(outcome.report) == []
    assert not outcome.report.ledger.skipped


# --- One thing by name


def test_one_thing_by_name():
    from chainrule.verify.script.single import verify_name

    path = SCRIPTS / "things.py"
    assert verify_name(f"{path}:squares").ok
    assert verify_name(f"{path}:Linear").ok
    wrong = serious(verify_name(f"{path}:Sigmoid"))
    assert [f.subject for f in wrong] == ["Sigmoid"]
    for name, why in [("number", "is int"), ("nothing", "has no nothing")]:
        with pytest.raises(ConfigError, match=why):
            verify_name(f"{path}:{name}")


# --- Scripts of chainrule's own


@pytest.mark.parametrize("how", [[], ["--jit"]])
def test_a_script_of_chainrules_own(how: list[str]):
    before = plain(str(SCRIPTS / "own.py"), *how) if how else None
    right, printed = ran("own.py", *how)
    assert right.code == 0
    assert right.report.ok
    assert before is None or printed == before.stdout
    wrong, _ = ran("own.py", "--wrong", *how)
    assert [f.subject for f in serious(wrong.report)] == ["Softplus"]


OWN_LOOP = """
import chainrule as cr
from chainrule import optim
w = cr.tensor([1.0, -2.0], requires_grad=True)
sgd = optim.SGD([w], lr=0.1)
for _ in range(4):
    (w * w).sum().backward()
    sgd.step()
"""


def test_a_loop_of_chainrules_own_that_never_resets(tmp_path: Path):
    outcome = script.run(script.target(written(tmp_path, OWN_LOOP)), own=script.OWN)
    (found,) = serious(outcome.report)
    assert found.name.code == "not_reset"
    assert found.place is not None
    assert found.place.text == "(w * w).sum().backward()"
