"""Backwards that are meant to be no derivative: what they give is a note, and nothing to correct.

The class says so (surrogate, straight-through, by design), or its backward asks for the sign of its
cotangent beside that of what it saved, as guided backpropagation does.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import replace
from typing import Any

from chainrule.engine.source_text import definition_text
from chainrule.verify.finding import Finding, Name

_SAYS = re.compile(
    r"surrogate|straight[- ]?through|by design|estimator|pseudo[- ]?gradient|on purpose|deliberate|"
    r"not (the|a|its)( true| exact| real)? (derivative|gradient)",
    re.IGNORECASE,
)


def is_surrogate(function: Any) -> bool:
    """Whether a class with a backward is meant to give another gradient than the derivative."""
    try:
        text = textwrap.dedent(definition_text(function))
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return _SAYS.search(text) is not None or any(
        _asks_for_sign(n) for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
    )


def _asks_for_sign(f: ast.FunctionDef) -> bool:
    """Whether a backward compares both its cotangent and something else with a bound."""
    if f.name != "backward" or len(f.args.args) < 2:
        return False
    cotangents = {a.arg for a in f.args.args[1:]}
    asked = [
        bool(cotangents & {m.id for m in ast.walk(n) if isinstance(m, ast.Name)})
        for n in ast.walk(f)
        if isinstance(n, ast.Compare)
    ]
    return any(asked) and not all(asked)


def as_meant(finding: Finding) -> Finding:
    """The finding about such a backward, as a note."""
    says = "it is no derivative of its forward, and is meant so by what its text says"
    names = (Name("straight_through", says), *finding.names)
    return replace(finding, level="note", names=names, correction=None, victims=())
