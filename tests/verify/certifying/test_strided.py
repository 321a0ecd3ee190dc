"""Views by strides: checked while the verifier runs code, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided

from chainrule import verify
from chainrule.verify.certifying.memory_bounds import check_views

x = np.arange(12.0).reshape(3, 4)


def views() -> Any:
    return as_strided(x, (5, 4), x.strides)


def test_a_view_that_leaves_its_memory_is_an_error() -> None:
    with check_views([views]):
        with pytest.raises(ValueError, match=r"\(5, 4\).*leaves the memory.*\(3, 4\)"):
            views()
        with pytest.raises(ValueError, match="leaves the memory"):
            np.lib.stride_tricks.as_strided(x, (2,), (-8,))


def test_views_within_it_are_made_also_of_views() -> None:
    with check_views([views]):
        rows = as_strided(x, (2, 2, 4), (32, 32, 8))
        assert np.array_equal(rows[1], x[1:])
        part = as_strided(x[1:], (2,), (8,))
        assert np.array_equal(as_strided(part, (8,), (8,)), np.arange(4.0, 12.0))
        assert as_strided(x, (0, 4), x.strides).shape == (0, 4)


def test_afterwards_all_is_as_it_was() -> None:
    before = np.lib.stride_tricks.as_strided
    with check_views([views]):
        assert views.__globals__["as_strided"] is not before
    assert views.__globals__["as_strided"] is before
    assert np.lib.stride_tricks.as_strided is before


def test_a_wrong_convolution_by_strides_is_named_and_nothing_crashes() -> None:
    """Changed counts and steps of the windows would read and write anywhere."""

    def windows(a: Any, n: int, k: int) -> Any:
        return as_strided(a, (len(a), n, k), (a.strides[0], a.strides[1], a.strides[1]))

    def forward(x: Any, w: Any) -> Any:
        n = x.shape[1] - len(w) + 1
        return windows(x, n, len(w)) @ w, (x, w, n)

    def backward(g: Any, cache: Any) -> Any:
        x, w, n = cache
        dx = np.zeros_like(x)
        slots = windows(dx, n, len(w))
        for i in range(len(w)):
            slots[:, :, i] += g * w[len(w) - 1 - i]
        return dx, np.einsum("bn,bnk->k", g, windows(x, n, len(w)))

    rng = np.random.default_rng(0)
    report = verify.pair(forward, backward, rng.normal(size=(2, 7)), rng.normal(size=3))
    (finding,) = report.findings
    assert finding.input == "x" and finding.place is not None
    assert finding.correction is not None and finding.correction.rechecked


class GraphProduct(torch.autograd.Function):
    """Edges with weights, as a matrix, times x; the backward forgets their directions."""

    @staticmethod
    def forward(ctx: Any, edges: Any, weights: Any, x: Any) -> Any:
        n = len(x)
        matrix = torch.sparse_coo_tensor(edges, weights, (n, n)).to_dense()
        ctx.save_for_backward(matrix)
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (matrix,) = ctx.saved_tensors
        return None, None, matrix @ g


def test_indices_of_sparse_arrays_are_checked_and_only_then() -> None:
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 0, 0, 3]])
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    report = verify.function(GraphProduct, edges, torch.rand(5, dtype=torch.float64), x)
    (finding,) = [f for f in report.findings if f.level == "error"]
    assert finding.input == "x" and finding.name.code == "transposed"
    assert finding.correction is not None and "matrix.T @ g" in finding.correction.after
    assert not torch.sparse.check_sparse_tensor_invariants.is_enabled()
