"""The native mathematics on processors that are not this one: their code, which is not run here."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from llvmlite import binding

from chainrule.compile.llvm import host_target
from chainrule.compile.mathlib.table import TABLE
from tests.compile.mathlib.lanes import loop
from tests.compile.mathlib.mathsamples import DTYPES, arity
from tests.sampling import sampled

ARM = "aarch64-unknown-linux-gnu"
FUSED = re.compile(r"\t(?:fmla|fmls|fmadd|fmsub|fnmadd|fnmsub)\t")


@cache
def arm():
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        return binding.Target.from_triple(ARM).create_target_machine(opt=1)
    except RuntimeError:
        pytest.skip("this LLVM has no 64-bit ARM")


@sampled(one_in=4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_arm_code_fuses_and_calls_nothing(name, dtype):
    """What the instructions say is one multiply-add is one there, not a call of `fma`."""
    width = 16 // np.dtype(dtype).itemsize
    target = replace(host_target.host(), triple=ARM, fma=True, scalef=False)
    module = str(loop(name, dtype, arity(name), width, target))
    code = binding.parse_assembly(module)
    code.triple = ARM
    text = arm().emit_assembly(code)
    called = set(re.findall(r"\tbl\t(\S+)", text))
    assert all("chainrule.remainder_of_turn" in s for s in called), called
    assert bool(FUSED.search(text)) == ("llvm.fma" in module)


def test_which_processors_fuse():
    assert host_target.has_fma("x86_64-unknown-linux-gnu", {"fma": True})
    assert not host_target.has_fma("x86_64-unknown-linux-gnu", {"fma": False, "avx2": True})
    for triple in (ARM, "arm64-apple-darwin23.0.0"):
        assert host_target.has_fma(triple, {"neon": True})
