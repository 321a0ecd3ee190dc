"""Both ways to run a compiled function: op by op on arrays, and as native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from chainrule.compile.graph.terms import Program, Values
from chainrule.compile.trace import derivative, variant_assembly


def op_by_op(program: Program) -> Callable[[Sequence[Any]], list[Any]]:
    """Runs a program by `Values`, as `backend.build` says."""

    def run(inputs: Sequence[Any]) -> list[Any]:
        results, news = Values(program).run(inputs)
        fresh = [np.array(r, order="C") for r in results]
        copies = [np.array(n) for n in news]
        for (place, _), new in zip(program.updates, copies, strict=True):
            inputs[place][...] = new
        return fresh

    return run


@pytest.fixture(params=["values", "native"], autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test of a module that imports this runs both ways."""
    if request.param == "values":
        monkeypatch.setattr(variant_assembly, "build", op_by_op)
        monkeypatch.setattr(derivative, "build", op_by_op)
    return request.param
