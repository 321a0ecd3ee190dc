"""What the site shows of docstrings. Examples and shapes are code, wherever they stand. Functions
that a function has made are shown, too, and what no text states: constructors and methods of bases.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)+", re.MULTILINE)
_SHAPES = re.compile(r"Shapes: (.*?)\.$", re.MULTILINE | re.DOTALL)
_SEVERAL = re.compile(r"^\w+(?:, \w+)+ = \w+\(", re.MULTILINE)


class Code(griffe.Extension):
    """Marks what is code, and adds what runs but is not written."""

    def __init__(self) -> None:
        super().__init__()
        self._marked: dict[int, Any] = {}

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Change the docstring of anything that has one, once: what is added here comes again."""
        found = obj.docstring
        if found is not None and id(found) not in self._marked:
            found.value = _EXAMPLE.sub(_fenced, _SHAPES.sub(_spanned, found.value))
            self._marked[id(found)] = found

    def on_class_members(self, *, cls: Any, **kwargs: Any) -> None:
        """Add the constructor and the methods that the text of a class does not state."""
        running = _running(cls)
        if not inspect.isclass(running) or cls.name.startswith("_"):
            return
        for name, f in _unwritten(running):
            if name not in cls.members:
                cls.set_member(name, made := _function(name, f))
                self.on_object(obj=made)

    def on_module_members(self, *, mod: Any, **kwargs: Any) -> None:
        """Add the functions that one statement assigns, and the classes that a call has made."""
        if not mod.path.startswith("chainrule"):
            return
        if mod.path.startswith("chainrule.ops.") and _SEVERAL.search(mod.source):
            found = griffe.inspect(mod.name, filepath=mod.filepath, parent=mod.parent)
            for name, member in found.members.items():
                if name not in mod.members and isinstance(member, griffe.Function):
                    mod.set_member(name, member)
                    self.on_object(obj=member)
        for member in list(mod.members.values()):
            running = _running(member) if isinstance(member, griffe.Attribute) else None
            if _named(running) == (mod.path, member.name):
                made = griffe.Class(member.name, docstring=_docstring(running))
                mod.set_member(member.name, made)
                self.on_object(obj=made)
                self.on_class_members(cls=made)


def _named(running: Any) -> tuple[str, str] | None:
    """The module and the name that a class says it has."""
    return (running.__module__, running.__name__) if inspect.isclass(running) else None


def _running(obj: Any) -> Any:
    """The object of the package that runs; None if the text alone has it."""
    if not obj.path.startswith("chainrule.") or obj.name.startswith("_"):
        return None
    return getattr(import_module(obj.module.path), obj.name, None)


def _unwritten(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The constructor and the methods that a class has of its own, or of bases not public."""
    if issubclass(cls, tuple):  # named: its fields are the arguments
        yield "__init__", cls
    own = [b for b in cls.__mro__ if b is cls or b.__name__.startswith("_")]
    for name in dict.fromkeys(name for b in own for name in vars(b)):
        f = getattr(cls, name, None)
        shown = not name.startswith("_") and getattr(f, "__doc__", None)
        if inspect.isfunction(f) and (shown or (name == "__init__" and not is_dataclass(cls))):
            yield name, f


def _function(name: str, f: Callable[..., Any]) -> griffe.Function:
    """A function as the site shows it."""
    signature = inspect.signature(f)
    parameters = [
        griffe.Parameter(
            p.name,
            kind=griffe.ParameterKind(p.kind.description),
            annotation=_written(p.annotation),
            default=None if p.default is p.empty else _value(p.default),
        )
        for p in signature.parameters.values()
    ]
    if inspect.isclass(f):  # its signature is without self
        parameters.insert(0, griffe.Parameter("self"))
    made = griffe.Parameters(*parameters)
    returns = _written(signature.return_annotation)
    return griffe.Function(name, parameters=made, returns=returns, docstring=_docstring(f))


def _docstring(obj: Any) -> griffe.Docstring | None:
    text = inspect.getdoc(obj) if not (inspect.isclass(obj) and issubclass(obj, tuple)) else None
    return griffe.Docstring(text) if text else None


def _written(annotation: Any) -> str | None:
    """An annotation without the modules of its names."""
    if annotation is inspect.Parameter.empty:
        return None
    annotation = getattr(annotation, "__forward_arg__", annotation)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def _value(default: Any) -> str:
    """A default as it would be written."""
    return default.__name__ if inspect.isclass(default) else repr(default)


def _fenced(example: re.Match[str]) -> str:
    return f"```pycon\n{example[0].rstrip()}\n```\n"


def _spanned(shapes: re.Match[str]) -> str:
    return f"Shapes: `{' '.join(shapes[1].split())}`."
