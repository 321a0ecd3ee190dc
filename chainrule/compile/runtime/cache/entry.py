"""What an entry of the cache holds: a layout, the ops that run in Python, and an object file.

    body   := sizes text arrays code         sizes: three numbers of 8 bytes, little endian
    text   := JSON: what the entry is of, symbols, buffers, lives, duration, hosts, arrays' dtypes
              and shapes
    arrays := the elements of constants, one array after the other

It is data: no name in it is looked up but dtypes in a table and ops by their place in the program.
Every field is checked when it is read: whatever is no entry of this program is a `MalformedError`.
A buffer is a number, the place where the text describes it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from chainrule.compile.graph.sizes import Extent, Size
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.runtime.cache.checked_json import (
    MOST,
    MalformedError,
    number,
    record,
    sequence,
    word,
)
from chainrule.compile.runtime.scratch import Layout, Made
from chainrule.engine import dtypes
from chainrule.engine.op import Op, Spec
from chainrule.version import __version__

if TYPE_CHECKING:  # what is of ops that run in Python is loaded where there are some
    from chainrule.compile.graph.terms import Program
    from chainrule.compile.loops.statements import Host, Strided

_SIZES = struct.Struct("<QQQ")
_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
_ROLES = ("input", "state", "result", "scratch", "constant")
_T = TypeVar("_T")


@final
class UnwritableError(Exception):
    """What an entry cannot hold: an op that is none of the program's."""


def write(made: Made, program: Program, label: Sequence[str]) -> bytes:
    """The bytes of an entry. `label` says which program, compiler and machine it is of."""
    return _Writer(made, program).body(label)


def read(body: bytes, program: Program | None, label: Sequence[str]) -> Made:
    """What `write` was given; raises `MalformedError` for other bytes and for another label.

    Without the program it is not compared with that. Then no op may run in Python, and results
    have the dtypes of their memory.
    """
    if len(body) < _SIZES.size:
        raise MalformedError("too short")
    sizes = _SIZES.unpack_from(body)
    if sum(sizes) != len(body) - _SIZES.size:
        raise MalformedError("its sizes are not those of its parts")
    start = _SIZES.size
    middle, end = start + sizes[0], start + sizes[0] + sizes[1]
    try:
        text: Any = json.loads(body[start:middle])
    except (ValueError, RecursionError) as cause:
        raise MalformedError("its text is no JSON") from cause
    fields = record(text, _FIELDS)
    if fields["of"] != [__version__, *label]:
        raise MalformedError("it is of another program, compiler or machine")
    layout, hosts = _Reader(fields, body[middle:end], program).parts()
    return layout, hosts, body[end:]


_FIELDS = (
    "of", "symbols", "buffers", "objects", "scratch", "lives", "duration", "hosts", "arrays"
)  # fmt: skip


def _ops(program: Program) -> list[Op]:
    from chainrule.compile.graph.terms import in_order

    return list(dict.fromkeys([t.op for t in in_order(program.roots) if t.op is not None]))


# --- writing -------------------------------------------------------------------------------------


@final
class _Writer:
    def __init__(self, made: Made, program: Program) -> None:
        self._made = made
        self._ops = {op: i for i, op in enumerate(_ops(program) if made[1] else [])}
        self._buffers: dict[Buffer, int] = {}
        self._arrays: list[Any] = []

    def body(self, label: Sequence[str]) -> bytes:
        """The bytes of an entry."""
        layout, hosts, code = self._made
        fields: dict[str, Any] = {
            "of": [__version__, *label],
            "symbols": layout.symbols,
            "objects": [self._place(b) for b in layout.objects],
            "scratch": [self._place(b) for b in layout.scratch],
            "lives": [layout.lives[b] for b in layout.scratch],
            "duration": _extents([] if layout.duration is None else [layout.duration]),
            "hosts": [self._host(h) for h in hosts],
        }
        fields["buffers"] = [self._buffer(b) for b in self._buffers]
        fields["arrays"] = [(x.dtype.name, x.shape) for x in self._arrays]
        text = json.dumps(fields, separators=(",", ":")).encode()
        arrays = b"".join([x.tobytes() for x in self._arrays])
        return _SIZES.pack(len(text), len(arrays), len(code)) + text + arrays + code

    def _place(self, b: Buffer) -> int:
        return self._buffers.setdefault(b, len(self._buffers))

    def _buffer(self, b: Buffer) -> list[Any]:
        value = None
        if b.value is not None:
            value = len(self._arrays)
            self._arrays.append(np.asarray(b.value))
        return [b.name, b.dtype.name, _extents(b.shape), b.role, b.label, value]

    def _host(self, h: Host) -> list[Any]:
        from chainrule.compile.graph.compiled_ops import Fallback

        is_fallback = isinstance(h.op, Fallback)
        place = self._ops.get(h.op.op if is_fallback else h.op)
        if place is None:
            raise UnwritableError(str(h.op))
        when = None if h.when is None else self._place(h.when)
        ins, outs = ([self._strided_view(x) for x in xs] for xs in (h.inputs, h.outputs))
        return [place, is_fallback, ins, outs, when]

    def _strided_view(self, x: Strided) -> list[Any]:
        sizes = _extents(x.shape), _extents(x.strides)
        return [self._place(x.buffer), *_extents([x.offset]), *sizes]


def _extents(sizes: Sequence[Extent]) -> list[Any]:
    """Sizes as numbers, or as lists of (symbols, coefficient)."""
    return [n.terms if isinstance(n, Size) else int(n) for n in sizes]


# --- reading -------------------------------------------------------------------------------------


@final
class _Reader:
    def __init__(self, fields: dict[str, Any], raw: bytes, program: Program | None) -> None:
        self._fields, self._program = fields, program
        self._ops = _ops(program) if fields["hosts"] and program is not None else []
        symbols = tuple([word(s) for s in sequence(fields["symbols"])])
        if len(set(symbols)) != len(symbols):
            raise MalformedError("a symbol stands twice")
        self._symbols = symbols
        self._arrays = self._constants(raw)
        self._buffers = self._each("buffers", self._buffer)

    def parts(self) -> tuple[Layout, list[Host]]:
        objects, scratch = self._each("objects", self._at), self._each("scratch", self._at)
        specs = self._results(objects)
        lives = [(number(a), number(b)) for a, b in self._each("lives", lambda x: sequence(x, 2))]
        if len(lives) != len(scratch) or len(set(scratch)) != len(scratch):
            raise MalformedError("a buffer lives twice, or never")
        lifetimes = dict(zip(scratch, lives, strict=True))
        hosts = self._each("hosts", self._host)
        duration = self._extents(self._fields["duration"])
        if len(duration) > 1:
            raise MalformedError("it takes two times")
        known = duration[0] if duration else None
        return Layout(self._symbols, objects, specs, scratch, lifetimes, known), hosts

    def _results(self, objects: Sequence[Buffer]) -> list[Spec]:
        """Shapes and dtypes of the results, which are the last objects."""
        if self._program is None:
            return results_of(objects)
        inputs, results = self._program.inputs, self._program.results
        if len(objects) != len(inputs) + len(results):
            raise MalformedError("it has other inputs or results")
        return [t.spec for t in results]

    def _each(self, field: str, read: Callable[[Any], _T]) -> list[_T]:
        return [read(x) for x in sequence(self._fields[field])]

    def _constants(self, raw: bytes) -> list[Any]:
        """The arrays, which take up all of `raw`."""
        arrays: list[Any] = []
        start = 0
        for name, shape in self._each("arrays", lambda x: sequence(x, 2)):
            dtype, sizes = _dtype(name), [number(n) for n in sequence(shape)]
            count = math.prod(sizes)
            end = start + count * dtype.itemsize
            if end > len(raw) or len(sizes) > 64:
                raise MalformedError("an array is larger than its bytes")
            array = np.frombuffer(raw, dtype, count, start) if count else np.empty(0, dtype)
            arrays.append(array.reshape(sizes))
            start = end
        if start != len(raw):
            raise MalformedError("bytes are left over")
        return arrays

    def _buffer(self, x: Any) -> Buffer:
        name, dtype, shape, role, label, value = sequence(x, 6)
        sizes = self._extents(shape)
        if role not in _ROLES:
            raise MalformedError("a role that there is not")
        fixed = [n for n in sizes if isinstance(n, int)]
        if min(fixed, default=0) < 0 or math.prod(fixed) > MOST:
            raise MalformedError("a buffer that no memory holds")
        constant = None if value is None else _item(self._arrays, value)
        return Buffer(word(name), _dtype(dtype), sizes, role, constant, word(label))

    def _at(self, x: Any) -> Buffer:
        return _item(self._buffers, x)

    def _host(self, x: Any) -> Host:
        from chainrule.compile.graph.compiled_ops import Fallback
        from chainrule.compile.loops.statements import Host

        place, is_fallback, inputs, outputs, when = sequence(x, 5)
        op = _item(self._ops, place)
        if is_fallback not in (True, False):
            raise MalformedError("neither the op nor its eager form")
        ins, outs = ([self._strided_view(s) for s in sequence(xs)] for xs in (inputs, outputs))
        flag = None if when is None else self._at(when)
        return Host(Fallback(op) if is_fallback else op, tuple(ins), tuple(outs), flag)

    def _strided_view(self, x: Any) -> Strided:
        from chainrule.compile.loops.statements import Strided

        buffer, offset, shape, strides = sequence(x, 4)
        (start,), sizes, steps = map(self._extents, ([offset], shape, strides))
        if len(sizes) != len(steps):
            raise MalformedError("an axis without a stride")
        return Strided(self._at(buffer), start, sizes, steps)

    def _extents(self, x: Any) -> tuple[Extent, ...]:
        return tuple(
            [n if type(n) is int and -MOST <= n <= MOST else self._size(n) for n in sequence(x)]
        )

    def _size(self, x: Any) -> Size:
        terms = [sequence(term, 2) for term in sequence(x)]
        for symbols, coefficient in terms:
            number(coefficient, -MOST)
            if not all(s in self._symbols for s in sequence(symbols)):
                raise MalformedError("a symbol that is none of the program's")
        return Size(tuple([(tuple(symbols), c) for symbols, c in terms]))


def results_of(objects: Sequence[Buffer]) -> list[Spec]:
    """Shapes and dtypes of those objects that are results, as their memory has them."""
    return [Spec(b.shape, b.dtype) for b in objects if b.role == "result"]  # type: ignore[arg-type]


def _item(xs: Sequence[_T], place: Any) -> _T:
    index = number(place)
    if index >= len(xs):
        raise MalformedError("a place that there is not")
    return xs[index]


def _dtype(name: Any) -> np.dtype[Any]:
    if name not in _DTYPES:
        raise MalformedError("a dtype that there is not")
    return getattr(dtypes, name)
