"""The text of a C file: arrays, helpers, a function for each kernel, phases, `main`.

Kernels that do the same to different arrays share a function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from chainrule.compile.c import comments
from chainrule.compile.c import functions as fn
from chainrule.compile.c.arrays import Array
from chainrule.compile.c.main import Reading, main_text
from chainrule.compile.c.names import Namer
from chainrule.compile.c.statements import Function, Helpers, function, mentions
from chainrule.compile.export.call_data import refuse_eager
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Kernel, loop_of

_HEADERS = ("math", "stdbool", "stdint", "stdio", "stdlib")


@final
@dataclass(slots=True)
class _Called:
    """A function of the file, and the kernels that are calls of it."""

    name: str
    function: Function
    kernels: list[Kernel] = field(default_factory=list[Kernel])


@final
class FunctionsFile:
    """A file as it is being written; `largest` are the sizes for which arrays have room."""

    def __init__(self, namer: Namer, largest: Mapping[str, int]) -> None:
        self.namer, self.largest = namer, largest
        self.helpers: Helpers = {}
        self.symbols: tuple[str, ...] = ()
        self._calls: dict[str, list[str]] = {}
        self._functions: dict[str, dict[object, _Called]] = {}

    def add_phase(
        self,
        name: str,
        kernels: Sequence[Kernel],
        arrays: Mapping[Buffer, Array],
        symbols: Sequence[str] = (),
    ) -> None:
        """One more phase: a function that calls these kernels' functions, for these arrays."""
        self.symbols = tuple(sorted({*self.symbols, *symbols}))
        self._functions[name] = {}
        self._calls[name] = [
            line for kernel in kernels for line in self._call(name, kernel, arrays, symbols)
        ]

    def _call(
        self, phase: str, kernel: Kernel, arrays: Mapping[Buffer, Array], symbols: Sequence[str]
    ) -> list[str]:
        """The call of a kernel; kernels that do the same to different arrays share a function."""
        if (loop := loop_of(kernel)) is not None:
            inner = [y for k in loop.kernels for y in self._call(phase, k, arrays, symbols)]
            return [f"while ({arrays[loop.going].name}[0]) {{", *[f"    {y}" for y in inner], "}"]
        refuse_eager([kernel], "to_c")
        read, written = kernel.buffers()
        plain = {b: f"array{i}" for i, b in enumerate(dict.fromkeys([*written, *read]))}
        same = function(kernel, plain, symbols, self.helpers)
        known = self._functions[phase]
        key = (same.parameters, same.lines)
        if key not in known:
            words = "_".join(comments.kernel_words(kernel)[:3])
            name = self.namer(f"{words}_{phase}")
            paths = {b: arrays[b].path for b in plain}
            known[key] = _Called(name, function(kernel, paths, symbols, self.helpers))
        known[key].kernels.append(kernel)
        passed = [f"{arrays[b].name} + {n}" if n else arrays[b].name for b, n in same.passed]
        return comments.comma_list(f"{known[key].name}(", [*passed, *same.symbols], ");")

    def text(
        self,
        title: Sequence[str],
        sections: Sequence[tuple[str, Sequence[Array]]],
        reading: Reading,
        data: str,
        steps: int,
    ) -> str:
        """The file; `title` are lines of its first comment, `sections` its arrays, `data` is the
        name of the data's, `steps` how many `main` takes unless it is told."""
        calls = [f"{p}({', '.join(self._sizes_of_phase(p))});" for p in self._calls]
        memory = [self._section(head, list(dict.fromkeys(a))) for head, a in sections if a]
        parts = [
            comment(title),
            "".join([f"#include <{h}.h>\n" for h in _HEADERS]),
            "\n".join(memory),
            *[fn.helper(name, dtype) for name, dtype in self.helpers],
            *[self._phase_text(p) for p in self._calls],
            main_text(reading, calls, self.symbols, data, steps),
        ]
        return "\n".join([p for p in parts if p])

    def _section(self, head: str, arrays: Iterable[Array]) -> str:
        lines = [f"{a.declared(self.largest)}\n" for a in arrays]
        return f"/* {head} */\n{''.join(lines)}"

    def _phase_text(self, phase: str) -> str:
        functions = [self._function_text(c) for c in self._functions[phase].values()]
        arguments = ", ".join([f"int {s}" for s in self._sizes_of_phase(phase)]) or "void"
        head = f"static void {phase}({arguments}) {{\n"
        calls = "".join([f"    {line}\n" for line in self._calls[phase]])
        return "\n".join([f"/* ---- {phase} ---- */\n", *functions, f"{head}{calls}}}\n"])

    def _sizes_of_phase(self, phase: str) -> list[str]:
        """The sizes that a phase is told."""
        return [s for s in self.symbols if mentions(self._calls[phase], s)]

    def _function_text(self, c: _Called) -> str:
        head = "\n".join(comments.comma_list(f"static void {c.name}(", c.function.parameters, ")"))
        body = "".join([f"    {line}\n" for line in c.function.lines])
        return f"{comment(comments.kernel_comment(c.kernels))}{head} {{\n{body}}}\n"


def comment(lines: Sequence[str]) -> str:
    """Lines as a comment."""
    text = "\n".join([f"   {line}".rstrip() for line in lines])
    return f"/* {text.strip()} */\n"
