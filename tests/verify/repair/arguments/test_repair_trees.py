"""Arguments that are trees of several lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)

rng = np.random.default_rng(8)


def test_arguments_may_be_trees_of_several_lengths() -> None:
    from chainrule import verify

    def encode(node: Any, leaves: Any, w: Any) -> Any:
        if isinstance(node, int):
            return leaves[node]
        return np.tanh(w @ np.concatenate([encode(c, leaves, w) for c in node]))

    def backward(g: Any, node: Any, leaves: Any, w: Any) -> Any:
        dl, dw = np.zeros_like(leaves), np.zeros_like(w)

        def down(t: Any, d: Any) -> None:
            if isinstance(t, int):
                dl[t] += d
                return
            both = np.concatenate([encode(c, leaves, w) for c in t])
            da = d * (1 - np.tanh(w @ both) ** 2)
            dw[...] += np.outer(da, both)
            left, right = np.split(w.T @ da, 2)
            down(t[0], left)
            down(t[1], right)

        down(node, g)
        return None, dl, dw

    tree = ((0, 1), ((2, 0), 3))
    report = verify.pair(encode, backward, tree, rng.normal(size=(4, 3)), rng.normal(size=(3, 6)))
    assert report.ok and len(report.ledger.checked) == 1
