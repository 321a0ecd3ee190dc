"""A report as JSON: the same names as the classes, so that there is nothing else to learn."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.verify.finding import Finding, Heat
from chainrule.verify.ledger import Ledger
from chainrule.verify.mistakes import MISTAKES

VERSION = 1
"""Of the fields; it grows when one is renamed or goes."""


def report_json(
    what: str, ok: bool, findings: Sequence[Finding], ledger: Ledger, indent: int | None
) -> str:
    """All of it; numbers that JSON has no words for (NaN, infinity) become strings."""
    body = {
        "version": VERSION,
        "what": what,
        "ok": ok,
        "findings": [_finding(f) for f in findings],
        "ledger": {
            **_fields(ledger),
            "evaluations": ledger.evaluations,
            "seconds": ledger.seconds,
        },
    }
    return json.dumps(body, indent=indent, ensure_ascii=False, allow_nan=False)


_OF_HEAT = ("analytic", "numeric", "y_shape", "x_shape")


def _finding(finding: Finding) -> dict[str, Any]:
    names = [{"title": MISTAKES[n.code].title, **_fields(n)} for n in finding.names]
    return {**_fields(finding), "names": names}


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    """Lists, dictionaries, numbers and strings only."""
    if isinstance(value, Heat):
        return {name: _plain(getattr(value, name)) for name in _OF_HEAT}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, np.ndarray):
        return _plain(cast("Any", value).tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in cast("Sequence[Any]", value)]
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    return value
