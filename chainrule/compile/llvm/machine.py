"""What the processor here can do."""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, final

import llvmlite.binding as llvm


@final
@dataclass(frozen=True, slots=True)
class Machine:
    """`vector` bytes in a register, `registers` of them; `cpu` and `features` in LLVM's words."""

    cpu: str
    features: str
    vector: int
    registers: int
    fma: bool

    def lanes(self, itemsize: int) -> int:
        """How many numbers of that size fit into a register."""
        return max(1, self.vector // itemsize)


@cache
def host() -> Machine:
    """This machine."""
    start()
    has: dict[str, bool] = dict(llvm.get_host_cpu_features())
    vector = 64 if has.get("avx512f") else 32 if has.get("avx2") else 16
    triple = llvm.get_process_triple()
    arm = "aarch64" in triple or "arm64" in triple
    registers = 32 if vector == 64 or arm else 16
    fma = bool(has.get("fma")) or arm
    features = llvm.get_host_cpu_features().flatten()
    return Machine(llvm.get_host_cpu_name(), features, vector, registers, fma)


@cache
def start() -> None:
    """Prepare LLVM for code that runs here; once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def target() -> Any:
    """LLVM's target machine for code that runs here: a new one, since an engine takes it over."""
    m = host()
    # "jitdefault" takes any address; position-independent code would go through tables
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=m.cpu, features=m.features, opt=2, reloc="default", codemodel="jitdefault", jit=True
    )
