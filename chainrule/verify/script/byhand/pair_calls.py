"""Watches calls of functions that state a derivative (`pairs.py`), and verifies each pair of them.

They are verified on the arrays of their first call, in a copy of the process, and on others. That
two functions belong together is a guess. So a finding counts only if something proves it
(`pair_proofs.py`); else it is a note. A constant factor that all gradients have in common is the
rate's. What calls something that is wrong is not looked at.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any, cast, final

import numpy as np

from chainrule.errors import ChainruleError
from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.members import duplicate
from chainrule.verify.arrays.objects import subject_of_layer
from chainrule.verify.arrays.pair import Pair, subject_of_both, subject_of_pair
from chainrule.verify.certifying.certify import certify
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.script.byhand import code_hooks
from chainrule.verify.script.byhand.code_hooks import CALLS
from chainrule.verify.script.byhand.pair_proofs import (
    both_gradients,
    doubted,
    gives_any,
    gives_number,
    is_proved,
    recomputing_method,
)
from chainrule.verify.script.byhand.pairs import Stated, stated_in
from chainrule.verify.script.byhand.script_state import is_tensor
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.subject import Subject, values, wanted
from chainrule.verify.trees import tree_of_file
from chainrule.verify.user_frames import with_callers

_PATIENCE = 60.0
"""Seconds after which the look at a pair is given up."""
_MOST = 12
"""Pairs that are looked at."""
_UNTOLD = (
    "it is not told how its backward is called, or nothing in it is right; verify it on an input "
    "of your own: chainrule.verify.pair(layer, x)"
)
_LARGEST = 20_000_000
"""Numbers in arguments that are kept at most."""


@dataclass(frozen=True)
class _Call:
    """A first call: what the script's names stood for, and the arguments by name, as they were."""

    scope: Mapping[str, Any]
    arguments: dict[str, Any]


@dataclass
class _File:
    """What a script states, and the calls that were seen by the line of the definition."""

    stated: Sequence[Stated]
    calls: dict[int, _Call | None] = field(default_factory=dict[int, _Call | None])
    callers: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """Those whose call was running at the first call of each."""

    def inner_first(self) -> list[Stated]:
        """What is looked at: what others call goes before these."""
        called = [s for s in self.stated if _call_of(s, self.calls) is not None]
        return sorted(called[:_MOST], key=lambda s: -len(self.callers_of(s)))

    def callers_of(self, stated: Stated) -> frozenset[int]:
        """Lines of functions that call it."""
        every = [self.callers.get(line, frozenset[int]()) for line in stated.lines]
        return frozenset[int]().union(*every) - {*stated.lines}


@dataclass
class _Found:
    """What was found in one file."""

    wrong: list[tuple[Stated, list[Finding]]] = field(
        default_factory=list[tuple[Stated, list[Finding]]]
    )
    right: set[str] = field(default_factory=set[str])
    """Backwards that are right for some forward."""
    victims: dict[Stated, list[str]] = field(default_factory=dict[Stated, list[str]])
    """Whose gradients are wrong because those of a part are."""

    def culprit(self, file: _File, stated: Stated) -> Stated | None:
        """What it calls, and is wrong."""
        bad = [s for s, found in self.wrong if any(f.level != "note" for f in found)]
        return next((s for s in bad if file.callers_of(s).intersection(stated.lines)), None)

    def findings(self) -> Iterator[Finding]:
        """All of them, with what is wrong because of them."""
        for stated, found in self.wrong:
            names = tuple(self.victims.get(stated, ()))
            for f in found:
                if f.level != "note":
                    yield replace(f, victims=(*f.victims, *names))
                elif stated.backward not in self.right:
                    yield f


@final
class StatedPairs(Observer):
    """Verifies functions and layers by hand with the arrays that they get."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._files: dict[str, _File] = {}
        self._lines: dict[CodeType, int] = {}

    def start(self) -> None:
        """Wait for calls."""
        if can_fork():
            CALLS.listen(self._called)

    def stop(self) -> None:
        """Look at no more."""
        CALLS.unlisten(self._called)

    def _called(self, line: int, frame: FrameType) -> None:
        code, name = frame.f_code, frame.f_code.co_filename
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = _File(stated_in(tree_of_file(name)))
        if line in file.calls or os.getpid() != self._pid:
            return
        self._lines[code] = line
        above = [self._lines.get(f.f_code, 0) for f in with_callers(frame.f_back)]
        file.callers[line] = frozenset(above) - {0}
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        file.calls[line] = None
        with suppress(Exception):  # what cannot be copied cannot be looked at
            file.calls[line] = _kept(frame.f_globals, {n: frame.f_locals[n] for n in names})

    def findings(self, ledger: Ledger) -> list[Finding]:
        """What is wrong with what they state; of what calls what is wrong, nothing is said."""
        return [f for file in self._files.values() for f in _found_in(file, ledger).findings()]


def _found_in(file: _File, ledger: Ledger) -> _Found:
    """What is found in one file, each of its pairs looked at in a copy of the process; of one that
    calls a wrong one, the ledger says so."""
    found = _Found()
    for stated in file.inner_first():
        culprit = found.culprit(file, stated)
        if culprit is not None:
            why = f"{culprit.owner or culprit.backward} is wrong: look again once that is right"
            ledger.skipped.append(Skipped(_title(stated), why))
            found.victims.setdefault(culprit, []).append(_title(stated))
            continue
        call, back = _call_of(stated, file.calls), file.calls.get(stated.lines[1])
        assert call is not None
        try:
            answer = in_copy(lambda s=stated, c=call, b=back: _look(s, c, b), _PATIENCE)
        except LostError as error:
            if stated.named:
                ledger.skipped.append(Skipped(_title(stated), str(error)))
            continue
        if answer is not None:
            found.wrong.append((stated, answer[0]))
            found.right |= {stated.backward} if answer[1].checked and not answer[0] else set()
            ledger.add(answer[1])
        elif stated.owner and stated.is_usual and _is_of(stated, call):
            ledger.skipped.append(Skipped(stated.owner, _UNTOLD))
    return found


def _kept(scope: Mapping[str, Any], arguments: dict[str, Any]) -> _Call | None:
    """The call, unless it is too large, or PyTorch's."""
    sizes = [math.prod(getattr(x, "shape", ())) for x in arguments.values()]
    if sum(sizes) > _LARGEST or any(map(is_tensor, arguments.values())):
        return None
    return _Call(scope, duplicate(arguments))


def _call_of(stated: Stated, calls: Mapping[int, _Call | None]) -> _Call | None:
    """The call of the forward; that of the backward has its arguments too, where names are the
    same."""
    forward, backward = (calls.get(line) for line in stated.lines)
    return forward if forward is not None or stated.owner else backward


def _is_of(stated: Stated, call: _Call) -> bool:
    """Whether a method was called with an object of its class, or of one that derives from it."""
    cls = cast("type[Any]", type(next(iter(call.arguments.values()))))
    return stated.owner in [c.__name__ for c in cls.__mro__]


def _title(stated: Stated) -> str:
    return stated.owner or ", ".join(dict.fromkeys((stated.forward, stated.backward)))


def _look(stated: Stated, call: _Call, back: _Call | None) -> tuple[list[Finding], Ledger] | None:
    """What is found out about a pair, from a call of each; None if it is none."""
    code_hooks.silence()
    try:
        subject = _subject(stated, call)
    except ChainruleError:
        return None
    if subject is None or not wanted(subject):
        return None
    report = certify("script", [subject])
    findings = [f for f in report.findings if f.name.code != "dropped"]
    found = [f for f in findings if f.level != "note"]
    if any(f.name.code == "not_linear" for f in found) and _is_given_results(subject, back):
        return None
    if found and (method := recomputing_method(subject)):
        why = f"right if {method} runs before {stated.forward}, as it does after each change"
        return [], Ledger(skipped=[Skipped(_title(stated), why)])
    if found and not is_proved(stated, subject, found):
        notes = doubted(stated, subject, found)
        unknown = Skipped(_title(stated), "it is not known whether one is the other's derivative")
        return (notes, Ledger(skipped=[unknown])) if notes else None
    if not found and not stated.named and not any(gives_any(subject).values()):
        return None
    return [] if found and both_gradients(subject).has_one_factor else findings, report.ledger


def _subject(stated: Stated, call: _Call) -> Subject | None:
    """The pair as a subject; None if it cannot be one."""
    scope, given = call.scope, dict(call.arguments)
    if stated.owner:
        owner, *args = given.values()
        if not _is_of(stated, call):
            return None
        names = (stated.forward, stated.backward)
        if stated.is_usual:
            return subject_of_layer(owner, args)
        made: Layer | Pair
        if any(isinstance(x, list | tuple | dict) for x in args):  # Gradients are those of these.
            made = subject_of_pair(getattr(owner, names[0]), getattr(owner, names[1]), args)
        else:
            made = subject_of_layer(owner, args, method=names)
        return made if made.takes_cotangent or gives_number(made) else None
    forward, backward = scope.get(stated.forward), scope.get(stated.backward)
    if not callable(forward) or not callable(backward):
        return None
    code = getattr(forward, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    if any(n not in given for n in names):
        return None
    args = [given[n] for n in names]
    if forward is backward:
        return subject_of_both(forward, args)
    made = subject_of_pair(forward, backward, args)
    return made if made.takes_cotangent or gives_number(made) else None


def _is_given_results(subject: Subject, back: _Call | None) -> bool:
    """Whether the script gives the backward what the forward returned, where a cotangent belongs:
    then it is that of a loss, which it knows itself."""
    if back is None or not isinstance(subject, Layer | Pair):
        return False
    ys = subject.forward(values(subject))
    slots = [name for name, slot in subject.convention.slots if slot.kind == "cotangent"]
    given = [np.asarray(back.arguments[name]) for name in slots if name in back.arguments]
    return any(g.shape == y.shape and np.allclose(g, y) for g in given for y in ys)
