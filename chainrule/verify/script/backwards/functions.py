"""Every backward that a user wrote and a script ran, checked by itself on the values that flowed.

Each class is captured once for all calls of the same shapes and dtypes. They are checked after the
observation, in a copy of the process, in the order of the backward pass: the first wrong one is
named first, and what lies upstream of it is listed as its victim.

Some are meant to be no derivative: what they give is a note, and nothing to correct. The class says
so (surrogate, straight-through, by design), or its backward asks for the sign of its cotangent
beside that of what it saved, as guided backpropagation does.
"""

from __future__ import annotations

import ast
import re
import textwrap
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np

from chainrule.engine.op import Array, Spec
from chainrule.engine.source_text import definition_text
from chainrule.errors import describe
from chainrule.verify.certifying.certify import certify
from chainrule.verify.finding import Finding, Name
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.patches import Patches
from chainrule.verify.script.sandbox.fork import LostError, in_copy
from chainrule.verify.subject import Subject
from chainrule.verify.training.record.bus import Bus


class FunctionsObserver(Observer):
    """What the observers of both libraries share: checking what was captured."""

    def names(self) -> list[str]:
        """What was captured, to read."""
        return [*self.classes()]

    @abstractmethod
    def classes(self) -> Mapping[str, Any]:
        """The classes that were captured, by name."""

    def has_run(self, name: str) -> bool:
        """Whether a backward of this name has run in the script, to its end."""
        return False

    @abstractmethod
    def subjects(self) -> list[Subject]:
        """What was captured, the last of the forward pass first; may run the user's code."""

    def upstream(self) -> Mapping[str, Sequence[str]]:
        """By name of a subject: what gets its gradient through it."""
        return {}

    def findings(self, ledger: Ledger) -> list[Finding]:
        """Certify every captured call."""
        if not self.names():
            return []
        try:
            found, done = in_copy(self._certify)
        except LostError as error:
            why = f"could not be checked: {error}"
            ledger.skipped.extend([Skipped(name, why) for name in dict.fromkeys(self.names())])
            return []
        ledger.add(done)
        unlike = [f for f in found if f.name.code == "raises" and self.has_run(f.subject)]
        why = "it ran in the script, and not when it was called again with copies of its arguments"
        ledger.skipped.extend([Skipped(f.subject, f"{why}: {f.name.because}") for f in unlike])
        meant = {name for name, made in self.classes().items() if is_surrogate(made)}
        kept = [f for f in found if f not in unlike]
        return [as_meant(f) if f.subject in meant else f for f in kept]

    def _certify(self) -> tuple[list[Finding], Ledger]:
        report = certify("script", self.subjects(), upstream=self.upstream())
        return list(report.findings), report.ledger


class TorchFunctions(FunctionsObserver):
    """Calls of `torch.autograd.Function`s that users wrote."""

    def __init__(self, bus: Bus) -> None:
        from chainrule.verify.script.backwards.graphs import Graphs

        self._stack = ExitStack()
        self._capture: Any = None
        self._graphs = Graphs(bus, lambda: bool(self._capture.calls))

    def start(self) -> None:
        """Capture from now on."""
        from chainrule.verify.pytorch.observing.function_calls import capturing

        self._capture = self._stack.enter_context(capturing())
        self._graphs.start()

    def stop(self) -> None:
        """Capture no more."""
        self._graphs.stop()
        self._stack.close()

    def classes(self) -> Mapping[str, Any]:
        """The classes, by name."""
        return {call.function.__name__: call.function for call in self._capture.calls}

    def has_run(self, name: str) -> bool:
        """Whether a pass has gone through it."""
        return name in self._graphs.ran

    def subjects(self) -> list[Subject]:
        """Calls, the last one first."""
        made: list[Subject] = self._capture.subjects()
        return made[::-1]

    def upstream(self) -> Mapping[str, Sequence[str]]:
        """Functions and parameters behind each Function in the graphs that ran."""
        return self._graphs.upstream()

    def findings(self, ledger: Ledger) -> list[Finding]:
        """Certify every captured call; note those that were not."""
        found = super().findings(ledger)
        ledger.skipped.extend(self._capture.skipped)
        return found


class NativeFunctions(FunctionsObserver):
    """Calls of `chainrule.Function`s.

    `engine.watch` would see them as well, but compiled steps do not run compiled while it is on.
    Where a call is traced there are no values yet: numbers of the same shapes are made up.
    """

    def __init__(self) -> None:
        self._patches = Patches()
        self._calls: dict[Any, tuple[Any, tuple[Any, ...], tuple[bool, ...]]] = {}

    def start(self) -> None:
        """Capture from now on."""
        from chainrule.engine.function import Function

        self._patches.around_class_method(Function, "apply", self._watch_apply)

    def stop(self) -> None:
        """Capture no more."""
        self._patches.undo()

    def _watch_apply(self, apply: Any, cls: Any, *args: Any) -> Any:
        with suppress(Exception):  # what cannot be captured is not checked
            self._note(cls, args)
        return apply(cls, *args)

    def _note(self, function: Any, args: Sequence[Any]) -> None:
        from chainrule.engine.function import Function
        from chainrule.verify.own.call import flows

        if function.backward is Function.backward:
            return
        values = [_value(a) for a in args]
        needs = tuple([flows(a) for a in args])
        key = (function, tuple([_signature(v) for v in values]))
        *_, known = self._calls.get(key, (None, None, None))
        if known is None or sum(needs) > sum(known):  # the call that needed most gradients
            random = np.random.default_rng(len(self._calls))
            self._calls[key] = (function, tuple([_copy(v, random) for v in values]), needs)

    def classes(self) -> Mapping[str, Any]:
        """The classes, by name."""
        return {function.__name__: function for function, *_ in self._calls.values()}

    def subjects(self) -> list[Subject]:
        """Calls, the last one first."""
        from chainrule.verify.own.function import subjects_of_function

        calls = self._calls.values()
        return [s for f, xs, needs in calls for s in subjects_of_function(f, xs, needs=needs)][::-1]


def _value(arg: Any) -> Any:
    """The array behind a tensor, or its shape and dtype while it is traced."""
    from chainrule.engine.tensors import Tensor

    return arg.value if isinstance(arg, Tensor) else arg


def _signature(value: Any) -> Any:
    if isinstance(value, Spec | np.ndarray):
        return describe(cast(object, value))
    return value if isinstance(value, int | float | str | None) else value.__class__


def _copy(value: Any, random: np.random.Generator) -> Any:
    if isinstance(value, Spec):
        return random.normal(size=value.shape).astype(value.dtype)
    return np.array(cast("Array", value)) if isinstance(value, np.ndarray) else value


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
