"""Examples and shapes in docstrings are code on the site, wherever in a docstring they stand."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)+", re.MULTILINE)
_SHAPES = re.compile(r"Shapes: (.*?)\.$", re.MULTILINE | re.DOTALL)


class Code(griffe.Extension):
    """Marks what is code."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Change the docstring of anything that has one."""
        if obj.docstring is not None:
            text = _SHAPES.sub(_spanned, obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(_fenced, text)


def _fenced(example: re.Match[str]) -> str:
    return f"```pycon\n{example[0].rstrip()}\n```\n"


def _spanned(shapes: re.Match[str]) -> str:
    return f"Shapes: `{' '.join(shapes[1].split())}`."
