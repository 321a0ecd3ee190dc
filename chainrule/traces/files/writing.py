"""A trace as lists, dicts, numbers and strings."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import fields
from typing import Any, final

import numpy as np

from chainrule.traces.files.form import (
    ELEMENTS,
    FORMAT,
    MEASURED,
    NAMED,
    UNSAID,
    VERSION,
)
from chainrule.traces.kept_values import is_array
from chainrule.traces.trace import (
    Certificate,
    Local,
    Node,
    Summary,
    Sweep,
    Trace,
)


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
        "numbers": base64.b64encode(np.array(arrays.numbers, "<f8").tobytes()).decode(),
    }


@final
class _Arrays:
    """The table of arrays, each once, and that of single numbers of float64."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.numbers: list[Any] = []
        self._known: dict[Any, int] = {}

    def put(self, x: Any) -> Any:
        """The number of an array in the table, below 0 in that of numbers; a summary as a dict;
        None itself."""
        if x is None:
            return None
        if isinstance(x, Summary):
            return {f.name: getattr(x, f.name) for f in fields(Summary)}
        stored = np.ascontiguousarray(_storable(x))
        data = stored.tobytes()
        key = (str(x.dtype), x.shape, data)
        if key not in self._known and not x.shape and x.dtype == np.float64:
            self.numbers.append(x)
            self._known[key] = -len(self.numbers)
        elif key not in self._known:
            self._known[key] = len(self.written)
            text = base64.b64encode(data).decode()
            row = {"dtype": str(x.dtype), "stored": stored.dtype.str, "shape": list(x.shape)}
            self.written.append({**row, "data": text})
        return self._known[key]


def _storable(x: Any) -> Any:
    """The array in one of the dtypes that are stored."""
    kind = x.dtype.kind
    if kind == "c":
        return np.stack([x.real, x.imag], -1).astype("<f8")
    if kind == "b":
        return x.astype("|u1")
    if kind in "iu":
        small = x.size == 0 or (int(x.min()) >= -(1 << 31) and int(x.max()) < 1 << 31)
        return x.astype("<i4" if small else "<i8")
    return x.astype("<f8" if x.dtype == np.float64 else "<f4")


def _node_dict(n: Node, arrays: _Arrays) -> dict[str, Any]:
    out = {f.name: getattr(n, f.name) for f in fields(Node)}
    for name in UNSAID:
        if not out[name]:
            del out[name]
    return out | {
        "inputs": list(n.inputs),
        "shape": list(n.shape),
        "value": arrays.put(n.value),
    }


def _sweep_dict(s: Sweep, arrays: _Arrays) -> dict[str, Any]:
    """A sweep as a dict, whose arrays are numbers in the file's list."""
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
                **_certificate_part(m.certificate, arrays),
            }
            for m in s.messages
        ],
        "gradients": {str(i): arrays.put(g) for i, g in s.gradients.items()},
        "more": {str(i): arrays.put(g) for i, g in s.more.items()},
        "certificates": {str(i): _certificate_dict(c, arrays) for i, c in s.certificates.items()},
    }


def _certificate_part(c: Certificate | None, arrays: _Arrays) -> dict[str, Any]:
    return {} if c is None else {"certificate": _certificate_dict(c, arrays)}


def _certificate_dict(c: Certificate, arrays: _Arrays) -> dict[str, Any]:
    """Numbers that are not finite, where nothing was checked, are null; empty texts are left out,
    and arrays that there are not."""
    numbers = {n: x if math.isfinite(x := getattr(c, n)) else None for n in MEASURED}
    texts = {n: text for n in NAMED if (text := getattr(c, n))}
    parts = {n: arrays.put(x) for n in ELEMENTS if (x := getattr(c, n)) is not None}
    return {**numbers, "verdict": c.verdict, **texts, **parts}


def _local_dict(local: Local, arrays: _Arrays) -> dict[str, Any]:
    out: dict[str, Any] = {"form": type(local).__name__.lower()}
    for f in fields(local):
        x: Any = getattr(local, f.name)
        if x is False:
            continue
        if f.name == "letters":
            x = list(x)
        out[f.name] = arrays.put(x) if is_array(x) else x
    return out
