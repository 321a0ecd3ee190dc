"""Functions of Values that are written as C and as WebAssembly, against the compiled functions."""

# The functions that are compiled have no annotations, as a user writes them.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import math
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.export.loop_program import LoopProgram
from chainrule.compile.loops.check.checker import check
from chainrule.errors import ConfigError, TraceError
from chainrule.scalar import Value
from tests.compile.c import ccompiler
from tests.compile.scalars import scalar_ints, scalar_loops
from tests.compile.scalars import test_scalar_steps as steps
from tests.compile.scalars.scalar_programs import (
    GPT,
    ROLLED,
    Program,
    chain,
    clusters,
    lstm,
    matrix,
    mlp,
)
from tests.compile.scalars.test_scalar_steps import COUNT, PARAMS, VELOCITY, small_loss
from tests.compile.wasm import node
from tests.sampling import sampled

pytestmark = ccompiler.needs_compiler


def program_of(compiled: Any, *args: Any) -> LoopProgram:
    """What is written of a call, which the checker of the loop language accepts."""
    found: LoopProgram = compiled._exporter().scalar_program([args], {}, "to_c")
    check(found.loops)
    return found


def left_in_c(compiled: Any, path: Path, *batches: Any) -> dict[str, Any]:
    """What a C program of these calls leaves: state and results by the names of their parts."""
    program = program_of(compiled, *batches[0])
    files = compiled.to_c(path / "f.c", batches=batches)
    memory = [*program.state, *program.results]
    found = ccompiler.left(files.source, [m.value for m in memory], len(batches))
    return {
        part.path: a.ravel()[part.start : part.start + part.size]
        for a, m in zip(found, memory, strict=True)
        for part in m.named()
    }


def arrays(program: LoopProgram, left: dict[str, Any]) -> list[Any]:
    """The state as whole arrays, in order."""
    return [np.concatenate([left[p.path].ravel() for p in m.named()]) for m in program.state]


# --- functions that call no backward --------------------------------------------------------------


def derivatives(compiled: Any, y: Value) -> Any:
    """Those of a result with respect to all leaves that its tape has."""
    state = compiled._numbers.runs().state
    for v in state.values:
        v.grad = 0
    y.backward()
    found = np.array([v.grad for v in state.values])
    for v in state.values:
        v.grad = 0
    return found


def near(got: Any, want: Any) -> None:
    """Equal to rounding, in parts of the largest."""
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-13 * np.abs(want).max(initial=1e-9))


PROGRAMS: dict[str, Callable[[], Program]] = {**ROLLED, "chain": lambda: chain(90)}
"""The last of them stays a tape."""


def same_in_c(f: Any, tmp_path: Path) -> None:
    """In C a function gives the value of the jitted one, and its derivatives to rounding."""
    compiled = cr.jit(f)
    left = left_in_c(compiled, tmp_path, ())
    y = compiled()
    assert left[program_of(compiled).results[0].path] == y.data
    got = np.concatenate([left[k] for k in left if k.endswith(".grad")])
    near(got, derivatives(compiled, y))


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_values_and_derivatives(make: Any, tmp_path: Path) -> None:
    f, _ = make()
    same_in_c(f, tmp_path)


@node.needs_node
@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_values_and_derivatives_in_webassembly(make: Any, tmp_path: Path) -> None:
    f, _ = make()
    compiled = cr.jit(f)
    module = compiled.to_wasm(tmp_path / "f.wasm")
    y = compiled()
    results, _ = node.left(module)
    assert results[0] == pytest.approx(y.data, rel=1e-12)
    near(np.concatenate([x.ravel() for x in results[1:]]), derivatives(compiled, y))


@sampled(one_in=50)
@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("seed", range(200))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    f, _ = scalar_loops.program(seed)
    same_in_c(f, tmp_path)


@sampled(one_in=25)
@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("seed", range(100))
def test_random_programs_of_ints(seed: int, tmp_path: Path) -> None:
    """One file for all ints that the recording is for; others are refused."""
    f, _, calls = scalar_ints.program(seed)
    compiled = cr.jit(f)
    first = calls[0]
    alike = [x for x in calls if len(x) == len(first)]
    for ints in alike:
        want = [compiled(first).data, compiled(ints).data]
        try:
            files = compiled.to_c(tmp_path / "f.c", batches=[(first,), (ints,)])
        except ConfigError as error:
            assert "part of the program" in str(error) or "does something else" in str(error)
        else:
            assert ccompiler.losses(files.source, 2) == want, ints


def test_arguments_and_several_results(tmp_path: Path) -> None:
    w = matrix(random.Random(2), 8, 16, 0.5)

    @cr.jit
    def scores(x: list[Any], bias: Any, scale: float) -> Any:
        return [sum(a * b for a, b in zip(row, x, strict=True)) * scale + bias for row in w]

    @cr.jit
    def total(x: list[Any], bias: Any, scale: float) -> Any:
        found: list[Any] = [sum(a * b for a, b in zip(row, x, strict=True)) for row in w]
        return sum(y.tanh() * y for y in found) * scale + bias

    given = [Value(0.1 * i) for i in range(16)], Value(0.25), 1.5
    left = left_in_c(scores, tmp_path, given)
    assert [float(left[f"result{i}"][0]) for i in range(8)] == [y.data for y in scores(*given)]
    assert not [k for k in left if k.endswith(".grad")], "values alone, of several results"
    left = left_in_c(total, tmp_path, given)
    y = total(*given)
    y.backward()
    assert left["result"] == y.data
    assert left["x.grad"].tolist() == [v.grad for v in given[0]]
    assert left["bias.grad"] == given[1].grad
    assert left["w.grad"].tolist() == [v.grad for row in w for v in row]


# --- whole steps ----------------------------------------------------------------------------------


def demo() -> tuple[Any, list[Any]]:
    loss, params = mlp(20, 8)

    def train(k: int) -> float:
        total = loss()
        for p in params:
            p.grad = 0
        total.backward()
        for p in params:
            p.data -= (1.0 - 0.9 * k / 100) * p.grad
        return total.data

    return train, [(k,) for k in range(8)]


def recurrent() -> tuple[Any, list[Any]]:
    loss, params = lstm(5, 5)

    def train(rate: float) -> Any:
        total = loss()
        total.backward()
        for p in params:
            p.data -= rate * p.grad
            p.grad = 0
        return total

    return train, [(0.1 / (k + 1),) for k in range(6)]


def counted() -> tuple[Any, list[Any]]:
    loss, params = mlp(20, 8)
    state = {"t": 0}

    def train() -> Any:
        y = loss()
        y.backward()
        state["t"] += 1
        for p in params:
            p.data -= 0.1 / (1 + state["t"]) * p.grad
            p.grad = 0.0
        return y

    return train, [()] * 5


def swapped() -> tuple[Any, list[Any]]:
    """Numbers of the state that go to other places of it."""

    def train(x: float) -> Any:
        y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], x)
        y.backward()
        old = [p.data for p in PARAMS]
        for i, p in enumerate(PARAMS):
            p.data = old[-1 - i]
            VELOCITY[i] = old[i] if i % 2 else VELOCITY[i - 1]
            p.grad = 0
        return y, old[3] + 0.5

    return train, [(0.1 * k,) for k in range(4)]


def named(name: str) -> tuple[Any, list[Any]]:
    f = getattr(steps, name)
    start = 3 if name == "schedule" else 0
    return f, [(k, 0.02 + 0.01 * k) for k in range(start, start + 6)]


def clipped(clip: Any) -> tuple[Any, list[Any]]:
    def train(x: float) -> Any:
        y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], x)
        y.backward()
        grads = clip([p.grad for p in PARAMS])
        for p, g in zip(PARAMS, grads, strict=True):
            p.data -= 0.5 * g
            p.grad = 0
        return y

    return train, [((-1) ** k * 0.7 * k,) for k in range(5)]


def documents() -> tuple[Any, list[Any]]:
    r = random.Random(3)
    return steps.gpt_step(), [(k, [6, *[r.randrange(6) for _ in range(3)], 6]) for k in range(6)]


STEPS: dict[str, Callable[[], tuple[Any, list[Any]]]] = {
    "demo": demo,
    "lstm": recurrent,
    "microgpt": documents,
    "counted": counted,
    "swapped": swapped,
    **{name: lambda name=name: named(name) for name in ("momentum", "schedule", "accumulation")},
    "part": lambda: named("part"),
    "clipped": lambda: clipped(steps.clip_each),
    "clipped norm": lambda: clipped(steps.clip_norm),
    "largest": lambda: clipped(steps.largest_of_all),
}


@pytest.fixture(autouse=True)
def _state_of_steps() -> Any:
    """The state that small steps share is as it was."""
    before = [(v.data, v.grad) for v in PARAMS], list(VELOCITY), list(COUNT)
    yield
    for v, (x, g) in zip(PARAMS, before[0], strict=True):
        v.data, v.grad = x, g
    VELOCITY[:], COUNT[:] = before[1:]


def python_state(compiled: Any, program: LoopProgram) -> list[Any]:
    """The arrays of the state as Python has them after a call."""
    state = compiled._numbers._latest.step.state
    known = {"values": [v.data for v in state.values], "grads": [v.grad for v in state.values]}
    found = iter([*state.lists])
    counts = iter([c.value for c in state.counts])
    out: list[Any] = []
    for m in program.state:
        if m.buffer.dtype == np.int64:
            out.append(np.array(next(counts)))
        elif m.path in known:
            out.append(np.array(known[m.path], np.float64))
        else:
            lists = [x for x in found if len(x) == m.buffer.shape[0]]
            out.append(np.array(lists[0], np.float64))
            found = iter(lists[1:])
    return out


@pytest.mark.parametrize("rolled", [True, False])
@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_steps(make: Any, rolled: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Same results and the same state, as loops and as tapes."""
    if rolled:
        request.getfixturevalue("eager_rolling")
    f, batches = make()
    compiled = cr.jit(f)
    program = program_of(compiled, *batches[0])
    left = left_in_c(compiled, tmp_path, *batches)
    want = [compiled(*b) for b in batches]
    printed = ccompiler.ran(tmp_path / "f.exe", str(len(batches))).splitlines()
    for n, (line, y) in enumerate(zip(printed, want, strict=True)):
        numbers = [float(x) for x in re.findall(r"  \S+ (\S+)", line)]
        expected = [steps.number(x) for x in (y if isinstance(y, tuple) else (y,))]
        assert numbers == expected if n == 0 else numbers == pytest.approx(expected, rel=1e-11)
    for got, expected in zip(arrays(program, left), python_state(compiled, program), strict=True):
        near(got, expected.ravel())


@node.needs_node
@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_steps_in_webassembly(make: Any, tmp_path: Path) -> None:
    f, batches = make()
    compiled = cr.jit(f)
    program = program_of(compiled, *batches[0])
    module = compiled.to_wasm(tmp_path / "f.wasm", *batches[0])
    results, state = node.left(module, 2)
    compiled(*batches[0])
    y = compiled(*batches[0])
    ys = [y] if not isinstance(y, tuple) else list(y)
    assert [float(x) for x in results] == pytest.approx([steps.number(y) for y in ys], rel=1e-11)
    for got, expected in zip(arrays(program, state), python_state(compiled, program), strict=True):
        near(got, expected.ravel())


@sampled(one_in=50)
@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("seed", range(200))
def test_random_steps(seed: int, tmp_path: Path) -> None:
    train = steps.random_step(seed)
    compiled = cr.jit(train)
    left = left_in_c(compiled, tmp_path, *[(k,) for k in range(5)])
    want = [compiled(k).data for k in range(5)]
    assert left["y"][0] == pytest.approx(want[-1], rel=1e-11, nan_ok=True)
    data = np.concatenate([left[p.path] for p in program_of(compiled, 0).state[0].named()])
    state = compiled._numbers._latest.step.state
    near(data, [v.data for v in state.values])


def test_lists_of_several_lengths(tmp_path: Path) -> None:
    """One program, whose data has the sizes and tables of each step; its state is one."""
    r = random.Random(5)
    train = steps.gpt_step()
    compiled = cr.jit(train)
    batches = [(k, [6, *[r.randrange(6) for _ in range(2 + k % 4)], 6]) for k in range(12)]
    files = compiled.to_c(tmp_path / "f.c", batches=batches)
    want = [compiled(*b).data for b in batches]
    got = ccompiler.losses(files.source, len(batches))
    assert got[0] == want[0]
    assert got == pytest.approx(want, rel=1e-11)
    assert "It is for lists of several lengths." in files.source.read_text(encoding="utf-8")


def test_several_lengths_that_are_no_one_program(tmp_path: Path) -> None:
    model: Any = GPT(n_embd=4)
    with pytest.raises(ConfigError, match="only steps that change no ints"):
        cr.jit(model.loss).to_c(tmp_path, batches=[([6, 1, 2, 6],), ([6, 1, 6],)])

    def train(x: list[float]) -> Any:
        y = small_loss([*x, *[0.1] * 6][:6], 0.2)
        y.backward()
        for p in PARAMS:
            p.data -= 0.1 * p.grad
            p.grad = 0
        return y

    with pytest.raises(ConfigError, match="Write a file for each length"):
        cr.jit(train).to_c(tmp_path, batches=[([0.1] * 3,), ([0.1] * 4,)])


def test_methods(tmp_path: Path) -> None:
    """The object is part of the program, its numbers are the state."""
    model, other = steps.Trained(1), steps.Trained(2)
    x = [0.3, -0.2, 0.5, 0.1]
    files = steps.Trained.compiled.to_c(tmp_path / "f.c", batches=[(model, x)] * 3)
    text = files.source.read_text(encoding="utf-8")
    assert "w (4, 4) from 0 on" in text
    assert "static double moments[16];" in text
    assert ccompiler.losses(files.source, 3) == pytest.approx([model.train(x).data for _ in "abc"])
    with pytest.raises(ConfigError, match="part of the program"):
        steps.Trained.compiled.to_c(tmp_path, batches=[(model, x), (other, x)])


def test_an_export_changes_nothing(tmp_path: Path) -> None:
    train, batches = documents()
    other, _ = documents()
    compiled, same = cr.jit(train), cr.jit(other)
    for k, batch in enumerate(batches * 2):
        if k in (0, 2, 5, 9):
            compiled.to_c(tmp_path, *batch)
        assert compiled(*batch).data == pytest.approx(same(*batch).data, rel=1e-12)


def test_results_that_are_held_keep_their_derivatives(tmp_path: Path) -> None:
    train, batches = documents()
    compiled = cr.jit(train)
    y = [compiled(*batch) for batch in batches][-1]
    before = list(y._made.partials)
    compiled.to_c(tmp_path, *batches[0])
    assert list(y._made.partials) == before


# --- what a file says and refuses -----------------------------------------------------------------


def test_the_file_quotes_lines_and_names_containers(tmp_path: Path) -> None:
    model: Any = GPT(n_embd=4)
    text = cr.jit(model.loss).to_c(tmp_path, [6, 1, 4, 6]).source.read_text(encoding="utf-8")
    assert "w.wte (7, 4) from" in text
    assert "layer0.fc1 (16, 4) from" in text
    assert "return [sum(wi * xi for wi, xi in zip(wo, x, strict=True))" in text
    assert "static int64_t tokens[4];" in text
    for part in ("prepare", "forward", "backward"):
        assert f"static void {part}(void)" in text


def test_ints_for_which_the_program_is_another(tmp_path: Path) -> None:
    train, batches = documents()
    compiled = cr.jit(train)
    files = compiled.to_c(tmp_path / "f.c", *batches[0])
    built = ccompiler.built(files.source)
    data = bytearray(files.data.read_bytes())
    data[-16:-8] = (7).to_bytes(8, "little")
    (tmp_path / "bad.bin").write_bytes(data)
    done = subprocess.run(
        [str(built), "1", "bad.bin", "out"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "tokens[3]" in done.stderr
    assert not (tmp_path / "out").exists()
    assert done.stdout == ""


@node.needs_node
def test_a_refused_call_leaves_the_state(tmp_path: Path) -> None:
    train, batches = documents()
    module = cr.jit(train).to_wasm(tmp_path / "f.wasm", *batches[0])
    script = """
    const before = step.state.m.slice();
    step.inputs.tokens[3] = 7n;
    let said = "";
    try { step.call(); } catch (e) { said = e.name + ": " + e.message; }
    const same = before.every((x, i) => x === step.state.m[i]);
    step.inputs.tokens[3] = 2n;
    step.call();
    const moved = before.some((x, i) => x !== step.state.m[i]);
    console.log(said, same, moved);
    """
    said = node.ran(module, script)
    assert "RangeError" in said
    assert "tokens[3] < 7" in said
    assert said.strip().endswith("true true")


def test_ints_that_are_computed(tmp_path: Path) -> None:
    """Tables, negative indices, divisions, branches and schedules of ints."""
    w = matrix(random.Random(1), 5, 4, 0.5)
    order = [3, 1, 4, 0, 2]

    def f(i: int, k: int) -> Any:
        row = w[order[(i * 3 + k) % 5]]
        other = w[-1 - (i // 2) % 3]
        scale = 0.5 if k % 2 == 0 else 0.25
        return sum(a * b for a, b in zip(row, other, strict=True)) * scale

    compiled = cr.jit(f)
    calls = [(i, k) for i in range(-3, 4) for k in (0, 2, 4)]
    files = compiled.to_c(tmp_path / "f.c", batches=calls)
    assert ccompiler.losses(files.source, len(calls)) == [f(*c).data for c in calls]


def test_ints_that_divide(tmp_path: Path) -> None:
    """Division by 0, an error in Python, is refused."""
    w = matrix(random.Random(1), 3, 4, 0.5)

    def f(i: int) -> Any:
        return sum(a * a for a in w[(12 // i) % 3])

    compiled = cr.jit(f)
    files = compiled.to_c(tmp_path / "f.c", batches=[(1,), (-5,), (7,)])
    assert ccompiler.losses(files.source, 3) == [f(i).data for i in (1, -5, 7)]
    for bad, words in ((0, "i != 0"), (2**40, "i <= 2147483648")):
        data = files.data.read_bytes()[:-24] + bad.to_bytes(8, "little") + bytes(16)
        (tmp_path / "bad.bin").write_bytes(data)
        command = [str(tmp_path / "f.exe"), "1", "bad.bin"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert words in done.stderr


def test_a_schedule_of_floats(tmp_path: Path) -> None:
    f, _ = named("schedule")
    compiled = cr.jit(f)
    files = compiled.to_c(tmp_path / "f.c", 5, 0.1)
    data = files.data.read_bytes()
    built = ccompiler.built(files.source)
    # the rate rises in the first steps: another program
    (tmp_path / "f.bin").write_bytes(data[:-16] + (1).to_bytes(8, "little") + data[-8:])
    done = subprocess.run([str(built), "1"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "step" in done.stderr


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"to_c: .* runs as it is, so no program is known: "):
        cr.jit(clusters()[0]).to_c(tmp_path)
    with pytest.raises(TraceError, match=r"to_wasm: .* runs as it is"):
        cr.jit(clusters()[0]).to_wasm(tmp_path)
    train, batches = documents()
    compiled = cr.jit(train)
    with pytest.raises(ConfigError, match="a number of another kind"):
        compiled.to_c(tmp_path, batches=[batches[0], (1.0, batches[0][1])])
    with pytest.raises(ConfigError, match="does something else"):
        compiled.to_c(tmp_path, batches=[batches[0], (1, [6, 1, 9, 2, 6])])
    with pytest.raises(ConfigError, match="no dynamic size"):
        compiled.to_wasm(tmp_path, *batches[0], largest={"B": 3})
    with pytest.raises(ConfigError, match="not been called yet"):
        cr.jit(train).to_wasm(tmp_path)
    w = [Value(0.1), Value(0.2)]
    hashed = cr.jit(lambda i: w[(i * i * i * 6364136223846793005) % 2] * 2.0)
    with pytest.raises(TraceError, match="more than 64 bits"):
        hashed.to_c(tmp_path, 3)
    with pytest.raises(TraceError, match="changes 'total'"):
        cr.jit(_totals).to_c(tmp_path)


HELD: dict[str, Any] = {"total": 0.0}


def _totals() -> Any:
    y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], 0.2)
    y.backward()
    HELD["total"] = HELD["total"] + y.data
    return y


def test_ints_that_are_part_of_the_program(tmp_path: Path) -> None:
    """Where a recording with symbols does not agree, the file is for the ints of the call alone."""
    w = matrix(random.Random(1), 4, 4, 0.5)

    def f(n: int) -> Any:
        return sum(a * b for a, b in zip(w[0], w[1], strict=True)) * float(f"1.{n}")

    compiled = cr.jit(f)
    files = compiled.to_c(tmp_path / "f.c", 3)
    assert ccompiler.losses(files.source, 1) == [f(3).data]
    with pytest.raises(ConfigError, match=r"does something else|part of the program"):
        compiled.to_c(tmp_path / "f.c", batches=[(3,), (4,)])


def test_reassociated_loops(tmp_path: Path) -> None:
    f, _ = mlp(20, 8)
    compiled = cr.jit(f, reassociate=True)
    left = left_in_c(compiled, tmp_path, ())
    assert left["result"][0] == pytest.approx(f().data, rel=1e-12)
    assert math.isfinite(float(left["result"][0]))
