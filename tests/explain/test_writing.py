"""Who keeps an array that cannot be written to."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DtypeError
from chainrule.explain import strict, who_keeps
from tests.explain.lines import marked


def at(mark: str) -> str:
    return marked(__file__, mark)


def test_a_parameter_and_the_ops_that_keep_its_value():
    w = cr.tensor([1.0, 2.0], requires_grad=True)  # parameter
    y = w * w  # square
    z = cr.sin(w)  # sine
    for x in (w, w.detach().numpy(), w.detach().numpy()[:1], w.detach()):
        found = who_keeps(x)
        assert found.parameters == (at("parameter"),)
        assert found.ops == (("mul", at("square")), ("sin", at("sine")))
    text = str(who_keeps(w))
    assert text.startswith("float32 (2,) is\n    the value of the parameter made at ")
    assert f"kept for its backward pass by 'sin' at {at('sine')}" in text
    assert "p.data = ..." in text and "numpy().copy()" in text
    (y + z).sum().backward()
    assert who_keeps(w).ops == ()  # freed


def test_an_intermediate_value():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    h = w.exp()  # exponential
    found = who_keeps(h)
    assert (found.parameters, found.ops) == ((), (("exp", at("exponential")),))
    assert "p.data" not in str(found)
    assert str(found).endswith("Write to a copy: numpy().copy().")


def test_a_value_that_no_op_keeps():
    x = cr.tensor([1.0, 2.0])
    found = who_keeps(x.numpy())
    assert (found.parameters, found.ops, found.tensors) == ((), (), 1)
    assert "the value of a tensor" in str(found)


def test_an_array_of_somebody_else():
    array = np.ones(3)
    assert str(who_keeps(array)) == "float64 (3,) is kept by no tensor and no graph."
    x = cr.tensor(array, requires_grad=True)
    y = x * array  # a copy is kept
    assert who_keeps(array).ops == ()
    assert y.shape == (3,)
    with pytest.raises(DtypeError, match=r"must be a tensor or an array, not float 2\.0"):
        who_keeps(2.0)  # type: ignore[arg-type]


def test_many_ops_are_counted():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    kept = [f(w) for f in (cr.sin, cr.cos, cr.sinh, cr.cosh, cr.square, cr.atan, cr.asinh)]
    assert "kept for their backward passes by 2 more ops" in str(who_keeps(w))
    assert len(kept) == 7


def assign(a: Any) -> None:
    a[0] = 3.0


def add(a: Any) -> None:
    a += 1


WRITES: list[Callable[[Any], Any]] = [
    assign, add, lambda a: a.fill(0), lambda a: a.sort(), lambda a: np.copyto(a, 0),
    lambda a: np.add(a, 1, out=a), lambda a: np.put(a, 0, 1), lambda a: a[1:].fill(0),
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_strict_mode_names_the_keeper_at_the_line_that_writes(write: Callable[[Any], Any]):
    w = cr.tensor([2.0, 1.0], requires_grad=True)
    h = w.exp()  # kept value
    array = h.detach().numpy()
    with pytest.raises(ValueError, match="read-only") as caught, strict():
        write(array)
    (note,) = caught.value.__notes__
    assert note.startswith("a: float32 (2,) is\n    kept for its backward pass by 'exp' at ")
    assert at("kept value") in note
    assert np.array_equal(h.detach(), np.exp(np.array([2, 1], np.float32)))


def test_the_tensor_on_the_line_is_enough():
    w = cr.tensor([2.0, 1.0], requires_grad=True)  # weight
    with pytest.raises(ValueError, match="read-only") as caught, strict():
        w.detach().numpy()[0] = 1.0
    (note,) = caught.value.__notes__
    assert note.startswith(
        f"w: float32 (2,) is\n    the value of the parameter made at {at('weight')}"
    )


def test_other_errors_get_no_note():
    w = cr.tensor([2.0, 1.0])
    with pytest.raises(ValueError) as caught, strict():
        w.reshape(3)
    assert not hasattr(caught.value, "__notes__")


def test_what_numpy_gives_is_a_plain_array():
    """Its class, copies and pickles surprise nobody."""
    array = cr.tensor([2.0, 1.0]).numpy()
    for a in (array, array[:1], array + 1, copy.deepcopy(array), pickle.loads(pickle.dumps(array))):
        assert type(a) is np.ndarray
    assert not array.flags.writeable
    changed = array.copy()
    changed[0] = 5.0
    assert changed.tolist() == [5.0, 1.0]


@pytest.mark.parametrize(
    "x",
    [
        cr.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        cr.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).T[::-1],
        cr.tensor(2.5),
        cr.zeros((0, 3)),
        cr.broadcast_to(cr.tensor([1.0, 2.0]), (5000, 2)),
        *[cr.ones((2, 3), t) for t in (bool, np.int8, cr.float16, np.complex64, cr.bfloat16)],
    ],
    ids=lambda x: f"{x.dtype}{x.shape}",
)
def test_an_array_that_came_from_a_tensor_cannot_be_made_writeable(x: cr.Tensor):
    array = x.numpy()
    assert (array.dtype, array.shape) == (x.dtype, x.shape)
    assert array.tolist() == x.tolist()
    assert x.size == 0 or np.shares_memory(array, x.value)
    for view in (array, array[...], array.T):
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 7
