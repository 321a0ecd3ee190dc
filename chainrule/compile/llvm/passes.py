"""LLVM's passes over a module, for any of its targets."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm

INLINE = "alwaysinline"
"""The attribute of functions that become parts of who calls them."""


def run_passes(text: str, machine: Any) -> Any:
    """A module in LLVM's language as it is before it becomes code for `machine`.

    Kernels come vectorized, unrolled, without duplicates and with what does not change outside of
    their loops. So one pass is enough, which makes registers of slots. What remains to be
    simplified is seen where instructions are chosen. Only kernels of short loops become parts of
    these, and are then worth LLVM's passes over modules.
    """
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if INLINE in text:
        builder.getModulePassManager().run(module, builder)
        return module
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module
