"""A method of PyTorch's tensors means here what it means there, or an error says the difference.

Every method of the table is called as PyTorch's own samples call it, and so is every method that
changes its tensor in place, of which the changed tensor is compared. What `test_same_names` asks of
functions is asked of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sampling import sampled_file

pytest.importorskip("torch", reason="the oracle is PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's op table imports it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

import chainrule as cr
from chainrule.names.methods import IN_PLACE, METHODS
from tests.interop.opdb.test_same_names import DIFFERENT, OPEN, Shared, answers

pytestmark = [pytest.mark.filterwarnings("ignore"), sampled_file(one_in=9)]
UNREADABLE = {"bfloat16"}
"""What NumPy cannot read from PyTorch."""


def _entries() -> Iterator[tuple[str, Any]]:
    """The names under which PyTorch's tensors have the ops of its table as methods."""
    table: Any = op_db
    for op in table:
        if op.get_method() is not None:
            others: list[str] = [str(a.name) for a in op.aliases]
            for name in [op.name.rpartition(".")[2], *others]:
                if callable(getattr(torch.Tensor, name, None)):
                    yield name, op


def _method(name: str) -> Callable[..., Any]:
    def f(x: Any, *args: Any, **words: Any) -> Any:
        return getattr(x, name)(*args, **words)

    return f


def _changed(name: str) -> Callable[..., Any]:
    """What a copy of the tensor is after a method in place; it is what the method returns."""

    def f(x: Any, *args: Any, **words: Any) -> Any:
        y = x.clone()
        assert getattr(y, name)(*args, **words) is y
        return y

    return f


SHARED = [
    Shared(name, _method(name), _method(name), op)
    for name, op in _entries()
    if name in METHODS and name not in UNREADABLE
]
CHANGING = [
    Shared(f"{name}_", _changed(f"{name}_"), _changed(f"{name}_"), op)
    for name, op in _entries()
    if name in IN_PLACE and hasattr(torch.Tensor, f"{name}_")
]


def _id(s: Shared) -> str:
    return f"{s.name}-{s.op.variant_test_name}".rstrip("-")


@pytest.mark.parametrize("s", [*SHARED, *CHANGING], ids=_id)
def test_a_method_of_that_name_gives_pytorchs_numbers_or_says_the_difference(s: Shared):
    wrong = list(answers(s))
    if s.name.removesuffix("_") in DIFFERENT or s.op.name in OPEN:
        assert not [w for w in wrong if "Error: " in w]
    else:
        assert not [w for w in wrong if "does not name" not in w], wrong[:3]


def test_most_methods_are_asked():
    assert len({s.name for s in SHARED}) > 220 and len({s.name for s in CHANGING}) > 90
    assert isinstance(cr.ones(2).add_(1), cr.Tensor)
