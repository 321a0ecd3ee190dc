"""A program that is loops already as one C file, and its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from chainrule.compile.c.arrays import Array
from chainrule.compile.c.export import Exported, title
from chainrule.compile.c.functions_file import FunctionsFile
from chainrule.compile.c.main import Reading, data_of
from chainrule.compile.c.names import Namer
from chainrule.compile.export.call_data import file_of
from chainrule.compile.export.loop_program import LoopProgram, Memory
from chainrule.compile.loops.expressions import Buffer
from chainrule.files.whole_files import write_whole

_KEPT = "kept for later parts of the step"


def export_loops(path: str | Path, f: Callable[..., Any], program: LoopProgram) -> Exported:
    """Write a program of `f`, and its data: the state, and what each of its calls is given."""
    file = file_of(path, f, ".c")
    data = file.with_suffix(".bin")
    source = _Source(program)
    steps = len(program.calls) if len(program.calls) > 1 else 100
    parameters = sum([p.size for m in program.state for p in m.named() if p.about == "parameter"])
    lines = [*title(f, file, parameters), *(["", *program.notes] if program.notes else [])]
    text = source.text(lines, data.name, steps)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)
    once = [*[m.value for m in program.state], *[a.value for a in source.read_constants]]
    write_whole(data, data_of(once, program.calls))
    return Exported(file, data)


@final
class _Source:
    """The arrays of a program, and its file."""

    def __init__(self, program: LoopProgram) -> None:
        self._program = program
        self._namer = Namer()
        self._file = FunctionsFile(self._namer, {})
        self._known: dict[Buffer, Array] = {}
        self._inputs, self._state, self._results = [
            [self._array(m) for m in memory]
            for memory in (program.inputs, program.state, program.results)
        ]
        outside = program.outside
        self._outside = None
        if outside is not None:
            self._outside = Array(self._namer("outside"), "outside", outside.dtype, (), "")
            self._known[outside] = self._outside
        self._rest = self._others()
        for name, kernels in program.phases:
            self._file.add_phase(name, kernels, self._known)

    def _array(self, m: Memory) -> Array:
        b = m.buffer
        parts = tuple([f"{p.path} {_shape(p.shape)}from {p.start} on" for p in m.parts])
        name = self._namer(m.path)
        array = Array(name, m.path, b.dtype, b.shape, f"; {m.about}", None, parts)
        self._known[b] = array
        return array

    def _others(self) -> dict[str, list[Array]]:
        """Arrays for all other memory: by the phase that alone uses it, or what is kept."""
        used: dict[Buffer, set[str]] = {}
        for name, kernels in self._program.phases:
            for k in kernels:
                for b in [b for side in k.buffers() for b in side]:
                    used.setdefault(b, set()).add(name)
        out: dict[str, list[Array]] = {}
        for b, phases in used.items():
            if b in self._known:
                continue
            array = Array(self._namer(b.name), b.name, b.dtype, b.shape, "", b.value)
            self._known[b] = array
            section = next(iter(phases)) if len(phases) == 1 else _KEPT
            out.setdefault("constants" if b.value is not None else section, []).append(array)
        return out

    @property
    def read_constants(self) -> list[Array]:
        """The constants that are too large for the text."""
        return [a for a in self._rest.get("constants", []) if not a.is_inline]

    def text(self, lines: Sequence[str], data: str, steps: int) -> str:
        """The file."""
        rest = dict(self._rest)
        outside = [] if self._outside is None else [self._outside]
        sections = [
            ("given anew at every step", self._inputs),
            ("the state, which lives on from step to step", self._state),
            ("constants", rest.pop("constants", [])),
            ("results", [*self._results, *outside]),
            (_KEPT, rest.pop(_KEPT, [])),
            *[(f"used within {name}() only", found) for name, found in rest.items()],
        ]
        reading = Reading(
            [*self._state, *self.read_constants],
            self._state,
            self._inputs,
            self._results,
            self._outside,
            list(self._program.checks),
            asks_first=True,
        )
        return self._file.text(lines, sections, reading, data, steps)


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}) " if len(shape) > 1 or np.prod(shape) > 1 else ""
