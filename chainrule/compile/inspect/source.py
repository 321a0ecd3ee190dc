"""The code of one kernel: in the loop language, in LLVM's, in the machine's."""

from __future__ import annotations

import re
from typing import Literal

from chainrule.compile.cpu.program_module import emit
from chainrule.compile.loops.statements import Host, Kernel, Loops
from chainrule.compile.runtime.machine_code import optimize
from chainrule.compile.runtime.native_program import Native
from chainrule.errors import ConfigError

Language = Literal["assembly", "llvm", "loops"]


def source_of(native: Native, name: str, language: Language) -> str:
    """What `Jitted.source_of` says, of `native`."""
    kernel = _kernel(native, name)
    if language == "loops":
        return str(kernel)
    if language not in ("assembly", "llvm"):
        raise ConfigError(f"source_of: the language is assembly, llvm or loops, not {language!r}")
    if any(isinstance(s, Host) for s in kernel.body):
        raise ConfigError(f"source_of: {name} runs in its eager form, so it has no machine code")
    loops = native.loops
    alone = Loops(loops.buffers, [kernel], loops.symbols)
    objects = [b for b in loops.buffers if b.role != "constant"]
    module, machine = optimize(str(emit(alone, objects, [], native.target).ir))
    if language == "llvm":
        return str(module.get_function(name)).strip() + "\n"
    return _cut(machine.emit_assembly(module), name)


def _kernel(native: Native, name: str) -> Kernel:
    kernels = {k.name: k for k in native.loops.kernels}
    if name not in kernels:
        raise ConfigError(
            f"source_of: there is no kernel {name!r}; there are {', '.join(kernels) or 'none'}"
        )
    return kernels[name]


def _cut(assembly: str, name: str) -> str:
    """The lines of one function: from its label to its end."""
    found = re.search(rf"^_?{re.escape(name)}:.*?(?=^\S*func_end\d+:|\Z)", assembly, re.M | re.S)
    assert found is not None, f"the assembly has no function {name}"
    return found[0]
