"""`step.to_c(path, ...)`: what a compiled function would run, written in C, and the data beside it.

Notation: a batch is what one call is given: its arguments, and the numbers that it reads.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from chainrule.compile.c.data import write_data
from chainrule.compile.c.names import called
from chainrule.compile.c.source import Given, Source
from chainrule.compile.calling.joined import Sized
from chainrule.compile.terms.sizes import bound
from chainrule.compile.terms.terms import Program
from chainrule.compile.tracing.state import Variant
from chainrule.errors import ConfigError, TraceError, describe
from chainrule.op import Array
from chainrule.source_text import definition_text
from chainrule.tensors import Tensor
from chainrule.tree import Structure


class Exported(NamedTuple):
    """The two files."""

    source: Path
    data: Path


class Call(NamedTuple):
    """One call: the leaves of its arguments, and the structure that they came from."""

    leaves: Sequence[Any]
    structure: Structure


T = TypeVar("T")
Place = tuple[str, int, int]
"""A symbol, and the input and axis whose size it is."""


def export(
    path: str | Path,
    f: Callable[..., Any],
    variant: Variant,
    first: Call,
    calls: Iterable[Sequence[Any]],
) -> Exported:
    """Write the program of `variant`, which `f` was traced to on the arguments `first`, and the
    data of `calls`, given by their leaves, which are made in turn: between two of them their
    iterator may do what a training loop does."""
    _refuse_changing(variant)
    run = variant.run
    native: Any = run.run if isinstance(run, Sized) else run
    program: Program = native.program
    places: list[Place] = run.places if isinstance(run, Sized) else []
    state = [_array(t.value) for t in _tensors(variant)] + _gradients(variant)
    batches = [_batch(variant, program, leaves, places) for leaves in calls]
    largest = {s: max([b.sizes[s] for b in batches]) for s, _, _ in places}
    source = Source(
        program,
        _given(f, variant, first),
        _result_names(f, len(program.results) - bool(native.checks)),
        largest=largest,
        checks=native.checks,
    )
    name = re.sub(r"\W+", "_", getattr(f, "__name__", "step")).strip("_") or "program"
    file = Path(path) if Path(path).suffix == ".c" else Path(path) / f"{name}.c"
    data = file.with_suffix(".bin")
    steps = len(batches) if len(batches) > 1 else 100
    text = source.text(_title(f, file, program, source), data.name, steps)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    with data.open("wb") as out:
        constants = [a.value for a in source.read_constants]
        write_data(out, [*state, *constants], [b.record(source.symbols) for b in batches])
    return Exported(file, data)


# --- what is read --------------------------------------------------------------------------------


class _Batch(NamedTuple):
    sizes: dict[str, int]
    arrays: list[Array]

    def record(self, symbols: Sequence[str]) -> list[Array]:
        """What the file holds of it: the sizes that the program asks for, then the arrays."""
        return [np.array([self.sizes[s] for s in symbols], np.int64), *self.arrays]


def _tensors(variant: Variant) -> list[Any]:
    """The state's tensors."""
    found = [h.tensor() for h in variant.held]
    if any(t is None for t in found):
        raise TraceError("to_c: a tensor that the function changes does not exist any more")
    return found


def _gradients(variant: Variant) -> list[Array]:
    """The gradients that are read, as they are now; zeros where there is none yet."""
    out: list[Array] = []
    for h in [h for h in variant.grads if h.read]:
        tensor = h.tensor()
        grad = None if tensor is None else tensor.grad
        zeros = np.zeros(h.spec.shape, h.spec.dtype)
        out.append(zeros if grad is None else _array(grad.value))
    return out


def _batch(
    variant: Variant, program: Program, leaves: Sequence[Any], places: Sequence[Place]
) -> _Batch:
    """What one call is given."""
    given = [_array(x.value if isinstance(x, Tensor) else x)
             for x in [leaves[i] for i in variant.args]]  # fmt: skip
    sizes = {s: given[i].shape[a] for s, i, a in places}
    for x, t in zip(given, program.inputs, strict=False):
        wanted = tuple([bound(n, sizes) for n in t.shape])
        if x.shape != wanted or x.dtype != t.dtype:
            raise ConfigError(
                f"to_c: a batch has {describe(x)} in the place of {t.dtype} {wanted}: fill it up, "
                "or declare the axis with jit(dynamic=...)"
            )
    numbers = [np.float64(n.read()) for n in variant.numbers]
    drawn = [(draw.take(), draw.read) for draw in variant.draws]
    arrays = [*given, *numbers, *[x for x, read in drawn if read]]
    return _Batch(sizes, [_array(x) for x in arrays])


def _array(x: Any) -> Array:
    return np.asarray(x)


def _refuse_changing(variant: Variant) -> None:
    """An error where the second call would not be like the first."""
    for h in variant.grads:
        if h.first is not None and h.last is not None and h.first is not h.last:
            raise TraceError(
                "to_c: the next call finds gradients that this one does not find, so it is another "
                "program: call the function once before, or begin it with zero_grad()"
            )


# --- what it is called ---------------------------------------------------------------------------


def _given(f: Callable[..., Any], variant: Variant, first: Call) -> list[Given]:
    """The inputs of the program, in its order."""
    tensors = _tensors(variant)
    known = called(f, tensors)
    argument = _argument_names(f, first.structure)
    out = [Given(argument[i], "argument", True) for i in variant.args]
    for h, t in zip(variant.held, tensors, strict=True):
        about = "parameter" if t.requires_grad else "updated" if h.updated else "read only"
        out.append(Given(known.get(id(t), "state"), about, False))
    for h in [h for h in variant.grads if h.read or h.written]:
        of = known.get(id(h.tensor()), "parameter")
        out.append(Given(f"{of}.grad", "its gradient", False, gradient=True, read=h.read))
    out += [Given(n.name, "a setting, read at every step", True) for n in variant.numbers]
    return out + [Given("drawn", "random numbers", True) for d in variant.draws if d.read]


def _argument_names(f: Callable[..., Any], structure: Structure) -> list[str]:
    """By leaf of the arguments: `x`, or `batch.images` within a container."""
    positional, named = structure.children
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    out: list[str] = []
    for i, child in enumerate(positional.children):
        out += _leaf_paths(names[i] if i < len(names) else f"argument{i}", child)
    for key, child in zip(named.keys, named.children, strict=True):
        out += _leaf_paths(str(key), child)
    return out


def _leaf_paths(path: str, s: Structure) -> Iterator[str]:
    if s.kind is None:
        yield path
    keys = s.keys or range(len(s.children))
    for key, child in zip(keys, s.children, strict=True):
        yield from _leaf_paths(f"{path}.{key}", child)


def _result_names(f: Callable[..., Any], count: int) -> list[str]:
    """The names in the function's one `return`, where it has them."""
    found: list[list[str]] = []
    try:
        tree = ast.parse(textwrap.dedent(definition_text(f)))
    except SyntaxError:
        tree = ast.Module([], [])
    for x in ast.walk(tree):
        if isinstance(x, ast.Return) and x.value is not None:
            parts = x.value.elts if isinstance(x.value, ast.Tuple) else [x.value]
            found.append([p.id if isinstance(p, ast.Name) else "" for p in parts])
    names = found[0] if len(found) == 1 and len(found[0]) == count else [""] * count
    return [n or ("result" if count == 1 else f"result{i}") for i, n in enumerate(names)]


def _title(f: Callable[..., Any], file: Path, program: Program, source: Source) -> list[str]:
    code = getattr(f, "__code__", None)
    place = f" of {Path(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""
    shapes: list[tuple[int, ...]] = [
        t.shape for t, g in zip(program.inputs, source.given, strict=True) if g.about == "parameter"
    ]
    parameters = sum(map(math.prod, shapes))
    made = f", which has {parameters:,} parameters" if parameters else ""
    stem = file.stem
    return [
        f"{getattr(f, '__name__', 'a function')}(){place} in C, written by chainrule{made}.",
        "",
        f"  gcc -O2 -std=c99 {file.name} -o {stem} -lm && ./{stem}",
        "",
        f"Reads {stem}.bin: what there was when it was written, and the data. After the name can",
        f"come the number of steps, another path of {stem}.bin, and a file for the state that is",
        "left at the end. With -O3 -march=native it is faster.",
    ]


def spread_first(calls: Iterable[T]) -> tuple[T, Iterator[T]]:
    """The first call, and all of them; the others are asked for later."""
    rest = iter(calls)
    for first in rest:
        return first, chain([first], rest)
    raise ConfigError("to_c: there is no batch to write")
