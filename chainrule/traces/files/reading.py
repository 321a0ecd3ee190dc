"""A trace of what a file says, of which nothing is taken at its word."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import ConfigError
from chainrule.files.strict_json import loads
from chainrule.traces.check import check_trace
from chainrule.traces.files.form import (
    DTYPES,
    ELEMENTS,
    FORMAT,
    FORMS,
    MEASURED,
    MOST,
    NAMED,
    UNSAID,
    VERSION,
)
from chainrule.traces.kept_values import is_array
from chainrule.traces.trace import (
    Certificate,
    Local,
    Message,
    Node,
    Summary,
    Sweep,
    Trace,
)

Table = Mapping[str, Any]
_DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


def read_trace(path: str | Path) -> Trace:
    """The trace in a JSON file. Raises `ConfigError` for a file that holds no whole trace."""
    where = Path(path)
    try:
        if where.stat().st_size > MOST:
            raise ConfigError(f"{where} is no trace: it is larger than {MOST:,} bytes")
        data = where.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror or error}") from None
    return from_json(data, str(where))


def from_json(text: str | bytes, what: str = "this text") -> Trace:
    """The trace that JSON says. Raises `ConfigError` that names what is wrong with it."""
    try:
        found: Any = loads(text.encode() if isinstance(text, str) else text, MOST)
    except ValueError as error:
        raise ConfigError(f"{what} is no trace: it {error}") from None
    table = _table_or_none(found)
    if table.get("format") != FORMAT:
        raise ConfigError(f"{what} is no trace: it does not say format {FORMAT!r}")
    if table.get("version") != VERSION:
        raise ConfigError(
            f"{what} is a trace of version {table.get('version')!r:.40}; this chainrule reads "
            f"version {VERSION}: record it again"
        )
    try:
        trace = _trace_of(table)
        check_trace(trace)
    except _DAMAGE as error:
        raise ConfigError(f"{what} is a damaged trace: {_reason(error)}") from None
    return trace


def _table_or_none(x: Any) -> dict[str, Any]:
    return x if isinstance(x, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _reason(error: Exception) -> str:
    """What was wrong, as the end of a sentence of one line."""
    said = " ".join(str(error).split())
    return f"{said:.200}" if not isinstance(error, KeyError) else f"it lacks {said:.80}"


def _trace_of(found: Table) -> Trace:
    """The trace that a table of a file describes."""
    arrays = [_array(_table(x)) for x in _list(found["arrays"])]
    numbers = np.frombuffer(_bytes(found["numbers"]), "<f8").astype(np.float64)
    numbers.setflags(write=False)

    def get(x: Any) -> Any:
        if x is None:
            return None
        if isinstance(x, dict):
            return _summary(_table(x))
        if type(x) is int and x < 0:
            return numbers[_index(-1 - x, len(numbers)), ...]  # an array without axes
        return arrays[_index(x, len(arrays))]

    nodes = tuple([_node(_table(n), get) for n in _list(found["nodes"])])
    sweeps = tuple([_sweep(_table(s), get) for s in _list(found["sweeps"])])
    lines = {k: _text(v) for k, v in _table(found["lines"]).items()}
    return Trace(_text(found["name"]), nodes, sweeps, lines)


def _table(x: Any) -> dict[str, Any]:
    if not isinstance(x, dict):
        raise ValueError(f"{x!r:.40} stands where an object belongs")
    return x  # pyright: ignore[reportUnknownVariableType]


def _list(x: Any) -> list[Any]:
    if not isinstance(x, list):
        raise ValueError(f"{x!r:.40} stands where a list belongs")
    return x  # pyright: ignore[reportUnknownVariableType]


def _text(x: Any) -> str:
    if not isinstance(x, str):
        raise ValueError(f"{x!r:.40} stands where a text belongs")
    return x


def _number(x: Any) -> float:
    if isinstance(x, bool) or not isinstance(x, int | float):
        raise ValueError(f"{x!r:.40} stands where a number belongs")
    return float(x)


def _whole(x: Any) -> int:
    if type(x) is not int or abs(x) >= 1 << 62:
        raise ValueError(f"{x!r:.40} stands where a whole number belongs")
    return x


def _sizes(x: Any) -> tuple[int, ...]:
    return tuple([_whole(n) for n in _list(x)])


def _index(x: Any, count: int) -> int:
    if type(x) is not int or not 0 <= x < count:
        raise ValueError(f"{x!r:.40} is no number below {count}")
    return x


def _summary(x: Table) -> Summary:
    numbers = {name: _number(x[name]) for name in ("low", "high", "mean", "norm")}
    bad = _whole(x["not_finite"])
    return Summary(_text(x["dtype"]), _sizes(x["shape"]), **numbers, not_finite=bad)


def _array(x: Table) -> Any:
    """An array of a file, in its own dtype; raises `ValueError` if the bytes do not fit."""
    if x["stored"] not in DTYPES:
        raise ValueError(f"arrays are not stored as {x['stored']!r:.40}")
    data = _bytes(x["data"])
    dtype, shape = _dtype(_text(x["dtype"])), _sizes(x["shape"])
    numbers = np.frombuffer(data, x["stored"])
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            pairs = numbers.reshape((*shape, 2))
            out = np.empty(shape, dtype)
            out.real, out.imag = pairs[..., 0], pairs[..., 1]
        else:
            out = numbers.reshape(shape).astype(dtype)
    out.setflags(write=False)
    return out


def _bytes(x: Any) -> bytes:
    try:
        return base64.b64decode(_text(x), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the data of an array: {error}") from None


def _dtype(name: str) -> Any:
    if name == "bfloat16":
        from chainrule.engine.dtypes import bfloat16  # which is loaded when used

        return np.dtype(bfloat16)
    dtype = np.dtype(name)
    if dtype.kind not in "fciub" or dtype.name != name:
        raise ValueError(f"there are no arrays of {name!r:.40}")
    return dtype


def _node(n: Table, get: Callable[[Any], Any]) -> Node:
    texts = {k: _text(n[k]) for k in ("op", "dtype")}
    texts |= {k: _text(n.get(k, "")) for k in UNSAID}
    kind: Any = _text(n["kind"])
    value = get(n["value"])
    return Node(
        kind=kind, inputs=_sizes(n["inputs"]), shape=_sizes(n["shape"]), value=value, **texts
    )


def _sweep(s: Table, get: Callable[[Any], Any]) -> Sweep:
    messages = [_message(_table(m), get) for m in _list(s["messages"])]
    gradients, more = [
        {int(i): get(g) for i, g in _table(s.get(name, {})).items()}
        for name in ("gradients", "more")
    ]
    found = _table(s.get("certificates", {})).items()
    certificates = {int(i): c for i, x in found if (c := _certificate(x, get)) is not None}
    return Sweep(
        _whole(s["result"]), get(s["seed"]), tuple(messages), gradients, more, certificates
    )


def _message(m: Table, get: Callable[[Any], Any]) -> Message:
    node, place, target = [_whole(m[name]) for name in ("node", "place", "target")]
    local, certificate = _local(_table(m["local"]), get), _certificate(m.get("certificate"), get)
    return Message(node, place, target, local, get(m["contribution"]), certificate)


def _certificate(x: Any, get: Callable[[Any], Any]) -> Certificate | None:
    if x is None:
        return None
    c = _table(x)
    verdict: Any = _text(c["verdict"])
    difference, bound = [math.nan if c[n] is None else _number(c[n]) for n in MEASURED]
    parts: dict[str, Any] = {n: _text(c.get(n, "")) for n in NAMED}
    parts |= {n: None if c.get(n) is None else _numbers(get(c[n])) for n in ELEMENTS}
    return Certificate(difference, bound, verdict, **parts)


def _local(x: Table, get: Callable[[Any], Any]) -> Local:
    form = FORMS[_text(x["form"])]
    kinds: dict[str, Callable[[Any], Any]] = {
        "Array": lambda part: _numbers(get(part)),
        "str": _text,
        "int": _whole,
        "bool": _flag,
        "tuple[str, ...]": lambda part: tuple([_text(p) for p in _list(part)]),
    }
    named = [(f.name, kinds[str(f.type)]) for f in fields(form)]
    return form(**{name: read(x[name]) for name, read in named if name != "strong" or name in x})


def _numbers(x: Any) -> Any:
    if not is_array(x):
        raise ValueError("a local derivative lacks its numbers")
    return x


def _flag(x: Any) -> bool:
    if not isinstance(x, bool):
        raise ValueError(f"{x!r:.40} stands where true or false belongs")
    return x
