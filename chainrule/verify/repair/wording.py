"""What the forward says: its text, and those of the functions of its file that it calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import CodeType, FunctionType
from weakref import WeakKeyDictionary

from chainrule.source_text import definition_text
from chainrule.verify.repair.draft import UnreadableError, plain_function
from chainrule.verify.subject import Source

_MOST = 8
"""Functions that are read, besides the forward."""
ELEMENTWISE = ("exp", "log", "sqrt", "tanh", "sin", "cos", "abs", "sign", "sigmoid", "relu")
_METHODS, _CALLED = re.compile(r"\.(\w+)\(\)"), re.compile(r"[A-Za-z_][\w.]*(?=\()")


def elementwise_calls(text: str) -> list[str]:
    """Functions of each element that some code calls, as it calls them: `np.exp`."""
    found = dict.fromkeys(_CALLED.findall(text))
    return [call for call in found if call.rpartition(".")[2] in ELEMENTWISE]


def elementwise_methods(text: str) -> list[str]:
    """The same for what is called as a method without arguments: `exp` of `x.exp()`."""
    return [name for name in dict.fromkeys(_METHODS.findall(text)) if name in ELEMENTWISE]


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
        first = plain_function(code.function)
    except UnreadableError:
        return
    known, waiting = {first}, [first]
    while waiting and len(known) <= _MOST:
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
