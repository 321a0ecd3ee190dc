"""A layer's setting that is changed after compilation is noticed, whichever layer it is.

The layers and calls are those of tests/public/test_shapes_said.py: one of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from tests.public.test_shapes_said import CALLS
from tests.sampling import sampled

RANDOM = (nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
"""Each call is another."""


def _settings() -> Iterator[tuple[int, str]]:
    """Each number that a layer computes with: the call and the attribute."""
    for i, (module, _) in enumerate(CALLS):
        if isinstance(module, RANDOM) or "Dropout" in type(module).__name__:
            continue
        for name, value in vars(module).items():
            if type(value) in (int, float) and not name.startswith("_"):
                yield i, name


SETTINGS = list(_settings())


def call(f: Any, xs: Any) -> Any:
    """The results of a layer as arrays, or the error's kind."""
    try:
        y = f(*[cr.tensor(x) for x in xs])
    except (cr.ChainruleError, KeyError) as error:  # a layer that has not the parameters for it
        return type(error).__name__
    return list(arrays(y))


def arrays(y: Any) -> Iterator[Any]:
    """The arrays of a result."""
    if isinstance(y, tuple):
        for part in y:
            yield from arrays(part)
    elif y is not None:
        yield y.detach().numpy()


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) == isinstance(b, str)
    return all(
        x.shape == y.shape and np.allclose(x, y, rtol=1e-4, atol=1e-6, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


@sampled(one_in=6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("at", "name"), SETTINGS, ids=lambda x: type(CALLS[x][0]).__name__ if type(x) is int else x
)
def test_a_changed_setting_is_noticed(at: int, name: str):
    module, xs = CALLS[at]
    xs = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in xs]
    compiled, before = cr.jit(lambda *xs: module(*xs)), getattr(module, name)
    module.eval()
    try:
        call(compiled, xs)
        object.__setattr__(module, name, before + 1)
        assert equal(call(compiled, xs), call(module, xs))
    finally:
        object.__setattr__(module, name, before)
        module.train()


def test_settings_matter():
    """Of the layers above, many compute something else when a setting is changed."""
    changed = 0
    for at, name in SETTINGS:
        module, xs = CALLS[at]
        xs = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in xs]
        before, was = call(module, xs), getattr(module, name)
        object.__setattr__(module, name, was + 1)
        changed += not equal(call(module, xs), before)
        object.__setattr__(module, name, was)
    assert changed > 30
