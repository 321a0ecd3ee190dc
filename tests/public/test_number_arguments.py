"""Functions of arrays take Python numbers where NumPy's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

CALLS = {
    "sum": (1.5,), "mean": (3,), "max": (2.0,), "prod": (True,), "argmax": (1.5,),
    "reshape": (1, (1, 1)), "broadcast_to": (1.5, (2, 3)), "expand_dims": (1.5, 0),
    "stack": ([1.0, 2.0],), "cumsum": (1.5,), "tile": (1.5, (2,)),
    "var": (2.0,), "squeeze": (1.5,), "hstack": ([1.0, 2],), "vstack": ([1, 2],),
}  # fmt: skip
"""By the name of a function of ours and NumPy's, what it is called with."""


@pytest.mark.parametrize("name", CALLS)
def test_a_number_is_an_array_without_axes(name: str):
    args = CALLS[name] if name != "squeeze" else (*CALLS[name], ())
    got, want = getattr(cr, name)(*args), getattr(np, name)(*args)
    assert type(got) in (np.ndarray, type(want))
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


def test_a_number_beside_a_tensor_has_no_dtype():
    x = cr.tensor([1.0, 2.0])
    assert cr.dist(x, 1.0).dtype == np.float32
    with pytest.raises(cr.DtypeError, match=r"not float 1\.0"):
        cr.stack([x, 1.0])


@pytest.mark.parametrize("wrong", [None, "a", [1.0, 2.0], {}])
def test_what_is_no_number_is_refused(wrong: Any):
    with pytest.raises(cr.DtypeError, match="sum"):
        cr.sum(wrong)


def test_an_axis_that_a_number_lacks():
    with pytest.raises(cr.ShapeError, match=r"softmax: axis -1 does not exist"):
        cr.softmax(0.5)
