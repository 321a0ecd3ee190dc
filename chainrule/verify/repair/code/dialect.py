"""The words of the user's code: what it calls its libraries, and what the forward says."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from chainrule.engine.source_text import definition_text
from chainrule.verify.repair.budget import FUNCTIONS_READ
from chainrule.verify.repair.code.draft import Draft, UnreadableError, python_function
from chainrule.verify.repair.code.parentheses import ATOM, operand
from chainrule.verify.repair.values.watch import is_torch
from chainrule.verify.subject import Source
from chainrule.verify.trees import tree_of


@dataclass(frozen=True, eq=False)
class Dialect:
    """That of one draft, whose named arrays were `arrays`."""

    draft: Draft
    arrays: tuple[Any, ...]

    @cached_property
    def torch(self) -> bool:
        """Whether the code works on tensors of PyTorch's."""
        return any(is_torch(v) for v in self.arrays)

    def module(self, *names: str) -> str | None:
        """What the code calls one of these modules."""
        function = python_function(self.draft.source.function)
        for k, v in function.__globals__.items():
            if isinstance(v, ModuleType) and v.__name__ in names:
                return k
        return None

    @cached_property
    def mathematics(self) -> str | None:
        """What the code calls the module that has roots and pi of numbers."""
        return self.module("math") if self.torch else self.module("numpy", "math")

    @cached_property
    def library(self) -> str | None:
        """What the code calls the library of its arrays."""
        if self.torch:
            return self.module("torch")
        ours = any(type(v).__module__.startswith("chainrule.") for v in self.arrays)
        return (self.module("chainrule") if ours else None) or self.module("numpy", "chainrule")

    def along(self, axis: int | Sequence[int] | None, keep: bool) -> str:
        """Arguments of a reduction, in the words of the library that is used."""
        words = ("dim", "keepdim") if self.torch else ("axis", "keepdims")
        axis = axis if axis is None or isinstance(axis, int) else tuple(axis)
        settings = [] if axis is None else [f"{words[0]}={axis}"]
        return ", ".join([*settings, *([f"{words[1]}=True"] if keep else [])])

    def transposed(self, text: str, ndim: int) -> str:
        """An expression with its last two axes exchanged."""
        text = operand(text, ATOM)
        if ".mT" in self.draft.body:
            return f"{text}.mT"
        if ndim <= 2:
            return f"{text}.t()" if ".t()" in self.draft.body else f"{text}.T"
        return f"{text}.transpose(-2, -1)" if self.torch else f"{text}.swapaxes(-1, -2)"


ELEMENTWISE = ("exp", "log", "sqrt", "tanh", "sin", "cos", "abs", "sign", "sigmoid", "relu")
_CALLED = re.compile(r"[A-Za-z_][\w.]*(?=\()")


def elementwise_calls(text: str) -> list[str]:
    """Functions of each element that some code calls, as it calls them: `np.exp`."""
    found = dict.fromkeys(_CALLED.findall(text))
    return [call for call in found if call.rpartition(".")[2] in ELEMENTWISE]


Read: TypeAlias = Callable[[str], Iterable[tuple[str, str]]]
"""Of some code: pairs of a name and a text that has to do with it."""
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def said_by_forward(source: Source, known: Collection[str], read: Read) -> dict[str, list[str]]:
    """By what the backward calls it: texts of the forward, in the backward's names, of which these
    are `known`. What the forward keeps on an object has the object's name: `ctx.w` for `w`."""
    texts, held = list(forward_texts(source)), dict[str, str]()
    if source.makes_both:
        texts.append(source.text)
    for text in texts:
        held |= {k: v for k, v in _kept_names(text) if k not in known}
    found = dict[str, list[str]]()
    for text in texts:
        for name, said in read(text):
            here, said = (_NAME.sub(lambda m: held.get(m[0], m[0]), t) for t in (name, said))
            found.setdefault(here, []).append(said)
    return {k: list(dict.fromkeys(v)) for k, v in found.items()}


def _kept_names(text: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name()) as target], value=ast.Name(id=k)
            ):
                yield k, ast.unparse(target)
            case _:
                continue


_known: WeakKeyDictionary[Source, tuple[str, ...]] = WeakKeyDictionary()


def forward_texts(source: Source) -> tuple[str, ...]:
    """The forward's text, then those of what it calls; none if there is no text."""
    if source.forward is None:
        return ()
    if source not in _known:
        own = [code for code in (source.forward, source.computing) if code is not None]
        texts = [definition_text(f) for code in own for f in called_by(code)]
        _known[source] = tuple([t for t in (*[code.text for code in own], *texts) if t])
    return _known[source]


def called_by(code: Source) -> Iterator[FunctionType]:
    """Functions of the same file that some code calls by their names, or that these call."""
    try:
        first = python_function(code.function)
    except UnreadableError:
        return
    known, waiting = {first}, [first]
    while waiting and len(known) <= FUNCTIONS_READ:
        f = waiting.pop(0)
        for name in _names(f.__code__):
            other = f.__globals__.get(name)
            if not isinstance(other, FunctionType) or other in known:
                continue
            if other.__code__.co_filename == first.__code__.co_filename:
                known.add(other)
                waiting.append(other)
                yield other


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
