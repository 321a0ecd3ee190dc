"""Writes chainrule/engine/methods/signatures.py: what type checkers are told of a tensor's methods.

Methods are functions (`chainrule/names/methods.py`), so their signatures and first lines are read
from these. chainrule/scalar/signatures.py has those of a `Value`. Run it after a change of a
function: `python scripts/method_signatures.py`.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chainrule.engine.methods.making import function_of
from chainrule.engine.op import Op
from chainrule.engine.operators import ARITHMETIC, COMPARISONS, UNARY
from chainrule.names.methods import CAST, IN_PLACE, METHODS, PROPERTIES
from chainrule.scalar.value import row_methods

PAGE = Path(__file__).parents[1] / "chainrule" / "engine" / "methods" / "signatures.py"
HEAD = '''"""What type checkers know of a tensor's methods, whose functions stand in other modules.

Written by `scripts/method_signatures.py` from `names/methods.py`; a test compares it. No program
imports it: `engine/methods/making.py` makes the methods.
"""

# ruff: noqa: D102, N802, PIE790
from __future__ import annotations

from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Sequence
from typing import Any, Literal, Self

from chainrule.engine.graph import Variable
IMPORTS

class Methods(Variable):
    """The methods of a tensor that are functions, and its operators."""

    __slots__ = ()

    def __hash__(self) -> _int: ...
'''
SCALAR_PAGE = PAGE.parents[2] / "scalar" / "signatures.py"
SCALAR_HEAD = '''"""What type checkers know of a Value's methods, which are rows of the op table.

Written by `scripts/method_signatures.py`; a test compares it. No program imports it.
"""

# ruff: noqa: D102
from __future__ import annotations

from typing import Self


class RowMethods:
    """The methods of a `Value` that are elementwise functions."""

    __slots__ = ()

'''
PLAIN = {
    *("Any", "None", "Literal", "Sequence", "Tensor", "object"),
    *("int", "float", "bool", "str", "tuple", "list"),
}
"""Words in annotations that the page knows."""
RENAMED = {"int": "_int", "float": "_float", "bool": "_bool"}
"""A class with a method `int` has another meaning of `int` in its annotations."""
IN_PLACE_ONLY = {"zero": "self", "fill": "self, value: Any", "copy": "self, source: Any"}
"""The parameters of methods in place that have no counterpart."""


def annotation(text: str) -> str:
    """An annotation as the page has it; strings within stay."""
    parts = re.split(r"(\"[^\"]*\"|'[^']*')", text)
    return "".join(
        [re.sub(r"\w+", lambda m: RENAMED.get(m[0], m[0]), p) if p[:1] not in "\"'" else p
         for p in parts]
    )  # fmt: skip


def foreign(text: str, f: Any) -> Iterator[tuple[str, str]]:
    """The names in an annotation that the page has to import, and their modules."""
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", text)
    module = sys.modules[inspect.unwrap(f).__module__]
    for word in re.findall(r"[A-Za-z_]\w*", bare):
        if word not in PLAIN:
            meant = getattr(module, word)
            home = meant.__module__ if isinstance(meant, type) else module.__name__
            yield word, home


def parameters(f: Any) -> str:
    """The parameters of a function as a method's, without the types of the first."""
    op = inspect.unwrap(f)
    if isinstance(op, Op):
        return ", ".join(["self", *[f"x{i}: Any" for i in range(2, op.takes + 1)], "/"])
    kept = list(inspect.signature(f).parameters.values())[1:]
    words, starred, places = ["self"], False, False
    for p in kept:
        if p.kind is p.POSITIONAL_ONLY:
            places = True
        elif places:
            words.append("/")
            places = False
        if p.kind is p.VAR_POSITIONAL:
            starred = True
        elif p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        said = "Any" if p.annotation is p.empty else annotation(str(p.annotation))
        default = "" if p.default is p.empty else f" = {p.default!r}"
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        words.append(f"{star}{p.name}: {said}{default}")
    return ", ".join([*words, "/"] if places else words)


def result(f: Any) -> str:
    """What a method returns: where a function says `Any`, a tensor for a tensor."""
    said = inspect.signature(f).return_annotation
    text = str(said) if isinstance(said, str) else "Any"
    return annotation(re.sub(r"\b(Any|Tensor)\b", "Self", text))


def methods() -> Iterator[str]:
    """The lines of each method."""
    for name in sorted(METHODS):
        f = function_of(name)
        paragraph = inspect.cleandoc(f.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        first = re.split(r"(?<=[.:;]) ", paragraph)[0].rstrip(":;.") + "."
        doc = f'        """{first}"""' if len(first) < 86 else ""
        mark = "    @property\n" if name in PROPERTIES else ""
        returned = "Self" if METHODS[name][0] == CAST else result(f)
        yield f"{mark}    def {name}({parameters(f)}) -> {returned}:\n{doc}\n        ...\n"
    for name in sorted(IN_PLACE):
        taken = IN_PLACE_ONLY.get(name) or parameters(function_of(name))
        yield f"    def {name}_({taken}) -> Self: ..."


def operators() -> Iterator[str]:
    """The lines of Python's operators."""
    for name in ARITHMETIC:
        yield f"    def __{name}__(self, b: Any) -> Self: ..."
        yield f"    def __r{name}__(self, a: Any) -> Self: ..."
    for name in COMPARISONS:
        ignored = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        yield f"    def __{name}__(self, b: Any) -> Self: ...{ignored}"
    for name in UNARY:
        yield f"    def {name}(self) -> Self: ..."


def text() -> str:
    """The page, as ruff formats it."""
    found: dict[str, str] = {}
    for name in METHODS:
        f = function_of(name)
        if isinstance(inspect.unwrap(f), Op):
            continue
        signature = inspect.signature(f)
        kept = list(signature.parameters.values())[1:]
        for x in (*[p.annotation for p in kept], signature.return_annotation):
            if isinstance(x, str) and METHODS[name][0] != CAST:
                found.update(foreign(x, f))
    imports = "\n".join([f"from {found[word]} import {word}" for word in sorted(found)])
    body = "\n".join([*operators(), *methods()])
    page = f"{HEAD.replace('IMPORTS', imports)}\n{body}\n"
    return formatted(page, PAGE)


def scalar_text() -> str:
    """The same page of a `Value`, whose methods are rows of the op table."""
    lines: list[str] = []
    for name, row in sorted(row_methods()):
        more = "".join([f", x{i}: Self | float" for i in range(2, row.takes + 1)])
        lines.append(f"    def {name}(self{more}, /) -> Self: ...")
    return formatted(SCALAR_HEAD + "\n".join(lines) + "\n", SCALAR_PAGE)


def formatted(page: str, path: Path) -> str:
    """A page as ruff formats it."""
    for command in (["check", "--fix", "--quiet", "--select=I"], ["format", "--quiet"]):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        page = subprocess.run(run, input=page, capture_output=True, text=True, check=True).stdout
    return page


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    SCALAR_PAGE.write_text(scalar_text(), encoding="utf-8")
