"""Compiles one function of the native mathematics to a loop over arrays that a test can call."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
from llvmlite import binding, ir

from chainrule.compile import mathlib
from chainrule.compile.llvm.host_target import TargetModule, host


def machine():
    """A new one each time: the engine that is given it frees it."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=2
    )


def loop(name, dtype, arity, width, target=None):
    """The module: `f(out, xs..., n)` works off n numbers, n a multiple of the width."""
    element = ir.FloatType() if dtype == np.float32 else ir.DoubleType()
    kind = ir.VectorType(element, width) if width > 1 else element
    target = target or host()
    module, size = TargetModule("lanes", target), ir.IntType(64)
    pointer = ir.PointerType()
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [pointer] * (1 + arity) + [size]), "f"
    )
    *pointers, n = function.args
    start, body, end = (function.append_basic_block(s) for s in ("start", "body", "end"))
    b = ir.IRBuilder(start)
    b.cbranch(b.icmp_signed(">", n, size(0)), body, end)
    b.position_at_end(body)
    i = b.phi(size)
    i.add_incoming(size(0), start)
    places = [b.gep(p, [i], source_etype=element) for p in pointers]
    xs = [b.load(p, typ=kind, align=4) for p in places[1:]]
    b.store(mathlib.emit(name, b, *xs, target=target), places[0], align=4)
    after = b.add(i, size(width))
    i.add_incoming(after, b.block)
    b.cbranch(b.icmp_signed("<", after, n), body, end)
    ir.IRBuilder(end).ret_void()
    return module


@cache
def native(name, dtype, arity, width, target=None, optimize=True):
    """The function as a callable of NumPy arrays of that dtype."""
    code = binding.parse_assembly(str(loop(name, dtype, arity, width, target)))
    code.verify()
    if optimize:
        options, host = binding.create_pipeline_tuning_options(speed_level=2), machine()
        passes = binding.create_pass_builder(host, options)
        passes.getModulePassManager().run(code, passes)
    engine = binding.create_mcjit_compiler(code, machine())
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + arity), ctypes.c_int64)
    call = prototype(engine.get_function_address("f"))

    def run(*xs):
        xs = [np.ascontiguousarray(x, dtype) for x in xs]
        n = xs[0].size
        full = -(-n // width) * width
        xs = [np.concatenate([x.ravel(), np.ones(full - n, dtype)]) for x in xs]
        out = np.empty(full, dtype)
        call(out.ctypes.data, *(x.ctypes.data for x in xs), full)
        return out[:n]

    run.engine, run.call = engine, call
    return run
