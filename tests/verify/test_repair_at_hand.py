"""What stands at hand, and was not taken: the right axis for a function of one's own, the cotangent
for a value that is handed on, a number of a divisor, an attribute of the call, the other number."""

# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.test_repair_values_known import draw, told

pytestmark = sampled_file(one_in=12)


torch = pytest.importorskip("torch")
F: Any = torch.nn.functional


def from_the_end(x: Any, axis: int) -> Any:
    return np.flip(np.cumsum(np.flip(x, axis=axis), axis=axis), axis=axis)


def total(x: Any) -> Any:
    return np.cumsum(np.sin(x), axis=1)


def total_backward(g: Any, x: Any) -> Any:
    s = from_the_end(g, 0)
    return s * np.cos(x)


def test_an_axis_is_told_where_it_is_handed_to_a_function_of_ones_own() -> None:
    code, line, after = told(verify.pair(total, total_backward, draw(3, 6)))
    assert (code, line) == ("wrong_axis", "s = from_the_end(g, 0)")
    assert after == "s = from_the_end(g, 1)"


def tempered(s: Any, tau: Any) -> Any:
    return np.log(np.exp(s / tau[:, None]).sum(axis=1)) * tau


def tempered_backward(g: Any, s: Any, tau: Any) -> Any:
    e = np.exp(s / tau[:, None])
    p = e / e.sum(axis=1, keepdims=True)
    ds = g[:, None] * p
    spread = np.log(e.sum(axis=1)) - (p * s).sum(axis=1) / tau
    dtau = spread
    return ds, dtau


def test_the_cotangent_comes_in_where_a_value_is_called_a_gradient() -> None:
    tau = np.random.default_rng(1).uniform(0.6, 1.9, size=5)
    code, line, after = told(verify.pair(tempered, tempered_backward, draw(5, 7), tau))
    assert (code, line, after) == ("ignores_cotangent", "dtau = spread", "dtau = spread * g")


class Pooled:
    def __init__(self) -> None:
        self.window = (2, 3)

    def forward(self, x: Any) -> Any:
        a, b = self.window
        n, h, w = x.shape
        return x.reshape(n, h // a, a, w // b, b).mean(axis=(2, 4))

    def backward(self, g: Any) -> Any:
        a, b = self.window
        wide = np.repeat(np.repeat(g, a, axis=1), b, axis=2)
        return wide / b


def test_a_number_that_lacks_in_a_divisor_is_put_beside_the_other() -> None:
    code, line, after = told(verify.pair(Pooled(), draw(2, 4, 9)))
    assert (code, line, after) == ("factor", "return wide / b", "return wide / (b * a)")


class Volume(cr.Function):
    """log |det w| of each of some matrices."""

    @staticmethod
    def forward(ctx: Any, w: Any) -> Any:
        ctx.save_for_backward(w)
        return cr.asarray(np.linalg.slogdet(w.numpy())[1])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (w,) = ctx.saved_tensors
        back = np.linalg.inv(w.numpy())
        return cr.asarray(g.numpy()[:, None, None] * back)


def test_of_stacked_matrices_the_factor_is_transposed() -> None:
    w = cr.tensor(draw(4, 3, 3) + 2 * np.eye(3), requires_grad=True)
    code, line, after = told(verify.function(Volume, w))
    assert code == "transposed" and line.startswith("return cr.asarray(")
    assert "* back.swapaxes(-1, -2)" in after


class Stretched(torch.autograd.Function):
    """Samples between others, along the last axis."""

    @staticmethod
    def forward(ctx: Any, x: Any, size: int) -> Any:
        n = x.shape[-1]
        at = torch.arange(size) * (n - 1) / (size - 1)
        low = at.floor().long().clamp(max=n - 2)
        share = (at - low).to(x.dtype)
        ctx.save_for_backward(low, share)
        ctx.n = n
        return x[..., low] * (1 - share) + x[..., low + 1] * share

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        low, share = ctx.saved_tensors
        dx = g.new_zeros(*g.shape[:-1], ctx.n)
        dx.index_add_(-1, low, g * (1 - share))
        dx[..., low + 1] += g * share
        return dx, None


def test_equal_indices_of_another_axis_are_added_up() -> None:
    x = torch.tensor(draw(2, 3, 5), requires_grad=True)
    code, line, after = told(verify.function(Stretched, x, 9))
    assert code in ("overwritten", "region") and line == "dx[..., low + 1] += g * share"
    assert after == "dx.index_add_(-1, low + 1, g * share)"


class Slope(cr.Function):
    """A switch whose slope may be another one for each call."""

    slope = 1.7

    @staticmethod
    def forward(ctx: Any, x: Any, slope: Any = None) -> Any:
        ctx.slope = Slope.slope if slope is None else slope
        ctx.save_for_backward(x)
        return cr.tanh(ctx.slope * x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        k = Slope.slope
        return g * k * (1 - cr.tanh(k * x) ** 2), None


def test_what_the_call_was_made_with_is_on_its_object() -> None:
    x = cr.tensor(draw(3, 4), requires_grad=True)
    assert verify.function(Slope, x, 1.7).ok
    code, line, after = told(verify.function(Slope, x, 1.2))
    assert code in ("wrong_value", "stale")
    assert (line, after) == ("k = Slope.slope", "k = ctx.slope")


def shifted(x: Any, w: Any, before: int, behind: int) -> Any:
    wide = np.pad(x, ((0, 0), (before, behind)))
    return sum(wide[:, k : k + x.shape[1]] * w[k] for k in range(len(w)))


def smooth(x: Any, w: Any) -> Any:
    before = (len(w) - 1) // 2
    behind = len(w) - 1 - before
    return shifted(x, w, before, behind)


def smooth_backward(g: Any, x: Any, w: Any) -> Any:
    before = (len(w) - 1) // 2
    behind = len(w) - 1 - before
    dx = shifted(g, w[::-1], before, behind)
    wide = np.pad(x, ((0, 0), (before, behind)))
    dw = np.stack([(wide[:, k : k + x.shape[1]] * g).sum() for k in range(len(w))])
    return dx, dw


def test_two_numbers_handed_to_a_function_change_places() -> None:
    code, line, after = told(verify.pair(smooth, smooth_backward, draw(3, 8), draw(4, seed=1)))
    assert code in ("wrong_value", "size", "lengths")
    assert line == "dx = shifted(g, w[::-1], before, behind)"
    assert after.startswith("dx = shifted(g, w[::-1], behind, b")


class Biased(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, b: Any) -> Any:
        ctx.n = b.shape[0]
        return x + b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g.reshape(ctx.n, -1).sum(1)


def test_rows_for_columns_are_an_axis_and_no_transposition() -> None:
    given = [torch.tensor(draw(*s), requires_grad=True) for s in ((4, 3), (3,))]
    code, line, after = told(verify.function(Biased, *given))
    assert (code, line) == ("wrong_axis", "return g, g.reshape(ctx.n, -1).sum(1)")
    assert after == "return g, g.reshape(-1, ctx.n).sum(0)"


class Normed(torch.autograd.Function):
    """Batch norm of images, as large as they come."""

    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, shift: Any) -> Any:
        std = torch.sqrt(x.var(dim=(0, 2, 3), unbiased=False, keepdim=True) + 1e-5)
        xhat = (x - x.mean(dim=(0, 2, 3), keepdim=True)) / std
        ctx.save_for_backward(xhat, std, gain)
        return xhat * gain.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        xhat, std, gain = ctx.saved_tensors
        n, c, h, w = g.shape
        shift_bar, gain_bar = g.sum(dim=(0, 2, 3)), (g * xhat).sum(dim=(0, 2, 3))
        scale = gain.view(1, c, 1, 1) / std
        x_bar = scale * (g - shift_bar.view(1, c, 1, 1) / (n * h * w))
        return x_bar, gain_bar, shift_bar


def test_a_large_image_is_searched_at_a_small_one() -> None:
    x = torch.tensor(draw(10, 4, 6, 6), requires_grad=True)
    given = [torch.tensor(1 + 0.1 * draw(4, seed=s), requires_grad=True) for s in (1, 2)]
    code, line, after = told(verify.function(Normed, x, *given))
    assert code in ("missing_term", "partly_detached")
    assert line.startswith("x_bar = scale *") and "xhat * (g * xhat).mean(" in after


def centred(x: Any, gain: Any) -> Any:
    ivar = 1.0 / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    xhat = (x - x.mean(axis=1, keepdims=True)) * ivar
    return xhat * gain, xhat, ivar


def centred_backward(g: Any, cache: Any, gain: Any) -> Any:
    xhat, ivar = cache
    n = xhat.shape[1]
    dgain = (g * xhat).sum(axis=0)
    dxhat = g * gain
    dx = n * dxhat
    dx = dx - xhat * (dxhat * xhat).sum(axis=1, keepdims=True)
    dx = dx * ivar / n
    return dx, dgain


def test_a_term_is_missing_where_there_are_terms() -> None:
    def forward(x: Any, gain: Any) -> Any:
        y, xhat, ivar = centred(x, gain)
        return y, (xhat, ivar)

    report = verify.pair(forward, centred_backward, draw(4, 6), 1 + 0.3 * draw(6, seed=1))
    code, line, after = told(report)
    assert code in ("missing_term", "partly_detached")
    assert line == "dx = dx - xhat * (dxhat * xhat).sum(axis=1, keepdims=True)"
    assert ".mean(" in after or ".sum(" in after.replace("(dxhat * xhat).sum(", "")


def softmax(s: Any, axis: int) -> Any:
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def matched(a: Any, b: Any) -> Any:
    s = a @ b.T
    k = np.arange(len(s))
    rows = -np.log(softmax(s, 1)[k, k]).mean()
    columns = -np.log(softmax(s, 0)[k, k]).mean()
    d_rows = (softmax(s, 1) - np.eye(len(s))) / len(s)
    d_columns = (softmax(s, 1) - np.eye(len(s))) / len(s)
    ds = d_rows + d_columns
    return rows + columns, ds @ b, ds.T @ a


def test_of_two_lines_that_say_the_same_the_second_was_to_be_another() -> None:
    code, line, after = told(verify.pair(matched, draw(5, 3), draw(5, 3, seed=1)))
    assert code == "wrong_axis" and line.startswith("d_columns = ")
    assert after == "d_columns = (softmax(s, 0) - np.eye(len(s))) / len(s)"


class Added:
    """Words and places, the gradients of the places in rows that are read once."""

    def __init__(self) -> None:
        self.params = {"words": draw(9, 4), "places": draw(7, 4, seed=1)}

    def loss(self, ids: Any, y: Any) -> Any:
        p = self.params
        n = ids.shape[1]
        off = p["words"][ids] + p["places"][:n] - y
        grads = {k: np.zeros_like(v) for k, v in p.items()}
        np.add.at(grads["words"], ids, off)
        rows = grads["places"][np.arange(n)]
        rows += off.sum(axis=0)
        return 0.5 * np.sum(off**2), grads


def test_what_is_added_to_a_copy_is_added_where_it_came_from() -> None:
    ids = np.random.default_rng(5).integers(0, 9, size=(3, 5))
    code, line, after = told(verify.pair(Added().loss, ids, draw(3, 5, 4, seed=2)))
    assert (code, line) == ("dropped", "rows += off.sum(axis=0)")
    assert after == 'grads["places"][np.arange(n)] += off.sum(axis=0)'


def shares(s: Any) -> Any:
    p = softmax(s, 1)
    return p, p


def shares_backward(g: Any, p: Any) -> Any:
    ds = np.empty_like(g)
    for i, row in enumerate(p):
        jacobian = np.diag(row * (1 - row))
        ds[i] = jacobian @ g[i]
    return ds


def test_a_jacobian_has_more_than_its_diagonal() -> None:
    code, line, after = told(verify.pair(shares, shares_backward, draw(4, 6)))
    assert code == "missing_term" and line == "jacobian = np.diag(row * (1 - row))"
    assert after == "jacobian = np.diag(row) - np.outer(row, row)"


class Chosen(cr.Function):
    """Probabilities, and the entropy of each row of them."""

    @staticmethod
    def forward(ctx: Any, s: Any) -> Any:
        p = softmax(s.numpy(), 1)
        ctx.p, ctx.h = p, -(p * np.log(p)).sum(axis=1)
        return cr.tensor(p), cr.tensor(ctx.h)

    @staticmethod
    def backward(ctx: Any, g_p: Any, g_h: Any) -> Any:
        p, g = ctx.p, g_p.numpy()
        d = p * (g - (g * p).sum(axis=1, keepdims=True))
        d -= p * (np.log(p) + ctx.h[:, None])
        return cr.tensor(d)


def test_the_cotangent_of_another_result_comes_in_where_its_term_is() -> None:
    code, line, after = told(verify.function(Chosen, cr.tensor(draw(5, 4), requires_grad=True)))
    assert code == "ignores_cotangent" and line.startswith("d -= p *")
    assert after.endswith("* g_h.numpy()[:, None]")


def in_pairs(a: Any) -> Any:
    flat = a.ravel(order="K")
    return (flat[0::2] + 1j * flat[1::2]).reshape(len(a), -1)


class Turned(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        z = in_pairs(np.ascontiguousarray(x.numpy())) * 1j
        return cr.tensor(np.stack([z.real, z.imag], axis=-1).reshape(len(z), -1))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        g = in_pairs(g.numpy()) * -1j
        return cr.tensor(np.stack([g.real, g.imag], axis=-1).reshape(len(g), -1))


def test_a_cotangent_is_laid_out_before_it_is_read_in_its_memorys_order() -> None:
    code, line, after = told(verify.function(Turned, cr.tensor(draw(5, 8), requires_grad=True)))
    assert code == "contiguity" and line == "g = in_pairs(g.numpy()) * -1j"
    assert after == "g = in_pairs(np.ascontiguousarray(g.numpy())) * -1j"


def solved(a: Any, b: Any) -> Any:
    x = np.linalg.solve(a, b)
    return x, x


def solved_backward(g: Any, x: Any, a: Any) -> Any:
    db = np.linalg.solve(a, g)
    da = -db @ x.swapaxes(-1, -2)
    return da, db


def test_a_stack_of_systems_is_transposed_where_it_is_solved() -> None:
    a = draw(2, 4, 4) + 4 * np.eye(4)
    code, line, after = told(verify.pair(solved, solved_backward, a, draw(2, 4, 3, seed=1)))
    assert (code, line) == ("transposed", "db = np.linalg.solve(a, g)")
    assert after == "db = np.linalg.solve(a.swapaxes(-1, -2), g)"
