"""Runs examples in docstrings, with the package imported; numbers are compared to six digits."""

from __future__ import annotations

import doctest
import math
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import nn, optim

IMPORTED: dict[str, Any] = {"cr": cr, "nn": nn, "optim": optim, "np": np}
"""What examples need not import."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.])")


class Checker(doctest.OutputChecker):
    """Text is equal, but for spaces where numbers are of other lengths; numbers to six digits."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether that is the output."""
        if super().check_output(want, got, optionflags):
            return True
        texts = [_NUMBER.sub("#", re.sub(r"\s+", "", text)) for text in (want, got)]
        wanted, found = [[float(x) for x in _NUMBER.findall(text)] for text in (want, got)]
        return texts[0] == texts[1] and all(
            math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
            for a, b in zip(wanted, found, strict=True)
        )


def failures(tests: Iterable[doctest.DocTest]) -> list[str]:
    """What fails, in words."""
    said: list[str] = []
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=doctest.ELLIPSIS)
    for test in tests:
        runner.run(test, out=said.append)
    return [text for text in said if "Failed example" in text]


def tests_of_module(module: ModuleType) -> list[doctest.DocTest]:
    """The examples in a module."""
    names = {**IMPORTED, **vars(module)}
    return doctest.DocTestFinder().find(module, module.__name__, globs=names)


def test_of(name: str, docstring: str) -> doctest.DocTest:
    """The examples in one docstring."""
    return doctest.DocTestParser().get_doctest(docstring, dict(IMPORTED), name, None, None)
