"""The first NaN: trapped while it happens, and searched for afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import GradientError, NonFiniteError
from chainrule.explain import first_bad, trap_nan
from tests.explain.lines import marked


def at(mark: str) -> str:
    return marked(__file__, mark)


def test_trap_names_op_line_ranges_element():
    x = cr.tensor([1.0, 4.0, -2.0], requires_grad=True)
    with trap_nan() as trap, pytest.raises(NonFiniteError) as e:
        y = x * 0.5
        y.log()  # trap log
    found = trap.bad_op
    assert found is not None
    assert (found.kind, found.op, found.phase) == ("NaN", "log", "forward")
    assert (found.where, found.index) == (at("trap log"), (2,))
    assert str(e.value) == (
        f"NaN made by 'log' at\n    {at('trap log')}:  y.log()  # trap log\n"
        "  input 0: float32 (3,): -1 to 2\n"
        "  result: float32 (3,): -0.693147 to 0.693147 where finite, 1 of 3 NaN\n"
        "  first at [2]: log(-1) = nan"
    )


def test_trap_lets_infinities_pass_unless_asked():
    x = cr.tensor([1.0, 0.0], requires_grad=True)
    with trap_nan():
        x.log()
    with trap_nan(inf=True) as trap, pytest.raises(NonFiniteError, match=r"Inf made by 'log'"):
        x.log()
    assert trap.bad_op is not None
    assert trap.bad_op.element == "log(0) = -inf"


def test_trap_tells_where_the_infinity_came_from():
    x = cr.tensor([1.0, 0.0], requires_grad=True)
    with trap_nan() as trap, pytest.raises(NonFiniteError):
        y = x.log()  # cause
        y * x
    assert trap.bad_op is not None and trap.bad_op.cause is not None
    assert trap.bad_op.op == "mul"
    assert (trap.bad_op.cause.op, trap.bad_op.cause.where) == ("log", at("cause"))


def test_trap_in_backward_names_the_forward_line():
    x = cr.tensor([4.0, 0.0], requires_grad=True)
    with trap_nan() as trap, pytest.raises(NonFiniteError):
        y = x * x  # back
        y.sqrt().sum().backward()
    found = trap.bad_op
    assert found is not None
    assert (found.op, found.phase, found.where) == ("mul", "backward", at("back"))
    assert found.element == "the gradient of input 0 is nan (input 0 0, input 1 0, cotangent inf)"
    assert str(found).startswith("NaN made in the backward of 'mul', whose forward is at\n")


def test_trap_in_forward_mode_names_the_op_and_its_line():
    def f(x: cr.Tensor) -> cr.Tensor:
        y = x * 3.0 - 3.0
        return y.sqrt() * y  # tangent of the root: infinite; of the product: NaN

    x, t = cr.tensor([2.0, 1.0]), cr.tensor([1.0, 1.0])
    with trap_nan() as trap, pytest.raises(NonFiniteError) as e:
        cr.jvp(f, (x,), (t,))
    found = trap.bad_op
    assert found is not None
    mark = at("tangent of the root: infinite; of the product: NaN")
    assert (found.kind, found.op, found.phase, found.where) == ("NaN", "mul", "tangent", mark)
    assert found.index == (1,)
    assert str(e.value).startswith(
        f"NaN made in the forward-mode derivative of 'mul' at\n    {mark}:"
    )
    with trap_nan(inf=True) as trap, pytest.raises(NonFiniteError):
        cr.jvp(f, (x,), (t,))
    assert trap.bad_op is not None
    assert (trap.bad_op.kind, trap.bad_op.op) == ("Inf", "sqrt")
    assert trap.bad_op.element == "the tangent is inf (tangent 0 3)"


def test_trap_in_forward_mode_says_that_the_tangent_came_bad():
    with trap_nan() as trap, pytest.raises(NonFiniteError):
        cr.jvp(cr.sin, (cr.tensor([2.0]),), (cr.tensor([np.nan]),))
    assert trap.bad_op is not None
    assert trap.bad_op.note == "A tangent that arrived there was bad already."
    with trap_nan(inf=True):
        cr.jvp(cr.sin, (cr.tensor([2.0]),), (cr.tensor([1.0]),))


def test_trap_passes_what_is_repaired_within_an_op():
    """-inf minus -inf happens inside; what comes out is finite."""
    x = cr.tensor([[-np.inf, -np.inf], [0.0, 1.0]], requires_grad=True)
    with trap_nan():
        cr.softmax(x).sum().backward()
    assert x.grad is not None
    assert np.isfinite(x.grad.numpy()).all()


def test_trap_finds_products_of_matrices_and_einsum():
    a = cr.tensor([[np.inf, 1.0]], requires_grad=True)
    b = cr.tensor([[0.0], [1.0]])
    for product in (lambda: a @ b, lambda: cr.einsum("ij,jk->ik", a, b)):
        with trap_nan() as trap, pytest.raises(NonFiniteError):
            product()
        assert trap.bad_op is not None
        assert trap.bad_op.op in ("matmul", "einsum")


def test_trap_finds_what_a_users_function_makes():
    class Bad(cr.Function):
        @staticmethod
        def forward(ctx, x):
            return cr.tensor(np.full(x.shape, np.nan, np.float32))

        @staticmethod
        def backward(ctx, g):
            return g

    x = cr.tensor([1.0], requires_grad=True)
    with trap_nan() as trap, pytest.raises(NonFiniteError):
        Bad.apply(x)
    assert trap.bad_op is not None
    assert trap.bad_op.op == "Bad"


def test_trap_notices_nan_in_data_where_it_becomes_one_number():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    data = cr.tensor([np.nan, 1.0], dtype=np.float32)
    with trap_nan() as trap, pytest.raises(NonFiniteError):
        y = x * data  # data
        y.sum()
    assert trap.bad_op is not None
    assert (trap.bad_op.op, trap.bad_op.where) == ("constant", at("data"))


def test_trap_is_off_afterwards():
    x = cr.tensor([-1.0], requires_grad=True)
    with pytest.raises(NonFiniteError), trap_nan():
        x.log()
    assert np.isnan(x.log().item())


def test_trap_changes_no_number():
    x = cr.tensor(np.linspace(0.1, 2, 12).reshape(3, 4), requires_grad=True)

    def gradient() -> list[object]:
        x.grad = None
        (cr.softmax(x @ x.mT).log() * x.sum()).sum().backward()
        assert x.grad is not None
        return x.grad.tolist()

    plain = gradient()
    with trap_nan(inf=True):
        assert gradient() == plain


def test_first_bad_of_log_of_zero():
    """CASES A7: nothing was switched on."""
    x = cr.tensor([1.0, 0.0, 3.0], requires_grad=True)
    h = x * 2.0
    y = h.log()  # deep log
    z = (y * h) + 1.0  # deep mul
    found = first_bad((z * z).mean())
    assert found is not None and found.cause is not None
    assert (found.op, found.where, found.index) == ("mul", at("deep mul"), (1,))
    assert found.element == "mul(-inf, 0) = nan"
    assert (found.cause.op, found.cause.where) == ("log", at("deep log"))
    assert found.cause.element == "log(0) = -inf"
    assert "The infinity that it met:\n  Inf made by 'log' at" in str(found)


def test_first_bad_computes_what_was_not_kept():
    """Sums keep nothing, and nobody holds what is in between."""
    x = cr.tensor([1e30, 1.0], requires_grad=True)
    found = first_bad(((x * 1e30 - x * 1e30) + 1.0).sum())  # inf - inf
    assert found is not None and found.cause is not None
    assert (found.op, found.cause.op) == ("sub", "mul")
    assert found.element == "sub(inf, inf) = nan"


def test_first_bad_says_that_it_was_the_data():
    x = cr.tensor([[1.0, 2.0]], requires_grad=True)
    found = first_bad((x @ cr.tensor([[1.0], [np.nan]])).sum())  # bad data
    assert found is not None
    assert (found.op, found.where, found.index) == ("constant", at("bad data"), (1, 0))
    assert str(found).startswith("NaN was there before any op: in data that is used at\n")


def test_first_bad_says_that_it_was_the_parameter():
    w = cr.tensor([np.nan, 2.0], requires_grad=True)  # bad leaf
    found = first_bad((w * w).sum())
    assert found is not None
    assert (found.op, found.where) == ("leaf", at("bad leaf"))
    assert str(found).startswith("NaN was there before any op: in the parameter made at\n")


def test_first_bad_does_not_believe_a_parameter_that_became_nan_later():
    w = cr.tensor([4.0, 0.0], requires_grad=True)
    loss = ((w + 0.0).log() * w).sum()  # culprit
    w.data = np.array([np.nan, np.nan], np.float32)
    found = first_bad(loss)
    assert found is not None
    assert (found.op, found.where) == ("mul", at("culprit"))


def test_first_bad_says_what_it_does_not_know():
    """The table's infinite row may have been there, or have come later: it was not kept."""
    table = cr.tensor([[1.0], [np.inf]], requires_grad=True)
    rows = cr.take(table, np.array([1, 0]), axis=0) + 1.0  # lookup
    found = first_bad((rows * cr.tensor([[0.0], [1.0]])).sum())
    assert found is not None and found.cause is not None
    assert (found.op, found.cause.op) == ("mul", "add")
    assert "input 0: float32 (2, 1), not kept" in str(found.cause)
    assert found.cause.note.startswith(
        f"Or before it, by something whose value was not kept: 'take' at {at('lookup')}"
    )


def test_first_bad_looks_at_the_backward_pass_of_a_finite_loss():
    x = cr.tensor([4.0, 0.0], requires_grad=True)
    y = x * x  # product
    found = first_bad((y.sqrt() + x).sum())
    assert found is not None
    assert (found.kind, found.phase) == ("NaN", "backward")
    assert (found.op, found.where, found.index) == ("mul", at("product"), (1,))


def test_first_bad_is_none_where_all_is_well():
    x = cr.tensor([4.0, 1.0], requires_grad=True)
    assert first_bad(x.sqrt().sum()) is None


def test_first_bad_works_after_the_backward_of_a_loss_that_is_not_finite():
    def step(x: cr.Tensor) -> cr.Tensor:
        return (x.log() * x * 2.0).sum()  # post-mortem

    x = cr.tensor([1.0, 0.0, 3.0], requires_grad=True)
    loss = step(x)
    before = first_bad(loss)
    loss.backward()
    assert before is not None
    assert (before.op, before.where) == ("mul", at("post-mortem"))
    assert first_bad(loss) == before
    kept = cr.tensor([1.0, 0.0, 3.0], requires_grad=True)
    step(kept).backward(retain_graph=True)
    assert x.grad is not None and kept.grad is not None
    assert np.array_equal(x.grad.numpy(), kept.grad.numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_only_the_graph_of_a_loss_that_is_not_finite_is_left(dtype: type[np.generic]):
    cases = (([1.0], False), ([np.inf], True), ([np.nan], True), ([np.nan, 1.0], False))
    for values, left in cases:  # many numbers are not looked through
        x = cr.tensor(np.array(values, dtype), requires_grad=True)
        y = x * x
        g = np.ones(len(values), dtype)
        y.backward(g)
        if left:
            y.backward(g)
        else:
            with pytest.raises(GradientError, match="second time: this graph was freed by"):
                y.backward(g)


def test_first_bad_counts_infinities_on_request():
    x = cr.tensor([1.0, 0.0], requires_grad=True)
    loss = cr.where(x > 0, x.log(), 0.0).sum()
    assert first_bad(loss) is None
    found = first_bad(loss, inf=True)
    assert found is not None
    assert (found.kind, found.op) == ("Inf", "log")


def test_first_bad_needs_the_graph():
    x = cr.tensor([1.0], requires_grad=True)
    loss = x.log().sum()
    loss.backward()  # freed here
    with pytest.raises(GradientError) as e:
        first_bad(loss)
    assert f"freed by the backward at {at('freed here')}, as that of any finite" in str(e.value)
    assert "retain_graph=True" in str(e.value)
    with pytest.raises(GradientError, match="requires no gradient"):
        first_bad(cr.tensor(1.0))


def test_first_bad_changes_nothing():
    x = cr.tensor([1.0, 0.0], requires_grad=True)
    loss = (x.log() * x).sum()
    first_bad(loss)
    assert x.grad is None
    loss.backward()
    assert x.grad is not None
