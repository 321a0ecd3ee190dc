"""A scalar engine of the user's own (`Value(2.0) * x`, then `backward()`): its ops verified.

Such a class is known by what it does: it is made of one number, keeps that as an attribute, and
has a `backward` without arguments, or a function beside it that takes one of it, after which
another attribute of the result is 1. An engine of arrays is one for arrays of one number. Each op
is checked by itself, then of one value twice, and of a value that is used again: there `=` for `+=`
shows. If all are right, so has to be a result that is used twice (`engine_order.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

from chainrule.engine.source_text import source_line
from chainrule.verify.certify import certify
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import ObserverAtEnd
from chainrule.verify.place import Place
from chainrule.verify.script.backwards.engine_kinds import Engine, classes
from chainrule.verify.script.backwards.engine_ops import NUMBERS, USES, WHAT, subjects_of
from chainrule.verify.script.backwards.engine_order import out_of_order
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.script.sandbox.quiet import confine
from chainrule.verify.trees import tree_of_file


@final
class ScalarEngines(ObserverAtEnd):
    """Looks for such classes in the script and in the modules that it has loaded, once it has been
    observed."""

    def findings(self, ledger: Ledger) -> list[Finding]:
        """What is wrong with their ops."""
        kinds = classes(self.before)
        if not kinds or not can_fork():  # what their constructors do is not known
            return []
        try:
            found, done = in_copy(lambda: _certify(kinds))
        except LostError as error:
            ledger.skipped.append(Skipped(WHAT, f"could not be checked: {error}"))
            return []
        ledger.add(done)
        return found


def _certify(kinds: Sequence[type[Any]]) -> tuple[list[Finding], Ledger]:
    """In a copy of the process."""
    confine()
    engines = [engine for kind in kinds if (engine := Engine.of(kind)) is not None]
    found: list[Finding] = []
    ledger = Ledger()
    for engine in engines:
        subjects = subjects_of(engine)
        report = certify("script", subjects, ledger=ledger)
        wrong = [_name_overwriting(engine, f) for f in _first_of_each(report.findings)]
        found += wrong or list(out_of_order(engine, subjects, ledger))
        why = "not watched: the ops of its engine were verified one by one, its steps were not"
        ledger.skipped.append(Skipped(f"training by {engine.kind.__name__}", why))
    ledger.skipped = [row for row in ledger.skipped if row.why != NUMBERS]
    return found, ledger


def _first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """The finding of the plainest use of each op: what is wrong by itself is wrong in all uses."""
    plain = sorted(findings, key=lambda f: (USES.index(_use(f)), f.input))
    ops = {f.subject.partition(",")[0]: f for f in reversed(plain)}
    return list(reversed(ops.values()))


def _use(f: Finding) -> str:
    return f.subject.removeprefix(f.subject.partition(",")[0])


def _name_overwriting(engine: Engine, f: Finding) -> Finding:
    """Right by itself, and wrong where a value has two uses: what one gives replaces the other's
    gradient, if the text says so."""
    op = f.subject.partition(",")[0]
    lines = [] if not _use(f) or f.place is None else _assignments(f.place, engine.gradient)
    if not lines or f.place is None:
        alone = [] if f.place is None else _giving(f.place, engine.gradient)
        at = f.place if f.place is None or len(alone) != 1 else replace(f.place, line=alone[0])
        return replace(f, place=at)
    because = f"{op} is right where its arguments have one use, and wrong where one has two"
    place = replace(f.place, line=lines[0])
    before = [source_line(place.file, n) for n in range(lines[0], lines[-1] + 1)]
    after = [
        line.replace(" = ", " += ", 1) if n in lines else line
        for n, line in enumerate(before, lines[0])
    ]
    advice = f"add to what is there: .{engine.gradient} += ..."
    correction = Correction(advice, "\n".join(before), "\n".join(after), place)
    name = Name("overwritten", because)
    return replace(f, names=(name,), place=place, correction=correction)


def _assignments(method: Place, gradient: str) -> list[int]:
    """Lines of a method that assign a gradient and add to none."""
    assigned = [n for n in _inside(method) if isinstance(n, ast.Assign)]
    return sorted([n.lineno for n in assigned if any(_is_it(t, gradient) for t in n.targets)])


def _giving(method: Place, gradient: str) -> list[int]:
    """Lines of a method that give a gradient, in one way or the other."""
    more = [n for n in _inside(method) if isinstance(n, ast.AugAssign)]
    added = [n.lineno for n in more if _is_it(n.target, gradient)]
    return sorted({*_assignments(method, gradient), *added})


def _inside(method: Place) -> list[ast.AST]:
    defined = [n for n in ast.walk(tree_of_file(method.file)) if isinstance(n, ast.FunctionDef)]
    return [n for f in defined if f.lineno == method.line for n in ast.walk(f)]


def _is_it(target: ast.expr, gradient: str) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == gradient
