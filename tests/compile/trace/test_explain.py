"""What `explain`, `loops` and `source_of` say of a compiled function, and that asking changes
nothing."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.compile.inspect.explain import Explanation
from chainrule.compile.inspect.machine_limits import SIZES, Limits, limits
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs, Local, Var
from chainrule.compile.loops.statements import For, Into, Kernel, Let, Store
from chainrule.compile.loops.work import work
from chainrule.compile.mathlib.arithmetic_cost import operations
from chainrule.errors import ConfigError
from chainrule.models.gpt import GPT, GPTConfig, python_draw
from chainrule.ops.values import coefficients
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


TOKENS = np.array([26, 4, 12, 12, 0, 11])
TARGETS = np.array([4, 12, 12, 0, 11, 26])


def training(dropout: float = 0.0, **settings: Any) -> tuple[Any, Any]:
    """A step of a small GPT, compiled, and the model."""
    config = GPTConfig.microgpt(27, 16, dropout=dropout)
    model = GPT(config, draw=python_draw(random.Random(42)))
    adam = optim.Adam(model.parameters(), lr=0.01)

    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    return cr.jit(step, **settings), model


def numbers(model: Any) -> list[Any]:
    return [p.detach().numpy().copy() for p in model.parameters()]


def explained(f: Any, *args: Any, **settings: Any) -> Explanation:
    return cr.jit(f, **settings).explain(*args, repeats=3)


def only(e: Explanation) -> Any:
    (row,) = e.rows
    return row


# --- nothing is changed


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_explaining_changes_nothing(dropout: float):
    cr.manual_seed(3)
    step, model = training(dropout)
    losses = [step(TOKENS, TARGETS).item()]
    before = numbers(model)
    step.explain(repeats=4)
    step.explain(TOKENS, TARGETS, repeats=4)
    assert "for" in step.loops()
    assert all(np.array_equal(a, b) for a, b in zip(before, numbers(model), strict=True))
    losses += [step(TOKENS, TARGETS).item() for _ in range(3)]
    assert step.traces == 1

    cr.manual_seed(3)
    twin, other = training(dropout)
    assert losses == [twin(TOKENS, TARGETS).item() for _ in range(4)]
    pairs = zip(numbers(model), numbers(other), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_a_gradient_that_stays_is_not_changed():
    w = cr.tensor(np.arange(4.0), requires_grad=True)

    @cr.jit
    def more(x: Any) -> None:
        cr.sum(w * x).backward()

    x = np.array([1.0, 2.0, 3.0, 4.0])
    more(x)
    more(x)
    more.explain(repeats=3)
    np.testing.assert_array_equal(w.grad.numpy(), 2 * x)
    more(x)
    np.testing.assert_array_equal(w.grad.numpy(), 3 * x)


def test_arguments_that_are_changed_are_copied():
    def shift(x: Any) -> None:
        x[:] = x + 1

    x = cr.tensor(np.zeros(3))
    explained(shift, x)
    np.testing.assert_array_equal(x.numpy(), np.zeros(3))


# --- what is said


def test_the_rows_are_the_kernels_of_the_loops():
    step, _ = training()
    step(TOKENS, TARGETS)
    e = step.explain(repeats=5)
    names = [line.partition("(")[0] for line in step.loops().splitlines() if ") -> (" in line]
    assert sorted(r.kernel for r in e.rows) == sorted(names) and len(names) > 10
    assert [r.seconds for r in e.rows] == sorted([r.seconds for r in e.rows], reverse=True)
    assert e.total.seconds == pytest.approx(e.seconds) and 0 < e.seconds < 1
    assert e.total.flops == sum(r.flops for r in e.rows) > 100_000
    assert e.scratch > 1000 and e.compiling > 0 and e.symbols == {}
    assert all(r.bytes > 0 and r.least > 0 and not r.eager for r in e.rows)


def test_a_row_names_the_lines_of_the_user():
    def f(x: Any) -> Any:
        y = cr.exp(x)
        return y * 3.0

    start = f.__code__.co_firstlineno
    row = only(explained(f, np.ones(5)))
    assert [(x.op, x.line) for x in row.fused][-1] == ("mul", f"test_explain.py:{start + 2}")
    table = str(explained(f, np.ones(5)))
    assert f"test_explain.py:{start + 2}" in table and row.kernel in table


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 4), (np.float64, 8)])
def test_bytes_and_operations_of_an_elementwise_function(dtype: Any, size: int):
    x, y = np.ones((30, 7), dtype), np.ones(7, dtype)
    row = only(explained(lambda x, y: x * y + 2, x, y))
    assert row.bytes == size * (210 + 7 + 210)
    assert row.flops == 2 * 210


def test_what_is_read_twice_counts_once():
    row = only(explained(lambda x: x[:50] * x[:50] + x[25:75], np.ones(100, np.float32)))
    assert row.bytes == 4 * (75 + 50) or row.bytes == 4 * (100 + 50)  # it does not see overlaps
    row = only(explained(lambda x: cr.softmax(x, axis=-1), np.ones((6, 10), np.float32)))
    assert row.bytes <= 4 * (60 + 3 * 60 + 2 * 6)


def test_a_number_of_a_row_is_computed_once_for_each_row():
    e, f32 = Exprs(), np.dtype(np.float32)
    x, y = Buffer("x", f32, (20,), "input"), Buffer("y", f32, (20, 30), "result")
    i, j, k, r = Var("i", 20), Var("j", 30), Var("k", 30), Local("r", f32)
    high = e.fn("exp", e.load(x, Affine.of(i)), dtype=f32)
    at = Affine.of(i) * 30
    summed = For(j, (Into(r, "add", e.fn("mul", high, e.load(y, at + j), dtype=f32)),))
    place = at + k
    kept = For(k, (Store(y, place, e.fn("div", e.load(y, place), e.local(r), dtype=f32)),))
    found = work(Kernel("k0", (For(i, (Let(r, e.lit(0, f32)), summed, kept)),)), {})
    # exp once a row; then a product and a sum for each element; then a quotient for each
    assert found.flops == found.singles == 20 * operations("exp", f32) + 2 * 600 + 600
    # both loops read the same places of y
    assert (found.read, found.written) == (4 * (20 + 600), 4 * 600)


def test_what_a_kernel_has_written_it_need_not_read():
    x, y = (Buffer(n, np.dtype(np.float32), (50,), "scratch") for n in "xy")
    e, (i, j, k) = Exprs(), [Var(n, 50) for n in "ijk"]
    first = For(i, (Store(y, Affine.of(i), e.load(x, Affine.of(i))),))
    same = For(j, (Store(y, Affine.of(j), e.load(y, Affine.of(j))),))
    one = For(k, (Store(y, Affine.of(k), e.load(y, Affine.of(k) + 1)),))
    read = [work(Kernel("k", body), {}).read for body in [(same,), (first, same), (first, one)]]
    assert read == [200, 200, 400]


def test_a_function_counts_as_its_longest_polynomial():
    """Of as many coefficients as exp has in float32, a multiply-add each; a clumsy function, which
    evaluates another one beside it, counts for no more."""
    f32, f64 = np.dtype(np.float32), np.dtype(np.float64)
    exp = 2 * (len(coefficients.EXP_F32) + 1)  # 1 + r (1 + r p(r))
    assert [operations(n, f32) for n in ("exp", "silu", "add", "fmod")] == [exp, exp, 1, 1]
    assert operations("erf", f64) == 2 * (len(coefficients.ERFC_F64) - 2)
    assert only(explained(lambda x: cr.exp(x) + 1, np.ones(8, np.float32))).flops == 8 * (exp + 1)


@pytest.mark.parametrize("side", [5, 96])
def test_bytes_and_operations_of_a_product(side: int):
    a, b = np.ones((side, 2 * side), np.float32), np.ones((2 * side, side), np.float32)
    e = explained(lambda a, b: a @ b, a, b)
    assert e.total.flops == 2 * side * side * 2 * side
    assert only(e).bytes == 4 * (2 * side * side + 2 * side * side + side * side)


def test_a_sum_counts_its_additions():
    row = only(explained(lambda x: cr.sum(x, axis=1), np.ones((8, 50), np.float32)))
    assert (row.bytes, row.flops) == (4 * (400 + 8), 400)


def test_whole_numbers_are_no_floating_point_operations():
    assert only(explained(lambda x: x + x, np.arange(9))).flops == 0


def test_sizes_are_those_of_the_arguments():
    f = cr.jit(lambda x: x * 2, dynamic={0: {0: "n"}})
    f(np.ones(10, np.float32))
    for n in (10, 40):
        e = f.explain(np.ones(n, np.float32), repeats=3)
        assert only(e).bytes == 8 * n and e.symbols == {"n": n} and f"n = {n}" in str(e)
    assert f.traces == 1


def test_what_runs_in_its_eager_form_is_said_with_the_reason():
    e = explained(lambda x: cr.sum(cr.special.polygamma(7, x)) * 2, np.eye(3))
    (row,) = [r for r in e.rows if r.eager]
    assert "no loops" in row.eager and f"{row.kernel} runs in its eager form" in str(e)
    e = explained(lambda x: x * 2, np.ones(4, np.complex64))
    assert not any(r.eager for r in e.rows)


def test_the_table_has_a_line_for_each_kernel_and_a_total():
    step, _ = training()
    step(TOKENS, TARGETS)
    e = step.explain(repeats=3)
    lines = str(e).splitlines()
    assert lines[0].startswith("training.<locals>.step: ") and "scratch memory" in lines[0]
    assert "GFLOP/s in float32" in lines[1]
    head = next(i for i, line in enumerate(lines) if "of peak" in line)
    body = lines[head + 1 :]
    assert len(body) == len(e.rows) + 1 and body[-1].endswith("total")
    assert [r.kernel for r in e.rows] == [
        next(word for word in line.split() if word.startswith("k")) for line in body[:-1]
    ]
    assert len({line.index(r.kernel) for line, r in zip(body, e.rows, strict=False)}) == 1


# --- before a call


def test_before_a_call_it_says_to_call_once():
    step, _ = training()
    for ask in (step.explain, step.loops, lambda: step.source_of("k0")):
        with pytest.raises(ConfigError, match=r"step has not been called yet.*call it once"):
            ask()
    assert step.explain(TOKENS, TARGETS, repeats=2).rows and step.traces == 0


def test_a_function_without_arguments_needs_no_call():
    w = cr.tensor(np.ones(3))
    assert cr.jit(lambda: w * 2).explain(repeats=2).rows


def test_other_arguments_are_another_program():
    f = cr.jit(lambda x: x * 2)
    f(np.ones(10, np.float32))
    assert only(f.explain(np.ones(30, np.float32), repeats=2)).bytes == 240
    assert only(f.explain(repeats=2)).bytes == 80
    assert f.traces == 1


def test_a_module_in_another_mode_is_another_program():
    drop = nn.Dropout(0.5)
    f = cr.jit(lambda x: drop(x) + 1)
    x = np.ones(8, np.float32)
    f(x)
    while_training = f.explain(repeats=2).total.bytes
    drop.eval()
    assert f.explain(x, repeats=2).total.bytes == 64 < while_training


# --- the code of a kernel


def test_the_code_of_a_kernel_in_three_languages():
    f = cr.jit(lambda x: cr.sqrt(x) + 1)
    f(np.ones(100, np.float32))
    name = f.explain(repeats=2).rows[0].kernel
    assembly = f.source_of(name)
    assert assembly.startswith((f"{name}:", f"_{name}:")) and "sqrt" in assembly
    assert "ret" in assembly and assembly.count(":\n") >= 1
    llvm = f.source_of(name, language="llvm")
    assert f"@{name}(" in llvm and "sqrt" in llvm and llvm.rstrip().endswith("}")
    loops = f.source_of(name, language="loops")
    assert "sqrt(" in loops and loops in f.loops()


def test_every_kernel_of_a_step_has_code():
    step, _ = training()
    step(TOKENS, TARGETS)
    for r in step.explain(repeats=2).rows:
        assert step.source_of(r.kernel, language="llvm").count("define") == 1


def test_a_kernel_that_is_not_there_and_a_language_that_is_none():
    f = cr.jit(lambda x: cr.sqrt(x) + 1)
    f(np.ones(3))
    name = f.explain(repeats=2).rows[0].kernel
    with pytest.raises(ConfigError, match=f"no kernel 'fast'; there are {name}"):
        f.source_of("fast")
    with pytest.raises(ConfigError, match="assembly, llvm or loops, not 'c'"):
        f.source_of(name, language="c")


def test_what_runs_in_its_eager_form_has_no_machine_code():
    f = cr.jit(lambda x: cr.special.polygamma(7, x) * 2)
    f(np.eye(3))
    (row,) = [r for r in f.explain(repeats=2).rows if r.eager]
    with pytest.raises(ConfigError, match="eager form, so it has no machine code"):
        f.source_of(row.kernel)
    assert "eager" in f.source_of(row.kernel, language="loops")


# --- what the machine can do


def test_the_machine_is_measured_once():
    found = limits()
    assert found is limits()
    assert len(found.copies) == len(SIZES) and all(1e8 < x < 1e13 for x in found.copies)
    assert 1e8 < found.doubles < found.singles * 1.5 < 1e14


def test_the_least_time_is_that_of_what_takes_longer():
    m = Limits(tuple([10.0 * (i + 1) for i in range(len(SIZES))]), 100.0, 50.0)
    assert m.copy(1) == m.copy(SIZES[0]) == 10.0 and m.copy(SIZES[-1] * 9) == 10.0 * len(SIZES)
    assert m.copy(math.sqrt(SIZES[0] * SIZES[1])) == pytest.approx(15.0)
    assert m.seconds(100, 0, 0) == 10.0
    assert m.seconds(100, 3000, 0) == 30.0 and m.seconds(0, 0, 3000) == 60.0
    assert m.copying(100) == 10.0 and m.computing(3000, 50) == 31.0
