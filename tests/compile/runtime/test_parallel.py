"""Kernels over several cores: the same bits as with one, and threads that do no harm."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule as cr
from chainrule import optim
from chainrule.compile.cpu import core_split
from chainrule.compile.cpu.symbols import PARALLEL
from chainrule.compile.loops.check.accesses import SpecError
from chainrule.compile.loops.check.races import side_by_side
from chainrule.compile.loops.duration import is_parallel
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs, Local, Var
from chainrule.compile.loops.statements import For, Gemm, Into, Kernel, Let, Loops, Matrix, Store
from chainrule.compile.runtime import linking, threads
from chainrule.errors import ConfigError
from chainrule.models.gpt import GPT, GPTConfig, generator_draw
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


F32 = np.dtype(np.float32)
posix = pytest.mark.skipif(os.name != "posix", reason="elsewhere there are no workers")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def bits(found) -> list[bytes]:
    """The results of a call, byte by byte."""
    leaves = found if isinstance(found, tuple) else (found,)
    return [np.asarray(x.detach().numpy()).tobytes() for x in leaves]


# --- the same bits -------------------------------------------------------------------------------


def data(*shape: int) -> cr.Tensor:
    return cr.asarray(np.random.default_rng(7).standard_normal(shape, dtype=np.float32))


CASES = {
    "elementwise": (lambda x: cr.tanh(x) * x, [(330, 1001)]),
    "flat, with a rest": (lambda x: cr.exp(x), [(300_007,)]),
    "rows": (lambda x: cr.softmax(x, axis=-1), [(700, 333)]),
    "few rows": (lambda x: cr.exp(x)[:, 1:], [(3, 200_001)]),
    "columns": (lambda x: x.sum(axis=0), [(999, 450)]),
    "both": (lambda x: (cr.softmax(x, axis=-1) * x).sum(axis=0), [(515, 640)]),
    "turned": (lambda x: cr.reshape(cr.permute_dims(x, (1, 0)), (-1,)), [(515, 643)]),
    "BLAS, rows": (lambda a, b: a @ b, [(650, 70), (70, 300)]),
    "BLAS, columns": (lambda a, b: cr.permute_dims(a, (1, 0)) @ b, [(170, 130), (170, 901)]),
    "BLAS, batches": (lambda a, b: a @ b, [(6, 5, 70, 64), (6, 5, 64, 80)]),
    "tiles, rows": (lambda a, b: cr.relu(a @ b), [(5000, 6), (6, 50)]),
    "tiles, columns": (lambda a, b: a @ b, [(7, 90), (90, 4000)]),
    "gradients": (cr.grad(lambda w, x: (cr.gelu(x @ w) ** 2).sum()), [(90, 310), (600, 90)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_threads_change_no_bit(name: str):
    f, shapes = CASES[name]
    xs = [data(*s) for s in shapes]
    g = cr.jit(f)
    found = []
    for n in (1, 2, 5):
        threads.set_num_threads(n)
        found += [bits(g(*xs)) for _ in range(3)]
    assert all(x == found[0] for x in found)
    assert " parallel:" in str(g.loops())
    want = f(*xs).numpy()
    np.testing.assert_allclose(g(*xs).numpy(), want, rtol=2e-4, atol=2e-4)


def test_a_training_step_of_a_gpt_changes_no_bit():
    config = GPTConfig.gpt2(65, 64, n_layer=2, n_head=2, n_embd=128)
    tokens = np.random.default_rng(3).integers(0, 65, (4, 65))
    x, y = cr.asarray(tokens[:, :-1].copy()), cr.asarray(tokens[:, 1:].copy())

    def trained(n: int) -> list[bytes]:
        threads.set_num_threads(n)
        model = GPT(config, draw=generator_draw(cr.Generator(0)))
        adam = optim.AdamW(model.parameters(), lr=1e-3)

        @cr.jit
        def step(x, y):
            loss = model.loss(x, y)
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss

        losses = [bits(step(x, y)) for _ in range(3)]
        assert " parallel:" in str(step.loops())
        return [b for bs in losses for b in bs] + [bits(p)[0] for p in model.parameters()]

    one = trained(1)
    assert trained(2) == one
    assert trained(3) == one


def test_what_a_small_program_does_needs_no_threads():
    g = cr.jit(lambda x: cr.softmax(x @ x, axis=-1))
    g(data(16, 16))
    assert " parallel:" not in str(g.loops())


def test_dynamic_rows_are_split():
    g = cr.jit(lambda x: cr.softmax(x, axis=-1), dynamic={0: {0: "N"}})
    found = []
    for n in (1, 2):
        threads.set_num_threads(n)
        found.append([bits(g(data(rows, 4000))) for rows in (1, 2, 77, 300)])
    assert found[0] == found[1]
    assert " parallel:" in str(g.loops())


# --- which loops may be parallel -----------------------------------------------------------------

I, J = Var("i", 64), Var("j", 8192)
E = Exprs()
X, Y = (Buffer(n, F32, (64 * 8192 + 9000,), "scratch") for n in "xy")


def at(i: int, j: int, start: int = 0) -> Affine:
    return Affine(start, tuple([(v, c) for v, c in ((I, i), (J, j)) if c]))


def is_split(*body) -> bool:
    program = core_split.split(Loops([X, Y], [Kernel("k", tuple(body))]))
    return any(map(is_parallel, program.kernels))


def filling(*stores: Store, independent: bool = True) -> For:
    inner = For(J, stores, "lanes", independent=False)
    return For(I, (inner,), independent=independent)


def meets(*body) -> bool:
    """Whether the checker finds turns of independent loops that meet."""
    try:
        side_by_side(Loops([X, Y], [Kernel("k", tuple(body))]), {})
    except SpecError as e:
        assert "meet in y" in str(e)
        return True
    return False


ONE = E.lit(1.0, F32)


def test_independent_loops_are_split_and_others_are_not():
    assert is_split(filling(Store(Y, at(8192, 1), ONE)))
    assert not is_split(filling(Store(Y, at(8192, 1), ONE), independent=False))


def test_a_number_of_all_iterations_is_not_split():
    acc = Local("acc", F32)
    body = For(I, (For(J, (Into(acc, "add", E.load(X, at(8192, 1))),), "lanes"),))
    assert not is_split(Let(acc, E.lit(0, F32)), body, Store(Y, Affine(), E.local(acc)))


def test_rows_that_meet_are_not_independent():
    assert not meets(filling(Store(Y, at(8192, 1), ONE)))
    assert not meets(filling(Store(Y, at(8192, 1, 5), E.load(Y, at(8192, 1, 5)))))
    assert not meets(filling(Store(Y, at(1, 64), ONE)))
    assert not meets(filling(Store(Y, at(8192, 1), E.load(X, at(0, 1)))))
    assert meets(filling(Store(Y, at(8192, 1), E.load(Y, at(8192, 1, 1)))))
    assert meets(filling(Store(Y, at(4096, 1), ONE)))
    assert meets(filling(Store(Y, at(0, 1), ONE, add=True)))
    assert meets(filling(Store(Y, at(8192, 1), E.load(Y, at(8192, 1, 8192)))))


def test_products_into_the_same_matrix_are_not_independent():
    def called(step: int) -> For:
        out = Matrix(Y, Affine(0, ((I, step),)), 64, 1)
        left, right = (Matrix(X, Affine(0, ((I, 4096),)), 64, 1) for _ in range(2))
        return For(I, (Gemm(64, 64, 64, left, right, out),), independent=True)

    assert is_split(called(4096)) and not meets(called(4096))
    assert meets(called(64))
    assert meets(called(0))


SMALL = st.integers(0, 24)


@given(
    i=SMALL, j=SMALL, load=SMALL, shift=st.integers(-3, 3), m=st.integers(2, 3), n=st.integers(1, 6)
)
def test_the_checker_counts_where_turns_meet(i: int, j: int, load: int, shift: int, m: int, n: int):
    rows, cols = Var("i", m), Var("j", n)

    def place(a: int, b: int, start: int) -> Affine:
        return Affine(start, tuple([(v, c) for v, c in ((rows, a), (cols, b)) if c]))

    store = Store(Y, place(i, j, 9), E.load(Y, place(i, load, 9 + shift)))
    body = For(rows, (For(cols, (store,), "lanes"),), independent=True)
    wrote = [{i * a + j * b for b in range(n)} for a in range(m)]
    touched = [w | {i * a + load * b + shift for b in range(n)} for a, w in enumerate(wrote)]
    pairs = [pair for a in range(1, m) for pair in ((0, a), (a, 0))]
    assert meets(body) == any(not wrote[a].isdisjoint(touched[b]) for a, b in pairs)


# --- the pool ------------------------------------------------------------------------------------

Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)


def run(task, n: int, least: int = 1) -> None:
    """Let the pool run a Python function."""
    threads.the_pool().run()
    address = linking.address_of(PARALLEL)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    call = ctypes.CFUNCTYPE(None, Task, pointer, number, number, pointer)(address)
    call(Task(lambda args, begin, end, me: task(args, begin, end)), None, n, least, None)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize(("n", "least"), [(0, 1), (1, 1), (7, 1), (1000, 1), (1000, 999), (64, 9)])
def test_every_iteration_is_done_once(count: int, n: int, least: int):
    threads.set_num_threads(count)
    for _ in range(20):
        done: list[int] = []
        run(lambda _, begin, end, done=done: done.extend(range(begin, end)), n, least)
        assert sorted(done) == list(range(n))


@posix
def test_workers_do_take_part():
    threads.set_num_threads(3)
    meeting, who = threading.Barrier(3, timeout=30), set()

    def task(_, begin: int, end: int) -> None:
        if threading.get_ident() not in who:
            who.add(threading.get_ident())
            meeting.wait()  # all three are in it at the same time, or this fails

    for _ in range(5):
        who.clear()
        run(task, 3)
        assert len(who) == 3


def test_a_thread_that_finds_the_pool_taken_works_alone():
    threads.set_num_threads(2)
    inner: list[int] = []

    def task(_, begin: int, end: int) -> None:
        run(lambda _, b, e: inner.extend(range(b, e)), 10)

    run(task, 4)
    assert sorted(inner) == sorted(list(range(10)) * (len(inner) // 10))
    assert len(inner) >= 20


@posix
def test_one_thread_starts_nothing_and_others_end():
    g = cr.jit(lambda x: cr.exp(x))

    def workers() -> int:
        return len([t for t in threading.enumerate() if t.name.startswith("chainrule-")])

    threads.set_num_threads(1)
    g(data(400_000))
    assert workers() == 0
    threads.set_num_threads(4)
    assert workers() == 0
    g(data(400_000))
    assert workers() == 3
    threads.set_num_threads(2)
    assert workers() == 0
    g(data(400_000))
    assert workers() == 1


def test_two_programs_at_once():
    threads.set_num_threads(3)
    fs = [cr.jit(lambda x: cr.tanh(x) + 1), cr.jit(lambda x: cr.softmax(x, axis=-1))]
    x = data(300, 1000)
    want = [bits(f(x)) for f in fs]
    wrong: list[int] = []

    def caller(i: int) -> None:
        for _ in range(30):
            if bits(fs[i](x)) != want[i]:
                wrong.append(i)

    callers = [threading.Thread(target=caller, args=(i % 2,)) for i in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "two", None])
def test_a_number_of_threads_is_a_positive_int(n):
    with pytest.raises(ConfigError, match="at least 1"):
        threads.set_num_threads(n)


# --- processes -----------------------------------------------------------------------------------

PROGRAM = """
import os, sys, threading
import numpy as np
import chainrule as cr
from chainrule.compile.runtime import threads
x = cr.asarray(np.linspace(-2, 2, 500_000, dtype=np.float32))
g = cr.jit(lambda x: cr.exp(x) * 2)
y = g(x).numpy().tobytes()
"""


def in_a_process(code: str, **environment: str) -> str:
    """What it prints; it must end well, and soon."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + code],
        capture_output=True, text=True, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    ["", "import time; time.sleep(0.2)", "import gc; del g; gc.collect()",
     "import atexit; atexit.register(lambda: print(len(g(x).numpy())))",
     "threading.Thread(target=lambda: [g(x) for _ in range(50)]).start()"],
)  # fmt: skip
def test_a_process_ends_well(code: str):
    in_a_process(code, CHAINRULE_NUM_THREADS="4")


def test_the_environment_says_how_many():
    ask = "print(threads.get_num_threads())"
    assert in_a_process(ask, CHAINRULE_NUM_THREADS="3", OMP_NUM_THREADS="2") == "3"
    assert in_a_process(ask, CHAINRULE_NUM_THREADS="", OMP_NUM_THREADS="2") == "2"

    wrong = "os.environ['CHAINRULE_NUM_THREADS'] = 'many'\n"
    wrong += "threads._from_environment.cache_clear()\ntry:\n"
    wrong += "    threads.get_num_threads()\nexcept cr.ConfigError as e:\n    print(e)\n"
    assert "at least 1" in in_a_process(wrong)


@posix
def test_a_forked_child_has_threads_of_its_own():
    code = """
for _ in range(5):
    child = os.fork()
    if child == 0:
        same = g(x).numpy().tobytes() == y
        names = [t.name for t in threading.enumerate() if t.name.startswith("chainrule-")]
        os._exit(0 if same and len(names) == 2 else 1)
    _, status = os.waitpid(child, 0)
    print(status, g(x).numpy().tobytes() == y)
"""
    assert in_a_process(code, CHAINRULE_NUM_THREADS="3").splitlines() == ["0 True"] * 5


@posix
def test_a_fork_while_another_thread_computes():
    code = """
stop = threading.Event()
def busy():
    while not stop.is_set():
        g(x)
t = threading.Thread(target=busy)
t.start()
f = cr.jit(lambda x: cr.tanh(x))
want = f(x).numpy().tobytes()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0 if f(x).numpy().tobytes() == want else 1)
    print(os.waitpid(child, 0)[1])
stop.set()
t.join()
"""
    assert in_a_process(code, CHAINRULE_NUM_THREADS="3").split() == ["0"] * 10
