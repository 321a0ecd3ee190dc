"""How a backward returns its gradients is independent of how parameters are kept: all pairs of such
forms are tried. A right network is right, and of a wrong one exactly the wrong gradient is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from chainrule import verify
from chainrule.verify.arrays.objects import subject_of_layer
from chainrule.verify.arrays.pair import subject_of_both, subject_of_pair
from chainrule.verify.subject import Subject, values

Arrays = list[Any]
SIZES = {"different": (5, 4, 3, 2), "equal": (3, 3, 3, 3)}
"""Widths of three layers: with equal ones, shapes tell nothing."""


def passes(ws: Arrays, bs: Arrays, x: Any, y: Any) -> tuple[Any, Arrays, Arrays]:
    """The loss of a network with tanh between its layers, and its gradients."""
    hs = [x]
    for i, (w, b) in enumerate(zip(ws, bs, strict=True)):
        a = hs[-1] @ w + b
        hs.append(a if i == len(ws) - 1 else np.tanh(a))
    loss = 0.5 * np.sum((hs[-1] - y) ** 2)
    d, dws, dbs = hs[-1] - y, [], []
    for i in reversed(range(len(ws))):
        dws.insert(0, hs[i].T @ d)
        dbs.insert(0, d.sum(axis=0))
        d = d @ ws[i].T * (1 - hs[i] ** 2)
    return loss, dws, dbs


class Dense:
    def __init__(self, w: Any, b: Any) -> None:
        self.W, self.b = w, b


class Affine(NamedTuple):
    W: Any
    b: Any


@dataclass
class Params:
    W: Arrays
    b: Arrays


# Where an object keeps them: from its weights and biases to its attributes, and back again.
KEPT: dict[str, tuple[Callable[[Arrays, Arrays], dict[str, Any]], Callable[[Any], Any]]] = {
    "two lists": (lambda ws, bs: {"w": [*ws], "b": [*bs]}, lambda o: (o.w, o.b)),
    "two tuples": (
        lambda ws, bs: {"weights": (*ws,), "biases": (*bs,)},
        lambda o: (o.weights, o.biases),
    ),
    "other names": (
        lambda ws, bs: {"coefs_": [*ws], "intercepts_": [*bs]},
        lambda o: (o.coefs_, o.intercepts_),
    ),
    "one list of pairs": (
        lambda ws, bs: {"params": [*zip(ws, bs, strict=True)]},
        lambda o: tuple(zip(*o.params, strict=True)),
    ),
    "a list of dicts": (
        lambda ws, bs: {"params": [{"W": w, "b": b} for w, b in zip(ws, bs, strict=True)]},
        lambda o: ([p["W"] for p in o.params], [p["b"] for p in o.params]),
    ),
    "a dict of lists": (
        lambda ws, bs: {"params": {"W": [*ws], "b": [*bs]}},
        lambda o: (o.params["W"], o.params["b"]),
    ),
    "numbered names": (
        lambda ws, bs: {f"{n}{i}": a for n, xs in (("W", ws), ("b", bs)) for i, a in enumerate(xs)},
        lambda o: tuple([[getattr(o, f"{n}{i}") for i in range(3)] for n in "Wb"]),
    ),
    "objects": (
        lambda ws, bs: {"layers": [Dense(w, b) for w, b in zip(ws, bs, strict=True)]},
        lambda o: ([p.W for p in o.layers], [p.b for p in o.layers]),
    ),
}


def two_lists(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    return loss, dws, dbs


def two_tuples(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    nabla_w, nabla_b = tuple(dws), tuple(dbs)
    return loss, nabla_w, nabla_b


def pairs(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    return loss, tuple(zip(dws, dbs, strict=True))


def dict_of_lists(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    return loss, {"dW": dws, "db": dbs}


def list_of_dicts(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    return loss, [{"W": w, "b": b} for w, b in zip(dws, dbs, strict=True)]


def numbered(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    named = {f"dW{i}": w for i, w in enumerate(dws)}
    return loss, named | {f"db{i}": b for i, b in enumerate(dbs)}


def flat(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    return (loss, *dws, *dbs)


def one_list(loss: Any, dws: Arrays, dbs: Arrays) -> Any:
    return loss, [g for pair in zip(dws, dbs, strict=True) for g in pair]


FORMS = (two_lists, two_tuples, pairs, dict_of_lists, list_of_dicts, numbered, flat, one_list)


def arrays_of(sizes: str) -> tuple[Arrays, Arrays, Any, Any]:
    rng, n = np.random.default_rng(5), SIZES[sizes]
    ws = [0.5 * rng.normal(size=s) for s in itertools.pairwise(n)]
    bs = [rng.normal(size=m) for m in n[1:]]
    return ws, bs, rng.normal(size=(7, n[0])), rng.normal(size=(7, n[-1]))


def network(kept: str, form: Callable[..., Any], sizes: str, wrong: float = 1.0) -> Any:
    """The `cost` of an object, and its arguments; one gradient is multiplied by `wrong`."""
    ws, bs, x, y = arrays_of(sizes)
    write, read = KEPT[kept]

    class Net:
        def __init__(self) -> None:
            vars(self).update(write(ws, bs))

        def cost(self, x: Any, y: Any) -> Any:
            loss, dws, dbs = passes(*read(self), x, y)
            dws[1] = dws[1] * wrong
            return form(loss, dws, dbs)

    return Net().cost, x, y


def wrong_inputs(subject: Subject) -> set[str]:
    """Inputs that get no gradient, or another one than central differences give."""
    xs = values(subject)
    bars = subject.pull(xs, [np.ones(())])
    found: set[str] = set()
    for i, (x, bar) in enumerate(zip(subject.inputs, bars, strict=True)):
        if not x.wanted:
            continue
        direction = np.random.default_rng(i).normal(size=np.shape(x.value))
        ends = [
            subject.forward([*xs[:i], x.value + h * direction, *xs[i + 1 :]])[0]
            for h in (1e-6, -1e-6)
        ]
        expected = (ends[0] - ends[1]) / 2e-6
        right = bar is not None and bar.shape == np.shape(x.value)
        if not right or not np.allclose(np.sum(bar * direction), expected, rtol=1e-6, atol=1e-8):
            found.add(x.name)
    return found


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kept", KEPT)
def test_every_gradient_finds_its_parameter(kept: str, form: Any, sizes: str) -> None:
    cost, x, y = network(kept, form, sizes)
    subject = subject_of_layer(cost.__self__, (x, y), method="cost")
    assert sum(i.wanted for i in subject.inputs) == 6
    assert not wrong_inputs(subject)
    cost, x, y = network(kept, form, sizes, wrong=1.5)
    (name,) = wrong_inputs(subject_of_layer(cost.__self__, (x, y), method="cost"))
    assert np.ndim(next(i.value for i in subject.inputs if i.name == name)) == 2 and "1" in name


# How a function takes them: from weights and biases to its argument, and back again.
TREES: dict[str, tuple[Callable[[Arrays, Arrays], Any], Callable[[Any], Any]]] = {
    "a list of pairs": (
        lambda ws, bs: [*zip(ws, bs, strict=True)],
        lambda p: tuple(zip(*p, strict=True)),
    ),
    "a tuple of dicts": (
        lambda ws, bs: tuple([{"W": w, "b": b} for w, b in zip(ws, bs, strict=True)]),
        lambda p: ([q["W"] for q in p], [q["b"] for q in p]),
    ),
    "a dict of lists": (
        lambda ws, bs: {"W": [*ws], "b": [*bs]},
        lambda p: (p["W"], p["b"]),
    ),
    "a dict of dicts": (
        lambda ws, bs: {
            f"l{i}": {"W": w, "b": b} for i, (w, b) in enumerate(zip(ws, bs, strict=True))
        },
        lambda p: ([q["W"] for q in p.values()], [q["b"] for q in p.values()]),
    ),
    "named tuples": (
        lambda ws, bs: [Affine(w, b) for w, b in zip(ws, bs, strict=True)],
        lambda p: ([q.W for q in p], [q.b for q in p]),
    ),
    "a dataclass": (lambda ws, bs: Params([*ws], [*bs]), lambda p: (p.W, p.b)),
    "one list": (lambda ws, bs: [*ws, *bs], lambda p: (p[:3], p[3:])),
    "a dict by number": (
        lambda ws, bs: {f"{n}{i}": a for n, xs in (("W", ws), ("b", bs)) for i, a in enumerate(xs)},
        lambda p: tuple([[p[f"{n}{i}"] for i in range(3)] for n in "Wb"]),
    ),
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("tree", TREES)
def test_gradients_come_back_as_a_tree_like_the_argument(tree: str, sizes: str) -> None:
    write, read = TREES[tree]
    ws, bs, x, y = arrays_of(sizes)

    def both(params: Any, x: Any, y: Any) -> Any:
        loss, dws, dbs = passes(*read(params), x, y)
        return loss, write(dws, dbs)

    def forward(params: Any, x: Any, y: Any) -> Any:
        return passes(*read(params), x, y)[0]

    def backward(g: Any, params: Any, x: Any, y: Any) -> Any:
        _, dws, dbs = passes(*read(params), x, y)
        return write([g * d for d in dws], [g * d for d in dbs])

    subjects = (
        subject_of_both(both, (write(ws, bs), x, y)),
        subject_of_pair(forward, backward, (write(ws, bs), x, y)),
    )
    for subject in subjects:
        assert sum(i.wanted for i in subject.inputs) >= 6
        learnt = {i.name for i in subject.inputs if i.name.startswith("params")}
        assert len(learnt) == 6 and not wrong_inputs(subject) & learnt


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("tree", TREES)
def test_gradients_come_back_in_another_tree(tree: str, form: Any) -> None:
    write, read = TREES[tree]
    ws, bs, x, y = arrays_of("different")

    def cost(params: Any, x: Any, y: Any) -> Any:
        return form(*passes(*read(params), x, y))

    subject = subject_of_both(cost, (write(ws, bs), x, y))
    assert sum(i.wanted for i in subject.inputs) == 6
    mixed_up = tree == "one list" and form is one_list  # a list of gradients in another order
    assert bool(wrong_inputs(subject)) == mixed_up


def test_a_whole_report_of_a_network_whose_parameters_are_in_lists() -> None:
    report = verify.pair(*network("two lists", two_lists, "different"))
    assert report.ok and report.ledger.planted is not None and report.ledger.planted.caught
    report = verify.pair(*network("two lists", two_lists, "different", wrong=1.5))
    assert {(f.input, f.name.code) for f in report.findings} == {("w[1]", "factor")}


def decay(theta: Any, x: Any, y: Any, *, slope: Any) -> tuple[Any, Any]:
    """Half the squares of a exp(-b x) - y, a and b = exp(theta), and its gradient."""
    a, b = np.exp(theta)
    e = a * np.exp(-b * x) - y
    inner = np.exp(-slope(a, b) * x)
    return 0.5 * (e**2).sum(), np.array([a * (e * inner).sum(), -a * b * (e * x * inner).sum()])


def test_a_gradient_that_is_right_at_zero_parameters_only_is_found():
    x, theta = np.linspace(0, 2, 20), np.zeros(2)
    y = 1.7 * np.exp(-0.6 * x)

    def right(theta: Any, x: Any, y: Any) -> Any:
        return decay(theta, x, y, slope=lambda a, b: b)

    def wrong(theta: Any, x: Any, y: Any) -> Any:
        return decay(theta, x, y, slope=lambda a, b: a)

    assert verify.pair(right, theta, x, y).ok
    assert np.array_equal(right(theta, x, y)[1], wrong(theta, x, y)[1])
    assert not verify.pair(wrong, theta, x, y).ok


def test_of_a_loss_no_gradient_is_asked_for_data_behind_its_parameters():
    rng = np.random.default_rng(0)
    w, c, X, size = rng.normal(size=3), 0.1, rng.normal(size=(8, 3)), rng.uniform(1, 2, 8)

    def cost(w: Any, c: Any, X: Any, size: Any) -> Any:
        return ((X @ w + c) ** 2 * size).mean()

    def slopes(w: Any, c: Any, X: Any, size: Any) -> Any:
        r = 2 * (X @ w + c) * size / len(size)
        return X.T @ r, r.sum()

    def first_only(w: Any, c: Any, X: Any, size: Any) -> Any:
        return slopes(w, c, X, size)[0], None

    assert verify.pair(cost, slopes, w, c, X, size).ok
    assert not verify.pair(cost, first_only, w, np.array(c), X, size).ok
