"""Scripts that train by `grad` and updates of their own, compiled or not, are seen as trainings."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from chainrule.compile.jit import Jitted
from chainrule.transforms.functional import _Run  # pyright: ignore[reportPrivateUsage]
from chainrule.verify import script
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script import plain, written

pytestmark = sampled_file(one_in=12)


copied = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

START = """
import numpy as np
import chainrule as cr
from chainrule import nn, optim

rng = np.random.default_rng(0)
X = rng.normal(size=(32, 4))
Y = np.sin(X.sum(axis=1, keepdims=True))
params = {"w": rng.normal(size=(4, 1)), "b": np.zeros(1)}


class Softplus(cr.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return cr.log(1 + cr.exp(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * cr.exp(x) / (1 + cr.exp(x))


def loss_fn(p, x, y):
    return cr.mean((Softplus.apply(x @ p["w"] + p["b"]) - y) ** 2)
"""
SGD = """
for step in range(8):
    i = rng.integers(0, 32, 16)
    loss, grads = cr.value_and_grad(loss_fn)(params, X[i], Y[i])
    params = {k: params[k] - 0.1 * grads[k] for k in params}
    print(step, loss.item())
"""
ADAM = """
gradient = cr.grad(lambda w, b: loss_fn({"w": w, "b": b}, X, Y), (0, 1))
w, b = params["w"], params["b"]
m, v = [0.0, 0.0], [0.0, 0.0]
for t in range(1, 9):
    gs = gradient(w, b)
    m = [0.9 * a + 0.1 * g for a, g in zip(m, gs)]
    v = [0.99 * a + 0.01 * g**2 for a, g in zip(v, gs)]
    rows = zip((w, b), m, v)
    w, b = [p - 0.05 * a / (1 - 0.9**t) / cr.sqrt(c / (1 - 0.99**t) + 1e-8) for p, a, c in rows]
    print(t, loss_fn({"w": w, "b": b}, X, Y).item())
"""
COMPILED = """
@cr.jit
def step(p, x, y):
    loss, g = cr.value_and_grad(loss_fn)(p, x, y)
    return loss, {k: p[k] - 0.1 * g[k] for k in p}


for _ in range(8):
    loss, params = step(params, X, Y)
    print(loss.item())
"""
GRADIENT = """
gradient = cr.jit(cr.value_and_grad(loss_fn))
for _ in range(8):
    loss, g = gradient(params, X, Y)
    params = {k: params[k] - 0.1 * g[k] for k in params}
    print(loss.item())
"""
WHOLE = """
cr.random.manual_seed(0)
layer = nn.Linear(4, 1, dtype=np.float64)
optimizer = optim.SGD(layer.parameters(), lr=0.1)


@cr.jit
def step(x, y):
    optimizer.zero_grad()
    loss = cr.mean((Softplus.apply(layer(x)) - y) ** 2)
    loss.backward()
    optimizer.step()
    return loss


for _ in range(8):
    print(step(X, Y).item())
"""
LOOP = WHOLE.partition("for _ in")[0] + "print(step.loop([(X, Y)] * 8).shape)\n"
LOOPS = {
    "sgd": SGD, "adam": ADAM, "compiled": COMPILED, "gradient": GRADIENT, "whole": WHOLE,
    "loop": LOOP,
}  # fmt: skip
IN_COPIES = ("compiled", "gradient", "whole", "loop")
WRONG = ("g * cr.exp(x) / (1 + cr.exp(x))", "g * cr.exp(x) / (1 + cr.exp(x)) ** 2")


def run(tmp_path, text):
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(written(tmp_path, text)), own=script.OWN, loop=script.LOOP
        )
    return outcome, out.getvalue()


def why_not(outcome):
    return [row.why for row in outcome.report.ledger.skipped]


@pytest.mark.parametrize("name", LOOPS)
def test_its_steps_are_seen_and_its_functions_verified(tmp_path, name):
    if name in IN_COPIES and not can_fork():
        pytest.skip("processes are not copied here")
    outcome, printed = run(tmp_path, START + LOOPS[name])
    assert outcome.is_seen
    assert outcome.report.ok, str(outcome.report)
    assert "no training step was seen" not in why_not(outcome)
    assert "Softplus" in [row.subject for row in outcome.report.ledger.checked]
    assert printed == plain(written(tmp_path, START + LOOPS[name])).stdout
    wrong, _ = run(tmp_path, START.replace(*WRONG) + LOOPS[name])
    (found,) = wrong.report.findings
    assert found.subject == "Softplus"
    assert found.correction is not None and found.correction.rechecked


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_nothing_is_left_after_three_steps(tmp_path, name):
    runs = "from chainrule.transforms.functional import _Run\n"
    here = "print(hasattr(_Run.__init__, '__wrapped__'));"
    outcome, printed = run(tmp_path, runs + START + LOOPS[name].replace("print(", here + "print("))
    assert printed.splitlines()[::2] == ["True"] * 3 + ["False"] * 5
    assert not any("ended after" in why for why in why_not(outcome))


GAN = """
def made(g, z):
    return cr.tanh(z @ g["a"]) @ g["b"]


def score(d, x):
    return cr.tanh(x @ d["a"]) @ d["b"]


def judged(d, fake, real):
    return cr.mean(cr.softplus(-score(d, real)) + cr.softplus(score(d, fake)))


def won(g, d, z):
    return cr.mean(cr.softplus(-score(d, made(g, z))))


g = {"a": rng.normal(size=(4, 8)), "b": rng.normal(size=(8, 2))}
d = {"a": rng.normal(size=(2, 8)), "b": rng.normal(size=(8, 1))}
for _ in range(8):
    z = rng.normal(size=(16, 4))
    more = cr.grad(judged)(d, made(g, z), rng.normal(size=(16, 2)))
    d = {k: d[k] - 0.1 * more[k] for k in d}
    more = cr.grad(won)(g, d, z)
    g = {k: g[k] - 0.1 * more[k] for k in g}
    print(won(g, d, z))
"""
MANY = """
def loss(p):
    one = lambda x, y: cr.sum((cr.tanh(x @ p["w"]) + p["b"] - y) ** 2)
    return cr.mean(cr.vmap(one)(X, Y))


for _ in range(8):
    value, g = cr.value_and_grad(loss)(params)
    params = {k: params[k] - 0.1 * g[k] for k in params}
    print(value)
"""
EACH = """
each = cr.vmap(cr.grad(lambda w, x, y: cr.sum((cr.tanh(x @ w) - y) ** 2)), in_axes=(None, 0, 0))
w = params["w"]
for _ in range(8):
    w = w - 0.1 * each(w, X, Y).mean(axis=0)
    print(w)
"""
NEWTON = """
def f(w):
    return cr.mean((cr.tanh(X @ w) - Y[:, 0]) ** 2) + 0.1 * cr.sum(w * w)


w = np.zeros(4)
for _ in range(8):
    g, curved = cr.grad(f)(w), cr.hessian(f)(w)
    w = w - np.linalg.solve(np.asarray(curved), np.asarray(g))
    print(f(w))
"""
SEARCH = (
    NEWTON.partition("w = np")[0]
    + """
w = np.zeros(4)
for _ in range(8):
    value, g = cr.value_and_grad(f)(w)
    rate = 1.0
    while float(f(w - rate * np.asarray(g))) > float(value):
        rate *= 0.5
    w = w - rate * np.asarray(g)
    print(value)
"""
)
REINFORCE = """
def likely(p, x):
    return cr.log_softmax(x @ p["w"], axis=-1)


def loss(p, x, acts, gains):
    chosen = cr.take_along_axis(likely(p, x), acts[:, None], axis=1)[:, 0]
    return -cr.mean(chosen * (gains - gains.mean()))


p = {"w": rng.normal(size=(4, 3))}
for _ in range(8):
    chances = np.exp(np.asarray(likely(p, X)))
    acts = np.array([rng.choice(3, p=c / c.sum()) for c in chances])
    value, g = cr.value_and_grad(loss)(p, X, acts, (acts == 1) + 0.1 * X[:, 0])
    p = {"w": p["w"] - 0.1 * g["w"]}
    print(value)
"""
LEAVES = """
w = cr.tensor(params["w"], requires_grad=True)
for _ in range(8):
    g = cr.grad(lambda w: cr.mean((cr.tanh(X @ w) - Y) ** 2))(w)
    w.data = w.data - 0.1 * g.detach()
    print(w)
"""
RIGHT = {
    "gan": GAN, "many": MANY, "each": EACH, "newton": NEWTON, "search": SEARCH,
    "reinforce": REINFORCE, "leaves": LEAVES,
}  # fmt: skip


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_other_loops_are_seen_and_not_disturbed(tmp_path, text):
    outcome, printed = run(tmp_path, START + text)
    assert [f.name for f in outcome.report.findings] == []
    assert outcome.is_seen
    assert not any("ended after" in why or "failed" in why for why in why_not(outcome))
    assert printed == plain(written(tmp_path, START + text)).stdout


def test_a_derivative_that_is_taken_once_is_no_training(tmp_path):
    outcome, _ = run(tmp_path, "import chainrule as cr\nprint(cr.grad(lambda x: x**3)(2.0))\n")
    assert not outcome.is_seen
    assert why_not(outcome) == ["no training step was seen"]


MICRO = """
square = lambda w, x: cr.sum((w * x) ** 2)
w = np.array([1.0, -2.0])
for _ in range(2):
    total = 0.0
    for x in (1.0, 2.0, 3.0, 4.0, 5.0):
        total = total + cr.grad(square)(w, x)
    w = w - 0.01 * np.asarray(total)
"""


def test_other_data_at_the_same_parameters_are_no_step(tmp_path):
    outcome, _ = run(tmp_path, START + MICRO)
    assert "the script ended after 1 of 3 steps" in why_not(outcome)


INNER = """
def adapted(p, x, y):
    for _ in range(5):
        g = cr.grad(loss_fn)(p, x, y)
        p = {k: p[k] - 0.1 * g[k] for k in p}
    return loss_fn(p, x, y)


for _ in range(3):
    g = cr.grad(adapted)(params, X, Y)
    params = {k: params[k] - 0.1 * g[k] for k in params}
"""
BY_HAND = """
w, b = [cr.tensor(p, requires_grad=True) for p in (params["w"], params["b"])]
for _ in range(3):
    p = {"w": w, "b": b}
    for _ in range(5):
        g = cr.grad(loss_fn)(p, X, Y)
        p = {k: p[k] - 0.1 * g[k] for k in p}
    loss_fn(p, X, Y).backward()
    for q in (w, b):
        q.data = q.data - 0.1 * q.grad
        q.grad = None
"""


@pytest.mark.parametrize("text", [INNER, BY_HAND])
def test_derivatives_of_which_one_is_taken_are_no_steps(tmp_path, text):
    outcome, _ = run(tmp_path, START + text)
    assert outcome.is_seen
    assert "the script ended after 2 of 3 steps" in why_not(outcome)


@copied
def test_mistakes_of_a_compiled_loop_are_found_in_the_copy(tmp_path):
    outcome, printed = run(tmp_path, START + WHOLE.replace("    optimizer.zero_grad()\n", ""))
    (found,) = [f for f in outcome.report.findings if f.level != "note"]
    assert found.name.code == "not_reset"
    assert found.correction is not None and found.correction.rechecked
    assert len(printed.splitlines()) == 8
    assert "step, compiled" in [row.subject for row in outcome.report.ledger.checked]


@copied
def test_what_cannot_run_again_is_said(tmp_path):
    log = tmp_path / "log.txt"
    writes = f"with open({str(log)!r}, 'w') as file:\n    file.write('begins')\n"
    outcome, _ = run(tmp_path, START.replace(*WRONG) + writes + COMPILED)
    assert any("is compiled, and what it does was not looked at" in w for w in why_not(outcome))
    assert [f.subject for f in outcome.report.findings] == ["Softplus"]
    assert log.read_text(encoding="utf-8") == "begins"


def test_everything_is_put_back(tmp_path):
    before = _Run.__init__, _Run.pull, Jitted.__call__, Jitted.loop
    run(tmp_path, START + SGD)
    assert (_Run.__init__, _Run.pull, Jitted.__call__, Jitted.loop) == before
