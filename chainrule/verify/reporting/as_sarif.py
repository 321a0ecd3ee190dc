"""Findings as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format).

Code review tools show them beside the lines that they are about.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from chainrule.verify.finding import Correction, Finding
from chainrule.verify.mistakes import MISTAKES
from chainrule.verify.place import Place

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def report_sarif(findings: Sequence[Finding]) -> str:
    """One run of one tool. Files below the current folder are named relative to it."""
    codes = sorted({f.name.code for f in findings})
    driver = {
        "name": "chainrule verify",
        "rules": [_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"uri": Path.cwd().as_uri() + "/"}},
        "results": [_result(f, codes.index(f.name.code)) for f in findings],
    }
    return json.dumps({"version": "2.1.0", "$schema": _SCHEMA, "runs": [run]}, indent=2)


def _rule(code: str) -> dict[str, Any]:
    mistake = MISTAKES[code]
    return {
        "id": code,
        "name": mistake.title,
        "shortDescription": {"text": mistake.title},
        "fullDescription": {"text": mistake.means},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.name.code,
        "ruleIndex": rule,
        "level": finding.level,
        "message": {"text": _message(finding)},
        "locations": [_location(finding.place)] if finding.place else [],
    }
    if finding.error is not None:
        result["properties"] = {"relativeError": finding.error, "tolerance": finding.tolerance}
    if finding.correction and finding.correction.rechecked and finding.correction.after:
        result["fixes"] = _fixes(finding.correction)
    return result


def _message(finding: Finding) -> str:
    of = f", gradient of {finding.input}" if finding.input else ""
    said = [f"{finding.title} in {finding.subject}{of}", finding.name.detail, finding.name.because]
    if finding.correction:
        said.append(f"Correction: {finding.correction.formula}")
    return ". ".join([s.rstrip(".") for s in said if s]) + "."


def _location(place: Place) -> dict[str, Any]:
    region = {"startLine": max(1, place.line)}
    return {"physicalLocation": {"artifactLocation": _artifact(place), "region": region}}


def _artifact(place: Place) -> dict[str, Any]:
    path = Path(place.file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return {"uri": path.relative_to(Path.cwd()).as_posix(), "uriBaseId": "ROOT"}
    return {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}


def _fixes(correction: Correction) -> list[dict[str, Any]]:
    """The changed lines as a replacement, if it is known where they stand."""
    place = correction.place
    if place is None:
        return []
    last = place.line + max(1, len(correction.before.splitlines())) - 1
    # Up to the start of the next line, so that the line's own end is part of both texts.
    region = {"startLine": place.line, "startColumn": 1, "endLine": last + 1, "endColumn": 1}
    replacement = {
        "deletedRegion": region,
        "insertedContent": {"text": correction.after.rstrip("\n") + "\n"},
    }
    change = {"artifactLocation": _artifact(place), "replacements": [replacement]}
    return [{"description": {"text": correction.formula}, "artifactChanges": [change]}]
