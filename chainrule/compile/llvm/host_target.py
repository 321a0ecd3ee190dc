"""The processor here as a target, and modules that know what they are for."""

from __future__ import annotations

from functools import cache
from typing import Any, final

import llvmlite.binding as llvm
from llvmlite import ir

from chainrule.compile.target import Target


@final
class TargetModule(ir.Module):
    """A module in LLVM's language that is written for one target."""

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name)
        self.target = target
        self.triple = target.triple


@cache
def host() -> Target:
    """This machine."""
    start()
    features = llvm.get_host_cpu_features()
    has: dict[str, bool] = dict(features)
    vector = 64 if has.get("avx512f") else 32 if has.get("avx2") else 16
    triple = llvm.get_process_triple()
    return Target(
        triple=triple,
        cpu=llvm.get_host_cpu_name(),
        features=features.flatten(),
        vector=vector,
        registers=32 if vector == 64 or _is_arm(triple) else 16,
        fma=has_fma(triple, has),
        scalef=bool(has.get("avx512f") and has.get("avx512vl")),
        pointer=8,
        line=64,
        threads=True,
        libraries=True,
    )


def has_fma(triple: str, features: dict[str, bool]) -> bool:
    """Whether processors of `triple` with these features multiply and add at once. On x86 that is
    a feature, `fma`; on 64-bit ARM each processor does it, and no feature is named so."""
    return _is_arm(triple) or bool(features.get("fma"))


def _is_arm(triple: str) -> bool:
    return triple.startswith(("aarch64", "arm64"))


@cache
def start() -> None:
    """Prepare LLVM for code that runs here; once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def target() -> Any:
    """LLVM's target machine for code that runs here: a new one, since an engine takes it over."""
    m = host()
    # "jitdefault" takes any address; position-independent code would go through tables. At level 2
    # instructions would be put in order once more, which takes a tenth of the time
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=m.cpu, features=m.features, opt=1, reloc="default", codemodel="jitdefault", jit=True
    )
