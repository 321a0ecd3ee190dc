"""Hand-written pairs: however they are written, what is right passes, what is wrong is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from chainrule.errors import ConfigError, GradientError
from chainrule.verify.arrays.convention import Slot
from chainrule.verify.arrays.naming_conventions import gradient_of, is_cotangent
from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.copies import twin
from chainrule.verify.subject import values
from tests.ops.sample import apart
from tests.verify.arrays.agreement import B, W, X, agrees, line_of

# --- Ways of writing a backward ------------------------------------------------------------------


def linear(x: Any, w: Any, b: Any) -> Any:
    return x @ w + b


def cached(x: Any, w: Any, b: Any) -> Any:
    return x @ w + b, (x, w)


def first(g: Any, x: Any, w: Any, b: Any) -> Any:
    return g @ w.T, x.T @ g, g.sum(0)


def last(x: Any, w: Any, b: Any, dout: Any) -> Any:
    return g_first(dout, x, w)


def g_first(dout: Any, x: Any, w: Any) -> Any:
    return dout @ w.T, x.T @ dout, dout.sum(0)


def from_cache(dout: Any, cache: Any) -> Any:
    x, w = cache
    return g_first(dout, x, w)


def by_name(grad_output: Any, w: Any, x: Any) -> Any:
    return {"dw": x.T @ grad_output, "db": grad_output.sum(0), "dx": grad_output @ w.T}


def grads_named(upstream: Any, x: Any, w: Any) -> Any:
    return {"grad_x": upstream @ w.T, "w_grad": x.T @ upstream, "b": upstream.sum(0)}


def keyword_only(x: Any, *, dy: Any, w: Any) -> Any:
    return g_first(dy, x, w)


def anything(*args: Any) -> Any:
    return g_first(*args[:3])


def unnamed(p: Any, q: Any, r: Any, s: Any) -> Any:
    return g_first(p, q, r)


STYLES = [
    (linear, first),
    (linear, last),
    (linear, by_name),
    (linear, grads_named),
    (linear, keyword_only),
    (linear, anything),
    (linear, unnamed),
    (cached, from_cache),
]


@pytest.mark.parametrize(("forward", "backward"), STYLES, ids=lambda f: f.__name__)
def test_a_backward_is_called_as_it_is_written(forward: Any, backward: Any):
    assert agrees(subject_of_pair(forward, backward, (X, W, B)))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def sigmoid_twice(x: Any) -> Any:
    out = 1 / (1 + np.exp(-x))
    return out, out


def softmax_twice(x: Any) -> Any:
    e = np.exp(x)
    p = e / e.sum(1, keepdims=True)
    return p, p


def halves(x: Any) -> Any:
    return x[:, :2] * 2, x[:, 2:] ** 2


def masked(x: Any) -> Any:
    mask = x > 0
    return x * mask, mask


OTHERS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (sigmoid, lambda g, out: g * out * (1 - out)),
    (sigmoid, lambda grad, y: grad * y * (1 - y)),
    (sigmoid_twice, lambda grad_out, out: grad_out * out * (1 - out)),
    (softmax_twice, lambda dp, p: p * (dp - np.sum(dp * p, 1, keepdims=True))),
    (softmax_twice, lambda p, p_bar: p * (p_bar - np.sum(p_bar * p, 1, keepdims=True))),
    (halves, lambda g1, g2, x: np.concatenate([2 * g1, 2 * x[:, 2:] * g2], 1)),
    (halves, lambda grads, x: np.concatenate([2 * grads[0], 2 * x[:, 2:] * grads[1]], 1)),
    (masked, lambda g, mask: g * mask),
    (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    (np.sin, lambda g: g * np.cos(X)),
]


@pytest.mark.parametrize("case", OTHERS, ids=lambda c: c[0].__name__)
def test_outputs_saved_values_and_local_derivatives_are_told_apart(case: Any):
    assert agrees(subject_of_pair(*case, (X,)))


def in_dict(params: Any, x: Any) -> Any:
    return np.tanh(x @ params["w"]) + params["b"]


def dict_first(g: Any, params: Any, x: Any) -> Any:
    h = g * (1 - np.tanh(x @ params["w"]) ** 2)
    return {"dw": x.T @ h, "db": g.sum(0)}, h @ params["w"].T


def dict_alone(g: Any, params: Any, x: Any) -> Any:
    grads, x_bar = dict_first(g, params, x)
    return {"w": grads["dw"], "b": grads["db"], "x": x_bar}


def in_list(params: Any, x: Any) -> Any:
    return x @ params[0] + params[1]


def list_alone(params: Any, x: Any, g: Any) -> Any:
    return [x.T @ g, g.sum(0)]


def list_first(params: Any, x: Any, g: Any) -> Any:
    return list_alone(params, x, g), g @ params[0].T


TREES = [
    (in_dict, dict_first, {"w": W, "b": B}, None),
    (in_dict, dict_alone, {"w": W, "b": B}, None),
    (in_list, list_first, [W, B], None),
    (in_list, list_alone, [W, B], ["params[0]", "params[1]"]),
]


@pytest.mark.parametrize(("forward", "backward", "params", "wrt"), TREES)
def test_arrays_in_dicts_and_lists_are_inputs(forward: Any, backward: Any, params: Any, wrt: Any):
    made = subject_of_pair(forward, backward, (params, X), wrt=wrt)
    assert len(made.inputs) == 3 and made.inputs[2].name == "x"
    assert agrees(made)


def test_what_cannot_be_told_is_asked_for():
    product = lambda p, q: p * q
    backward = lambda a, b, c: (a * c, a * b)
    with pytest.raises(ConfigError, match='cotangent="first" or "last"'):
        subject_of_pair(product, backward, (X, X + 1))
    assert agrees(subject_of_pair(product, backward, (X, X + 1), cotangent="first"))
    made = subject_of_pair(product, lambda a, b, c: (c * b, c * a), (X, X + 1), cotangent="last")
    assert made.convention.slots[-1] == ("c", Slot("cotangent"))
    assert agrees(made)


def test_what_does_not_run_says_why():
    with pytest.raises(ConfigError, match=r"no way works: .*boom"):
        subject_of_pair(lambda x: x * 2, _explodes, (X,))
    with pytest.raises(GradientError, match="nothing to differentiate: the arguments are int64"):
        subject_of_pair(lambda i: i, lambda g, i: g, (np.arange(3),))
    with pytest.raises(ConfigError, match="no forward of 1 arguments"):
        verify.pair(object(), X)
    with pytest.raises(GradientError, match="wrt='z': the arguments are x, w, b"):
        subject_of_pair(linear, first, (X, W, B), wrt=["z"])


def _explodes(p: Any, q: Any) -> Any:
    raise ValueError("boom")


def test_wrt_says_what_has_a_gradient():
    made = subject_of_pair(linear, lambda g, x, w: g @ w.T, (X, W, B), wrt=["x"])
    assert [x.wanted for x in made.inputs] == [True, False, False]
    assert agrees(made)


def test_targets_have_none():
    mse = lambda p, target: ((p - target) ** 2).mean()
    made = subject_of_pair(mse, lambda p, target: 2 * (p - target) / p.size, (X, X * 0.5))
    assert [x.wanted for x in made.inputs] == [True, False]
    assert agrees(made)


@pytest.mark.parametrize("name", ["g", "dout", "grad_output", "dY", "upstream", "g2", "delta_next"])
def test_names_of_cotangents(name: str):
    assert is_cotangent(name)


@pytest.mark.parametrize("name", ["x", "w", "cache", "mask", "axis", "inputs", "eps"])
def test_names_of_other_things(name: str):
    assert not is_cotangent(name)


@pytest.mark.parametrize(
    ("name", "owner"),
    [("dW", "W"), ("grad_w", "W"), ("W_grad", "W"), ("dx", "x"), ("x_bar", "x"), ("q", None)],
)
def test_whose_gradient_a_name_says(name: str, owner: str | None):
    assert gradient_of(name, ["x", "W", "gamma"]) == owner


# --- Wrong ---------------------------------------------------------------------------------------


def test_a_wrong_pair_is_found_with_its_line():
    report = verify.pair(linear, wrong_bias, X, W, B)
    assert [(f.input, f.level) for f in report.findings] == [("b", "error")]
    place = report.findings[0].place
    assert place is not None and place.file == __file__
    assert abs(place.line - line_of("def wrong_bias", __file__)) <= 1
    assert report.ledger.planted is not None and report.ledger.planted.caught


def wrong_bias(g: Any, x: Any, w: Any, b: Any) -> Any:
    return g @ w.T, x.T @ g, g.mean(0)


def test_a_right_one_is_not():
    assert verify.pair(linear, first, X, W, B).ok
    assert verify.pair(linear, first, *[a.astype(np.float32) for a in (X, W, B)]).ok


def test_a_gradient_that_is_not_returned_is_missed():
    report = verify.pair(linear, lambda g, x, w: (g @ w.T, None, g.sum(0)), X, W, B)
    assert [(f.input, f.name.code) for f in report.findings] == [("w", "dropped")]


def normed(x: Any, stats: Any) -> Any:
    mean, var = x.mean(0), x.var(0)
    stats["var"] *= 0.7
    stats["var"] += 0.3 * var
    z = (x - mean) / np.sqrt(var + 1e-5)
    return z, (z, var)


def wrongly_kept(x: Any, stats: Any) -> Any:
    z, _ = normed(x, stats)
    var = x.var(0)
    cache = (z, stats["var"].copy(), var.shape)
    return z, cache


def normed_back(g: Any, cache: Any) -> Any:
    z, var = cache[:2]
    return (g - g.mean(0) - z * (g * z).mean(0)) / np.sqrt(var + 1e-5)


def test_a_forward_may_keep_running_statistics_in_what_it_is_given():
    assert verify.pair(normed, normed_back, X, {"var": np.ones(X.shape[1])}).ok
    finding = verify.pair(wrongly_kept, normed_back, X, {"var": np.ones(X.shape[1])}).findings[0]
    assert "wrong_value" in [n.code for n in finding.names]
    assert finding.correction is not None
    assert finding.correction.after.strip() == "cache = (z, var, var.shape)"


class Normed:
    """Keeps running statistics in an array that it is given; `late`: in the backward as well."""

    def __init__(self, late: bool = False) -> None:
        self.late = late

    def forward(self, x: Any, running: Any) -> Any:
        running *= 0.9
        running += 0.1 * x.var(0)
        self.running = running
        z, self.cache = normed(x, {"var": np.ones(x.shape[1])})
        return z

    def backward(self, dy: Any) -> Any:
        if self.late:
            self.running += dy.mean(0)
        return normed_back(dy, self.cache)


@pytest.mark.parametrize("late", [False, True])
def test_a_layer_may_keep_running_statistics_in_its_forward_alone(late: bool):
    report = verify.pair(Normed(late), X, np.ones(X.shape[1]))
    assert [f.name.code for f in report.findings] == (["writes"] if late else [])


def test_writing_into_arguments_is_seen():
    def backward(g: Any, x: Any) -> Any:
        g *= 2 * x
        return g

    subject = subject_of_pair(np.square, backward, (X,))
    xs = values(subject)
    gs = [apart(*X.shape, salt=3)]
    assert subject.changes(xs, gs) == ("the cotangent of output 0",)
    assert np.array_equal(gs[0], apart(*X.shape, salt=3)), "what was handed out stays"


# --- Copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x",
    [X, X.T, X[::-1], X[:, ::2], np.broadcast_to(X[0], (3, 4)), np.asfortranarray(X), X[1:1]],
    ids=["C", "T", "reversed", "strided", "expanded", "F", "empty"],
)
def test_a_twin_lies_in_memory_like_the_original(x: Any):
    copy = twin(x)
    assert copy.strides == x.strides or x.size < 2
    assert np.array_equal(copy, x) and not np.shares_memory(copy, x)


@pytest.mark.parametrize("right", [True, False])
def test_a_result_that_vanishes_where_numbers_are_larger(right: bool):
    """log(2 cosh x) - |x| is rounded to 0 where its derivative is small, and not 0."""

    def forward(x: Any) -> Any:
        return np.log(np.exp(x) + np.exp(-x)) - np.abs(x), x

    def backward(dy: Any, x: Any) -> Any:
        slope = -2 / (np.exp(2 * np.abs(x)) + 1)
        return dy * slope * (np.sign(x) if right else 1)

    report = verify.pair(forward, backward, np.array([3.0, -3.5, 4.0, -5.0, 3.25]))
    assert report.ok is right


def decayed(w: np.ndarray, rate: float, n: int) -> np.ndarray:
    return w * np.exp(-rate * n)


@pytest.mark.parametrize(
    ("rate_bar", "codes"),
    [
        (lambda g, w, rate, n: float(-n * np.sum(g * decayed(w, rate, n))), []),
        (lambda g, w, rate, n: float(-np.sum(g * decayed(w, rate, n))), ["factor"]),
        (lambda g, w, rate, n: None, []),
    ],
)
def test_a_number_is_an_input_where_it_gets_a_gradient(rate_bar: Any, codes: list[str]):
    def backward(g: Any, w: Any, rate: Any, n: Any) -> Any:
        return g * np.exp(-rate * n), rate_bar(g, w, rate, n), None

    report = verify.pair(decayed, backward, X, 0.3, 5)
    assert [f.name.code for f in report.findings] == codes
    assert [f.input for f in report.findings] == ["rate"] * len(codes)
