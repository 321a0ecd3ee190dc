"""Handwritten digits, an example of images: loaded from scikit-learn, which is optional."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.optional import require


@final
@dataclass(frozen=True)
class Digits:
    """Images (n, 64) of 8 x 8 pixels from 0 to 1 and labels (n,) int64 from 0 to 9; two parts.

    >>> digits = cr.data.load_digits()
    >>> digits.images.shape, digits.test_images.shape
    ((1438, 64), (359, 64))
    """

    images: Array
    labels: Array
    test_images: Array
    test_labels: Array


def load_digits(*, test: float = 0.2, seed: int = 0, dtype: Any = np.float32) -> Digits:
    """The 1,797 handwritten digits of the UCI repository, shuffled, the last `test` of them apart.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits (1998), as
    distributed with scikit-learn. Raises `MissingPackageError` without it.

    >>> digits = cr.data.load_digits()
    >>> digits.images.shape, digits.test_labels.shape
    ((1438, 64), (359,))
    """
    if not 0 < test < 1:
        raise ConfigError(f"the test fraction is between 0 and 1, not {test}")
    datasets: Any = require("sklearn.datasets", "load_digits")
    x, y = datasets.load_digits(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(y))
    x, y = (x[order] / 16).astype(dtype), y[order].astype(np.int64)
    n = len(y) - round(test * len(y))
    return Digits(x[:n], y[:n], x[n:], y[n:])
