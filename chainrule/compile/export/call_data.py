"""A compiled function's inputs and results: their names, their values now, the data of calls.

Notation: a batch is what one call is given: its arguments, and the numbers that it reads. `what` is
the method that asks, for errors: "to_c".
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast, final

import numpy as np

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.graph.terms import Program
from chainrule.compile.loops.statements import Host, Kernel, Routine, single, statements
from chainrule.compile.runtime.call.sized_program import Sized
from chainrule.compile.trace.variant import Variant
from chainrule.engine.op import Array
from chainrule.engine.source_text import definition_text
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, TraceError, describe
from chainrule.tree import Structure

Place = tuple[str, int, int]
"""A symbol, and the input and axis whose size it is."""


class Call(NamedTuple):
    """One call: the leaves of its arguments, and the structure that they came from."""

    leaves: Sequence[Any]
    structure: Structure


@final
@dataclass(frozen=True, slots=True)
class InputInfo:
    """An input of a program: what the user calls it, what it is, and whether every step has its
    own. What is not `read` is only written. A `gradient` holds one after the step."""

    path: str
    about: str
    each_step: bool
    gradient: bool = False
    read: bool = True


class Batch(NamedTuple):
    """Values of the symbols, and arrays in the order of those inputs that every step has anew."""

    sizes: dict[str, int]
    arrays: list[Array]

    def record(self, symbols: Sequence[str]) -> list[Array]:
        """What a file holds of it: the sizes that the program asks for, then the arrays."""
        return [np.array([self.sizes[s] for s in symbols], np.int64), *self.arrays]


def program_of(variant: Variant) -> tuple[Any, list[Place]]:
    """What runs the program of `variant`, and where its symbols come from."""
    run = variant.run
    return (run.run, run.places) if isinstance(run, Sized) else (run, [])


def read_state(variant: Variant, what: str) -> list[Array]:
    """The state as it is now: tensors, then gradients that are read."""
    return [_array(t.value) for t in _tensors(variant, what)] + _gradients(variant)


def _tensors(variant: Variant, what: str) -> list[Any]:
    """The state's tensors."""
    found = [h.tensor() for h in variant.held]
    if any(t is None for t in found):
        raise TraceError(f"{what}: a tensor that the function changes does not exist any more")
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


def read_batch(variant: Variant, leaves: Sequence[Any], what: str, *, drawn: bool = True) -> Batch:
    """What one call is given: settings are read, and random numbers `drawn`."""
    native, places = program_of(variant)
    program: Program = native.program
    given = [_array(x.value if isinstance(x, Tensor) else x)
             for x in [leaves[i] for i in variant.args]]  # fmt: skip
    sizes = {s: given[i].shape[a] for s, i, a in places}
    for x, t in zip(given, program.inputs, strict=False):
        wanted = tuple([size_at(n, sizes) for n in t.shape])
        if x.shape != wanted or x.dtype != t.dtype:
            raise ConfigError(
                f"{what}: a batch has {describe(x)} in the place of {t.dtype} {wanted}: "
                "fill it up, or declare the axis with jit(dynamic=...)"
            )
    numbers = [np.float64(n.read()) for n in variant.numbers]
    found = [(draw.take(), draw.read) for draw in variant.draws] if drawn else []
    arrays = [*given, *numbers, *[x for x, read in found if read]]
    return Batch(sizes, [_array(x) for x in arrays])


def _array(x: Any) -> Array:
    return np.asarray(x)


def refuse_changing(variant: Variant, what: str) -> None:
    """An error where the second call would not be like the first."""
    for h in variant.grads:
        if h.first is not None and h.last is not None and h.first is not h.last:
            raise TraceError(
                f"{what}: the next call finds gradients that this one does not find, so it is "
                "another program: call the function once before, or begin it with zero_grad()"
            )


def describe_inputs(
    f: Callable[..., Any], variant: Variant, first: Call, what: str
) -> list[InputInfo]:
    """The inputs of the program, in its order."""
    tensors = _tensors(variant, what)
    known = names_from_function(f, tensors)
    argument = argument_names(f, first.structure)
    out = [InputInfo(argument[i], "argument", True) for i in variant.args]
    for h, t in zip(variant.held, tensors, strict=True):
        about = "parameter" if t.requires_grad else "updated" if h.updated else "read only"
        out.append(InputInfo(known.get(id(t), "state"), about, False))
    for h in [h for h in variant.grads if h.read or h.written]:
        of = known.get(id(h.tensor()), "parameter")
        out.append(InputInfo(f"{of}.grad", "its gradient", False, gradient=True, read=h.read))
    out += [InputInfo(n.name, "a setting, read at every step", True) for n in variant.numbers]
    return out + [InputInfo("drawn", "random numbers", True) for d in variant.draws if d.read]


def argument_names(f: Callable[..., Any], structure: Structure) -> list[str]:
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


def name_results(f: Callable[..., Any], count: int) -> list[str]:
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


def file_of(path: str | Path, f: Callable[..., Any], suffix: str) -> Path:
    """The file that `path` names, or, in the folder that it is, one called as the function."""
    if Path(path).suffix == suffix:
        return Path(path)
    name = re.sub(r"\W+", "_", getattr(f, "__name__", "step")).strip("_") or "program"
    return Path(path) / f"{name}{suffix}"


def refuse_eager(kernels: Sequence[Kernel], what: str) -> None:
    """An error for an op that is a call of Python's, or of LAPACK: a file has neither."""
    for k in single(kernels):
        if any(isinstance(s, Host | Routine) for s in statements(k.body)):
            name, _, place = k.about[0].partition("  ")
            raise TraceError(
                f"{what}: {name.split()[0]} has no loops of its own: it is a call of LAPACK or of "
                f"Python, at {place or 'a line that is not known'}. Take it out of the compiled "
                "function, or compute it with other ops"
            )


def without_folders(words: str) -> str:
    """What a check says, with the name of the file alone: a file for others names no folder."""
    return re.sub(r" at \S*[/\\]", " at ", words)


# --- what the user calls inputs and results -------------------------------------------------------

_LIMIT = 100_000
"""How many objects are looked at."""


def names_from_function(f: Any, wanted: Iterable[Any]) -> dict[int, str]:
    """What to call the objects of `wanted`, by the id of each that is found.

    That is how `f` reaches it from its closure, its globals or its owner; or its name in the module
    that has it as a parameter. The shortest way wins, and one without private names over any other.
    """
    left = {id(x) for x in wanted}
    found: dict[int, str] = {}
    seen: set[int] = set()
    queue = [((name,), x) for name, x in _outer_names(f)]
    private: list[tuple[tuple[str, ...], Any]] = []
    while (queue or private) and left and len(seen) < _LIMIT:
        if not queue:
            queue, private = private, []
        level, queue = queue, []
        for path, x in level:
            for name, part in [(_spoken(path), x), *_members(x)]:
                if id(part) in left:
                    found[id(part)] = name
                    left.discard(id(part))
            if id(x) not in seen:
                seen.add(id(x))
                for name, part in _parts(x):
                    (private if name.startswith("_") else queue).append(((*path, name), part))
    return found


def _spoken(path: tuple[str, ...]) -> str:
    """A path as a name: what lies behind something private is its owner's."""
    words = [w for w in path if w]
    if any(w.startswith("_") for w in words):
        words = [words[0], words[-1]]
    return ".".join([w.strip("_") for w in words])


def _members(x: Any) -> Iterator[tuple[str, Any]]:
    """The parameters and buffers of a module."""
    for members in ("named_parameters", "named_buffers"):
        found: Any = getattr(x, members, None)
        if not isinstance(x, type) and callable(found):
            yield from cast("Iterator[tuple[str, Any]]", found())


def _outer_names(f: Any) -> Iterator[tuple[str, Any]]:
    """What the code of `f` names: its owner, its closure, the globals that it uses."""
    owner = getattr(f, "__self__", None)
    if owner is not None:
        yield "", owner
        f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None:
        yield "", f
        return
    for name, cell in zip(code.co_freevars, getattr(f, "__closure__", None) or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
    known: Mapping[str, Any] = getattr(f, "__globals__", {})
    yield from [(name, known[name]) for name in code.co_names if name in known]


def _parts(x: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, by name."""
    if isinstance(x, str | bytes | int | float | type | ModuleType):
        return
    if isinstance(x, Mapping):
        pairs = cast("Mapping[Any, Any]", x).items()
        yield from [(str(k), v) for k, v in pairs if isinstance(k, str | int)]
    elif isinstance(x, list | tuple | set | frozenset):
        yield from [(str(i), v) for i, v in enumerate(cast("Iterable[Any]", x))]
    elif hasattr(x, "__code__"):
        yield from _outer_names(x)
    elif hasattr(x, "__dict__"):
        yield from cast("dict[str, Any]", vars(x)).items()
