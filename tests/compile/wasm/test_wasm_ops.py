"""Every op in WebAssembly: in Node it gives what it gives eagerly, and, bit for bit, what machine
code gives that has neither wider vectors nor fused multiply-add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.export.call_data import program_of
from chainrule.compile.llvm.host_target import host
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.wasm.target import like_wasm
from chainrule.errors import TraceError
from tests.compile.ops.test_ops import EAGER, GROUPS, case, compare
from tests.compile.wasm.node import left, needs_node
from tests.sampling import sampled

pytestmark = needs_node


def narrow(compiled: Any, *args: Any) -> list[Any]:
    """What the program gives here, on a processor that is used like WebAssembly; nothing for one
    that draws, whose numbers Python would have to draw."""
    variant, given = compiled._variant(args, {})
    if variant.draws:
        return []
    native, _ = program_of(variant)
    twin = Native(native.program, native.checks, like_wasm(host()))
    return twin(given.arrays)


@sampled(one_in=40)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", GROUPS)
def test_samples_give_the_same(name: str, dtype: type, tmp_path: Path):
    cases = [(s, *case(s, dtype)) for s in GROUPS[name]]
    flat = [x for *_, xs in cases for x in xs]

    def everything(*args: Any) -> list[list[Any]]:
        rest = iter(args)
        return [f(*[next(rest) for _ in xs]) for *_, f, xs in cases]

    compiled = cr.jit(everything)
    if name in EAGER:
        with pytest.raises(TraceError, match="has no loops of its own"):
            compiled.to_wasm(tmp_path, *flat)
        return
    module = compiled.to_wasm(tmp_path, *flat)
    got, _ = left(module)
    want = [(s, y, xs) for s, f, xs in cases for y in f(*xs)]
    for a, b in zip(got, narrow(compiled, *flat), strict=False):
        np.testing.assert_array_equal(a, b, name)
    for a, (s, y, xs) in zip(got, want, strict=True):
        terms = max([1, *[x.size for x in (*xs, y)]])
        compare(a, y.detach().numpy(), terms, f"{s} {np.dtype(dtype)}")
