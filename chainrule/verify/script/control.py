"""A wrong gradient of our own, for runs in which no backward of the user's could be spoiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chainrule.verify.ledger import Planted

_SEED = 5


def planted() -> Planted:
    """Whether a spoiled gradient of `exp(a) * b` is caught, here and now."""
    from chainrule.ops.elementwise import exp
    from chainrule.tensors import Tensor, tensor
    from chainrule.verify.measure import plant
    from chainrule.verify.own.call import subject_of_call

    def small(a: Tensor, b: Tensor) -> Tensor:
        return exp(a) * b

    random = np.random.default_rng(_SEED)
    args = [tensor(random.normal(size=(4, 3))) for _ in range(2)]
    found = plant.planted(subject_of_call(small, args, name="exp(a) * b"))
    return replace(found, what=f"{found.what}, of our own since none of yours could be spoiled")
