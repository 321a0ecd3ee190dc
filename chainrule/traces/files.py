"""Traces as JSON: written whole or not at all, read with every part checked.

    {"format": "chainrule trace", "version": 1, "name": …, "lines": {…},
     "arrays": [{"dtype": …, "shape": […], "data": base64}, …],
     "nodes": [{"kind": …, "op": …, "inputs": […], "value": array number | summary | null, …}, …],
     "sweeps": [{"result": …, "seed": …, "messages": […], "gradients": {node: …}}, …]}

Equal arrays are written once. Numbers are little-endian; bool, float16 and bfloat16 are widened to
uint8 and float32, complex numbers to pairs of float64.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, final

import numpy as np

from chainrule.errors import ConfigError
from chainrule.strict_json import loads
from chainrule.traces.check import check_trace
from chainrule.traces.trace import (
    Factor,
    Gather,
    Local,
    Matrix,
    Message,
    Node,
    Opaque,
    Product,
    Scatter,
    Summary,
    Sweep,
    Trace,
)

FORMAT = "chainrule trace"
VERSION = 1
MOST = 1 << 28
"""Bytes of a file that is read."""
FORMS: dict[str, type[Local]] = {
    c.__name__.lower(): c for c in (Factor, Product, Gather, Scatter, Matrix, Opaque)
}
_STORED = {"f": ("<f8", "<f4"), "i": ("<i4",), "u": ("|u1",)}
_DTYPES = {"<f8", "<f4", "<i4", "<i8", "|u1"}


# --- Writing -------------------------------------------------------------------------------------


def to_json(trace: Trace) -> str:
    """The trace as JSON, which reads back as the same trace."""
    return json.dumps(to_dict(trace), ensure_ascii=False, separators=(",", ":"))


def to_dict(trace: Trace) -> dict[str, Any]:
    """The trace as lists, dicts, numbers and strings."""
    arrays = _Arrays()
    nodes = [_node_dict(n, arrays) for n in trace.nodes]
    sweeps = [_sweep_dict(s, arrays) for s in trace.sweeps]
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": trace.name,
        "lines": dict(trace.lines),
        "nodes": nodes,
        "sweeps": sweeps,
        "arrays": arrays.written,
    }


@final
class _Arrays:
    """The table of arrays, each once."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self._known: dict[Any, int] = {}

    def put(self, x: Any) -> Any:
        """The number of an array in the table; a summary as a dict; None itself."""
        if x is None:
            return None
        if isinstance(x, Summary):
            return {f.name: getattr(x, f.name) for f in fields(Summary)}
        stored = np.ascontiguousarray(_stored(x))
        data = stored.tobytes()
        key = (str(x.dtype), x.shape, data)
        if key not in self._known:
            self._known[key] = len(self.written)
            text = base64.b64encode(data).decode()
            row = {"dtype": str(x.dtype), "stored": stored.dtype.str, "shape": list(x.shape)}
            self.written.append({**row, "data": text})
        return self._known[key]


def _stored(x: Any) -> Any:
    """The array in one of the dtypes that are stored."""
    kind = x.dtype.kind
    if kind == "c":
        return np.stack([x.real, x.imag], -1).astype("<f8")
    if kind == "b":
        return x.astype("|u1")
    if kind in "iu":
        small = x.size == 0 or (abs(int(x.min())) < 1 << 31 and abs(int(x.max())) < 1 << 31)
        return x.astype("<i4" if small else "<i8")
    return x.astype("<f8" if x.dtype == np.float64 else "<f4")


def _node_dict(n: Node, arrays: _Arrays) -> dict[str, Any]:
    out = {f.name: getattr(n, f.name) for f in fields(Node)}
    return out | {
        "inputs": list(n.inputs),
        "shape": list(n.shape),
        "value": arrays.put(n.value),
    }


def _sweep_dict(s: Sweep, arrays: _Arrays) -> dict[str, Any]:
    return {
        "result": s.result,
        "seed": arrays.put(s.seed),
        "messages": [
            {
                "node": m.node,
                "place": m.place,
                "target": m.target,
                "local": _local_dict(m.local, arrays),
                "contribution": arrays.put(m.contribution),
            }
            for m in s.messages
        ],
        "gradients": {str(i): arrays.put(g) for i, g in s.gradients.items()},
    }


def _local_dict(local: Local, arrays: _Arrays) -> dict[str, Any]:
    out: dict[str, Any] = {"form": type(local).__name__.lower()}
    for f in fields(local):
        x = getattr(local, f.name)
        if isinstance(x, np.ndarray):
            x = arrays.put(x)
        out[f.name] = list(x) if isinstance(x, tuple) else x
    return out


# --- Reading -------------------------------------------------------------------------------------


def read_trace(path: str | Path) -> Trace:
    """The trace in a JSON file. Raises `ConfigError` for a file that holds no whole trace."""
    where = Path(path)
    if where.stat().st_size > MOST:
        raise ConfigError(f"{where} is no trace: it is larger than {MOST:,} bytes")
    return from_json(where.read_bytes(), str(where))


def from_json(text: str | bytes, what: str = "this text") -> Trace:
    """The trace that JSON says. Raises `ConfigError` that names what is wrong with it."""
    try:
        found: Any = loads(text.encode() if isinstance(text, str) else text, MOST)
    except ValueError as error:
        raise ConfigError(f"{what} is no trace: it {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ConfigError(f"{what} is no trace: it does not say format {FORMAT!r}")
    if found.get("version") != VERSION:
        raise ConfigError(
            f"{what} is a trace of version {found.get('version')!r}; this chainrule reads version "
            f"{VERSION}: record it again"
        )
    try:
        trace = _trace_of(found)
        check_trace(trace)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ConfigError(f"{what} is a damaged trace: {error}") from None
    return trace


def _trace_of(found: Mapping[str, Any]) -> Trace:
    arrays = [_array(x) for x in found["arrays"]]

    def get(x: Any) -> Any:
        if x is None:
            return None
        if isinstance(x, dict):
            parts: dict[str, Any] = x
            return Summary(**{**parts, "shape": tuple(parts["shape"])})
        return arrays[_index(x, len(arrays))]

    nodes = tuple([_node(n, get) for n in found["nodes"]])
    sweeps = tuple([_sweep(s, get) for s in found["sweeps"]])
    lines = {str(k): str(v) for k, v in found["lines"].items()}
    return Trace(str(found["name"]), nodes, sweeps, lines)


def _index(x: Any, count: int) -> int:
    if type(x) is not int or not 0 <= x < count:
        raise ValueError(f"{x!r} is no number below {count}")
    return x


def _array(x: Mapping[str, Any]) -> Any:
    if x["stored"] not in _DTYPES:
        raise ValueError(f"arrays are not stored as {x['stored']!r}")
    try:
        data = base64.b64decode(x["data"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the data of an array: {error}") from None
    if x["dtype"] == "bfloat16":
        from chainrule.dtypes import bfloat16 as dtype  # which is loaded when used
    else:
        dtype = np.dtype(x["dtype"])
    shape = tuple([int(n) for n in x["shape"]])
    numbers = np.frombuffer(data, x["stored"])
    if np.dtype(dtype).kind == "c":
        pairs = numbers.reshape((*shape, 2))
        out = (pairs[..., 0] + 1j * pairs[..., 1]).astype(dtype)
    else:
        out = numbers.reshape(shape).astype(dtype)
    out.setflags(write=False)
    return out


def _node(n: Mapping[str, Any], get: Callable[[Any], Any]) -> Node:
    texts = {k: str(n[k]) for k in ("op", "dtype", "label", "line", "module", "formula")}
    return Node(
        kind=n["kind"],
        inputs=tuple(n["inputs"]),
        shape=tuple(n["shape"]),
        value=get(n["value"]),
        **texts,
    )


def _sweep(s: Mapping[str, Any], get: Callable[[Any], Any]) -> Sweep:
    messages = tuple(
        [
            Message(
                m["node"], m["place"], m["target"], _local(m["local"], get), get(m["contribution"])
            )
            for m in s["messages"]
        ]
    )
    gradients = {int(i): get(g) for i, g in s["gradients"].items()}
    return Sweep(s["result"], get(s["seed"]), messages, gradients)


def _local(x: Mapping[str, Any], get: Callable[[Any], Any]) -> Local:
    form = FORMS[x["form"]]
    out: dict[str, Any] = {}
    for f in fields(form):
        part = x[f.name]
        if str(f.type) == "Array":
            part = get(part)
        out[f.name] = tuple(part) if isinstance(part, list) else part
    return form(**out)
