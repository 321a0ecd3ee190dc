"""Why a gradient is None or zero: every way to lose one, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DtypeError
from chainrule.explain import why
from tests.explain.lines import marked

X = cr.tensor([[1.0, -1.0]])


def at(mark: str) -> str:
    return marked(__file__, mark)


@pytest.fixture
def w() -> cr.Tensor:
    return cr.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)


@pytest.fixture
def b() -> cr.Tensor:
    return cr.tensor([1.0, 2.0], requires_grad=True)


# --- cut, seen afterwards


def test_detached_while_the_original_is_alive(w, b):
    h = (X @ w).relu()  # relu line
    z = h.detach()  # detach line
    loss = (z * b).sum()  # use line
    answer = why(loss, w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "detach()", at("detach line"))
    assert [s.split(":  ")[0] for s in answer.path] == [
        f"'matmul' at {at('relu line')}",
        f"'relu' at {at('relu line')}",
        f"'detach()' at {at('detach line')}",
        f"'mul' at {at('use line')}",
    ]
    assert str(answer).startswith(
        "The gradient of p is None: detach() took the result of 'relu' off the graph at\n"
        f"    {at('detach line')}:  z = h.detach()  # detach line\nFrom p towards the loss:\n"
    )


def test_detached_and_the_original_is_gone(w, b):
    h = (X @ w).relu()  # gone relu
    h = h.detach()  # gone detach
    answer = why((h * b).sum(), w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "detach()", at("gone detach"))
    assert f"the result of 'relu' (made at {at('gone relu')})" in answer.reason
    assert "most likely" in answer.reason
    assert "why(lambda: loss_of(batch), p)" in answer.advice


def test_data_of_a_result(w, b):
    h = (X @ w).relu()
    answer = why((h.data * b).sum(), w)  # .data line
    assert (answer.kind, answer.op, answer.where) == ("cut", ".data", at(".data line"))


def test_the_parameter_itself_detached(w, b):
    answer = why((w.detach() * b).sum(), w)  # itself
    assert (answer.kind, answer.op, answer.where) == ("cut", "mul", at("itself"))
    assert answer.reason.startswith("The values of p enter 'mul' as a constant")


def test_a_dead_end(w, b):
    h = X @ w  # dead end
    answer = why((b * float(h.sum())).sum(), w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "matmul", at("dead end"))
    assert "nothing in the loss's graph comes of that" in answer.reason


def test_another_parameter_in_its_place(w):
    other = cr.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)  # other
    answer = why((X @ other).sum(), w)
    assert (answer.kind, answer.where) == ("replaced", at("other"))
    assert "p.data = ..." in answer.advice


def test_never_used(w, b):
    answer = why((b * b).sum(), w)
    assert answer.kind == "unused"
    assert answer.reason == "The gradient of p is None: no recorded op that is alive used p."


def test_a_parameter_that_wants_none(b):
    plain = cr.tensor([1.0, 2.0])
    answer = why((b * plain).sum(), plain)
    assert answer.kind == "constant"
    assert "requires_grad is False" in answer.reason
    cut = (b * 2.0).detach()  # wants none
    answer = why((b * cut).sum(), cut)
    assert (answer.op, answer.where) == ("detach()", at("wants none"))


def test_a_loss_without_a_graph(w):
    answer = why((X @ w).sum().detach(), w)  # lost loss
    assert (answer.kind, answer.op, answer.where) == ("no graph", "detach()", at("lost loss"))
    with cr.no_grad():
        loss = (X @ w).sum()
    answer = why(loss, w)
    assert answer.kind == "no graph"
    assert "no_grad()" in answer.reason


def test_after_backward_only_the_path_is_left(w):
    loss = (X @ w - 100.0).relu().sum()  # whole path
    loss.backward()  # this backward
    answer = why(loss, w)
    assert (answer.kind, answer.where) == ("freed", at("this backward"))
    assert [s.split("'")[1] for s in answer.path] == ["matmul", "sub", "relu", "sum"]


# --- cut, seen by running the function once more


def test_rerun_names_detach(w, b):
    def loss():
        h = (X @ w).relu()
        h = h.detach()  # rerun detach
        return (h * b).sum()  # rerun use

    answer = why(loss, w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "detach()", at("rerun detach"))
    assert answer.reason == (
        "The gradient of p is lost by detach(): what it gave enters 'mul' as a constant."
    )
    assert answer.path[-1].startswith(f"'mul' at {at('rerun use')}")


def test_rerun_names_no_grad(w, b):
    def loss():
        with cr.no_grad():
            h = (X @ w).relu()  # unrecorded
        return (h * b).sum()

    answer = why(loss, w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "no_grad()", at("unrecorded"))
    assert answer.reason == (
        "The gradient of p is lost at 'matmul', which ran under no_grad(), which records nothing:"
    )


def test_rerun_names_item(w, b):
    def loss():
        scale = (X @ w).sum().item()  # item line
        return (b * scale).sum()  # number back

    answer = why(loss, w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "item()", at("item line"))
    assert answer.reason == (
        "The gradient of p is lost by item(): it gives plain numbers, which know no graph."
    )
    assert answer.path[0].startswith(f"the number -5 enters 'mul' at {at('number back')}")


def test_rerun_names_a_comparison(w, b):
    def loss():
        return (b * (X @ w > 0)).sum()  # comparison

    answer = why(loss, w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "greater", at("comparison"))
    assert "has no derivative with respect to its input 0" in answer.reason


def test_rerun_names_an_integer_cast(w, b):
    def loss():
        return (b * (X @ w).astype(np.int64)).sum()  # cast

    answer = why(loss, w)
    assert (answer.kind, answer.op, answer.where) == ("cut", "astype", at("cast"))
    assert "made int64 numbers, which have no derivative" in answer.reason


def test_rerun_names_an_unused_branch(w, b):
    def loss():
        X @ w  # branch
        return b.sum()

    answer = why(loss, w)
    assert (answer.kind, answer.op, answer.where) == ("unused", "matmul", at("branch"))
    assert "the loss does not depend on what came of it" in answer.reason


def test_rerun_says_that_p_was_never_used(w, b):
    answer = why(lambda: b.sum(), w)
    assert answer.kind == "unused"
    assert answer.reason == "The gradient of p is None: the function never used p."


def test_rerun_wants_a_tensor(w):
    def loss():
        return float((X @ w).sum())  # taken

    with pytest.raises(DtypeError) as e:
        why(loss, w)
    assert "which has no graph; let it return the loss itself" in str(e.value)
    assert at("taken") in str(e.value)


# --- zero


ZERO = {
    "relu": (lambda w: (X @ w - 100.0).relu(), "relu", "whose input is nowhere positive"),
    "where": (lambda w: cr.where(X > 5, X @ w, 0.0), "where", "chose the other argument"),
    "mul": (lambda w: (X @ w) * 0.0, "mul", "whose other argument is 0 everywhere (the number: 0)"),
    "matmul": (lambda w: (X * 0.0) @ w, "matmul", "whose other argument is 0 everywhere"),
    "clip below": (lambda w: (X @ w).clip(50, 60), "at_least", "beyond the lower bound"),
    "clip above": (lambda w: (X @ w).clip(None, -60), "at_most", "beyond the upper bound"),
    "sigmoid": (lambda w: (X @ w + 1e3).sigmoid(), "sigmoid", "is saturated"),
    "tanh": (lambda w: (X @ w + 1e3).tanh(), "tanh", "is saturated"),
    "floor": (lambda w: cr.floor(X @ w), "floor", "constant in pieces"),
    "maximum": (lambda w: cr.maximum(X @ w, 100.0), "maximum", "never chose this argument"),
    "exp": (lambda w: (X @ w - 1e3).exp(), "exp", "underflowed"),
    "pow": (lambda w: (X @ w) ** 0.0, "pow", "to the power of (the number: 0)"),
}


@pytest.mark.parametrize("case", ZERO)
def test_zero(case, w):
    f, op, words = ZERO[case]
    loss = f(w).sum()
    answer = why(loss, w)
    assert (answer.kind, answer.op) == ("zero", op), str(answer)
    assert answer.reason.startswith(
        f"The gradient of p is exactly 0: it became so in the backward of '{op}', "
    )
    assert words in answer.reason
    assert answer.where.startswith(__file__)
    assert w.grad is None
    loss.backward()  # the graph is as it was
    assert w.grad is not None
    assert not w.grad.detach().numpy().any()


def test_zero_by_underflow(w):
    answer = why(((X @ w) * 1e-30 * 1e-30).sum(), w)
    assert (answer.kind, answer.op) == ("zero", "mul")
    assert "1e-30" in answer.reason


def test_zero_by_cancelling(w):
    answer = why((w - w).sum(), w)  # cancels
    assert (answer.kind, answer.op, answer.where) == ("zero", "sub", at("cancels"))
    assert "contributions of several uses add up to zero at p itself" in answer.reason


def test_zero_on_several_paths(w):
    h = X @ w
    answer = why(((h - 100.0).relu() + (h * 0.0)).sum(), w)
    assert answer.kind == "zero"
    assert answer.advice.startswith("1 other path ended too, at: '")


def test_it_flows(w):
    answer = why((X @ w).sum(), w)
    assert answer.kind == "flows"
    assert answer.reason == "The gradient reaches p: its largest element is 1."
    assert "no backward has run on this graph" in answer.advice


def test_a_long_path_is_shown_by_its_ends(w):
    h = X @ w
    for _ in range(50):
        h = h * 1.5
    answer = why(h.relu().sum(), w)
    assert len(answer.path) == 53
    assert "  ... 41 more ..." in str(answer)
