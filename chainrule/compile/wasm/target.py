"""WebAssembly as a target: 128-bit vectors, no fused multiply-add, no libraries, one thread."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from chainrule.compile.target import Target
from chainrule.errors import ConfigError

WASM = Target(
    triple="wasm32-unknown-unknown",
    features="+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals",
    pointer=4,
)


def like_wasm(here: Target) -> Target:
    """The processor `here`, used as if it were this target. It runs the same loops over as many
    lanes and rounds at the same points, so both compute the same bits."""
    return replace(WASM, triple=here.triple, cpu=here.cpu, features=here.features, pointer=8)


@cache
def machine() -> Any:
    """LLVM's target machine; raises `ConfigError` where LLVM was built without it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        found = llvm.Target.from_triple(WASM.triple)
    except RuntimeError as e:
        raise ConfigError(
            "to_wasm: this LLVM was built without WebAssembly; llvmlite's wheels from PyPI have it"
        ) from e
    return found.create_target_machine(opt=3, features=WASM.features, reloc="static")
