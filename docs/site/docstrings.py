"""Examples and shapes in docstrings are code on the site, wherever in a docstring they stand; and
functions that a function has made are on it, too."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)+", re.MULTILINE)
_SHAPES = re.compile(r"Shapes: (.*?)\.$", re.MULTILINE | re.DOTALL)
_SEVERAL = re.compile(r"^\w+(?:, \w+)+ = \w+\(", re.MULTILINE)


class Code(griffe.Extension):
    """Marks what is code."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Change the docstring of anything that has one."""
        if obj.docstring is not None:
            text = _SHAPES.sub(_spanned, obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(_fenced, text)

    def on_module_members(self, *, mod: Any, **kwargs: Any) -> None:
        """Add what the text of a module assigns several names at once: there are functions."""
        several = mod.path.startswith("chainrule.ops.") and _SEVERAL.search(mod.source)
        if not several:
            return
        found = griffe.inspect(mod.name, filepath=mod.filepath, parent=mod.parent)
        for name, member in found.members.items():
            if name not in mod.members and isinstance(member, griffe.Function):
                mod.set_member(name, member)
                self.on_object(obj=member)


def _fenced(example: re.Match[str]) -> str:
    return f"```pycon\n{example[0].rstrip()}\n```\n"


def _spanned(shapes: re.Match[str]) -> str:
    return f"Shapes: `{' '.join(shapes[1].split())}`."
