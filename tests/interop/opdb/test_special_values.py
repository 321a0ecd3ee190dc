"""Special functions of PyTorch's table that have no derivative there: values, eager and compiled.

Their derivatives, and more digits, are compared with mpmath in
tests/ops/special/test_special_exact.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the oracle is PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's op table imports it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

import chainrule as cr
from chainrule import special
from tests.sampling import sampled

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = {"igamma": "gammainc", "igammac": "gammaincc"}
"""Ours where it is another."""


def _ours(op: Any) -> Any:
    return getattr(special, NAMES.get(op.name, op.name.removeprefix("special.")), None)


OPS = {
    op.name: op
    for op in op_db
    if (op.name.startswith("special.") or op.name in NAMES)
    and not op.supports_autograd
    and _ours(op) is not None
}
DIGITS = {
    **{f"special.bessel_{kind}": 2e-5 for kind in ("j0", "j1", "y0", "y1")},
    "special.airy_ai": 1e-7,
}
"""How far PyTorch's values are from the truth, where it is more than 1e-9."""


def calls(op: Any, most: int = 6) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The arguments of PyTorch's samples, and ours: of a polynomial, with whole degrees."""
    torch.manual_seed(0)
    for i, sample in enumerate(islice(op.sample_inputs("cpu", torch.float64), most)):
        theirs = (sample.input, *sample.args)
        if "polynomial" in op.name:
            yield (theirs[0], i), (theirs[0].numpy(), i)
        elif len(theirs) == 2:  # of positive numbers, the second one above 1 (zeta)
            theirs = theirs[0].abs() + 1.1, theirs[1].abs() + 0.3
            yield theirs, tuple([t.numpy() for t in theirs])
        else:
            yield theirs, tuple([t.numpy() for t in theirs])


def compare(name: str, got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=DIGITS.get(name, 1e-9), atol=1e-12)


@sampled(one_in=4)
@pytest.mark.parametrize("name", OPS)
def test_values_are_pytorchs(name: str):
    op, f = OPS[name], _ours(OPS[name])
    every = list(calls(op))
    for theirs, ours in every:
        arrays = [cr.tensor(x) if np.ndim(x) else x for x in ours]
        compare(name, f(*arrays), op.op(*theirs).numpy())
    theirs, (x, *more) = max(every, key=lambda call: call[1][0].size)
    compare(name, cr.jit(lambda x: f(x, *more))(x), op.op(*theirs).numpy())


def test_the_table_has_all_of_them():
    assert len(OPS) >= 27
