"""LLVM's passes over a module, for any of its targets."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm

INLINE = "alwaysinline"
"""The attribute of functions that become parts of who calls them."""


def run_passes(text: str, machine: Any) -> Any:
    """A module in LLVM's language as it is before it becomes code for `machine`.

    Kernels come vectorized, unrolled and without duplicates, and call nothing that could be
    inlined: so it takes LLVM's passes over functions, once, and none of those over modules. Only
    kernels of short loops become parts of these, which then are worth more.
    """
    module = llvm.parse_assembly(text)
    module.verify()
    inlining = INLINE in text
    options = llvm.create_pipeline_tuning_options(speed_level=2 if inlining else 1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if inlining:
        builder.getModulePassManager().run(module, builder)
        return module
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module
