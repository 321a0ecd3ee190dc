"""A scalar engine of the user's own (`Value(2.0) * x`, then `backward()`): its ops verified.

Such a class is known by what it does: it is made of one number, keeps that as an attribute, and
has a `backward` without arguments, or a function beside it that takes one of it, after which
another attribute of the result is 1. An engine of arrays is one for arrays of one number. Each op
is checked by itself, then of one value twice, and of a value that is used again: there `=` for `+=`
shows. If all are right, so has to be a result that is used twice, by ways of different lengths: the
order in which each result comes before its arguments is written into what runs back, and tried.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from textwrap import dedent, indent
from types import FunctionType
from typing import Any, cast, final

import numpy as np

from chainrule.engine.source_text import source_line
from chainrule.verify.certifying.certify import certify
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import ObserverAtEnd
from chainrule.verify.place import Place
from chainrule.verify.script.backwards.engine_ops import (
    NUMBERS,
    USES,
    WHAT,
    Engine,
    ScalarOp,
    classes,
    subjects_of,
)
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.script.sandbox.quiet import confine
from chainrule.verify.subject import Array, Subject
from chainrule.verify.trees import tree_of_file

_AT = (np.array([0.7, -1.3, 0.4]), np.array([1.1, 0.6, -0.8]))
_ADVICE = "run back in an order in which each result comes before what it was made of"
_SORTED = """
order, seen = [], set()

def visit(v):
    if id(v) not in seen:
        seen.add(id(v))
        for p in v.{parts}:
            visit(p)
        order.append(v)

visit({root})
{root}.{gradient} = {one}
for v in reversed(order):
    if v.{rule}{there}:
"""
_CALLED = "        v.{rule}()\n"
_GIVEN = """        for p, g in zip(v.{parts}, v.{rule}(v.{gradient})):
            p.{gradient} = p.{gradient} + g
"""


def out_of_order(engine: Engine, subjects: Sequence[Subject], ledger: Ledger) -> Iterator[Finding]:
    """The finding, if ops that are right alone are wrong where a result is used twice."""
    ops = [s for s in subjects if isinstance(s, ScalarOp)]
    shared = list(_shared(engine, ops))
    wrong = [f for f in certify("script", shared, ledger=ledger).findings if f.level == "error"]
    code = _code(engine)
    if not wrong or code is None:
        return
    place = Place(code.co_filename, _loop(code.co_filename, code.co_firstlineno), code.co_qualname)
    because = "each op is right by itself, and wrong where a result has two uses"
    change = _change(engine, place, shared) or Correction(_ADVICE, place=place)
    yield replace(
        wrong[0], subject=f"{engine.kind.__name__}: {code.co_name}", kind=WHAT, input="",
        names=(Name("unordered", because),), place=place, correction=change,
    )  # fmt: skip


def _shared(engine: Engine, ops: Sequence[ScalarOp]) -> Iterator[ScalarOp]:
    """Expressions in which a result is used twice, either way round."""
    plain = {op.name.rpartition(".")[2]: op for op in ops if "," not in op.name}
    two = [op for op in plain.values() if len(op.inputs) == 2]
    names = [n for n in ("__add__", "add", "__mul__", "mul") if n in plain]
    outer = plain[names[0]].op if names else two[0].op if two else None
    inner = next((op for n, op in plain.items() if "mul" in n), None)
    inner = inner or next((op for op in plain.values() if op.op is not outer), None)
    if outer is None or inner is None:
        return
    for k, how in enumerate(_ways(outer, inner)):
        name = f"a result used twice, {('first', 'last', 'later')[k]}"
        yield ScalarOp(engine, name, how, _AT[: len(inner.inputs)])


def _ways(outer: Callable[..., Any], inner: ScalarOp) -> Iterator[Callable[..., Any]]:
    def further(x: Any) -> Any:
        return inner.op(*[x] * len(inner.inputs))

    def later(*xs: Any) -> Any:
        t = inner.op(*xs)
        u = further(t)
        return outer(outer(t, further(u)), outer(u, t))

    yield lambda *xs: outer(t := inner.op(*xs), further(t))
    yield lambda *xs: outer(further(t := inner.op(*xs)), t)
    yield later


def _code(engine: Engine) -> Any:
    """That of what the user has written to run back."""
    own = getattr(engine.kind, "backward", None)
    return getattr(engine.run if isinstance(engine.run, FunctionType) and own is None else own,
                   "__code__", None)  # fmt: skip


def _function(file: str, line: int) -> ast.FunctionDef | None:
    found = [n for n in ast.walk(tree_of_file(file)) if isinstance(n, ast.FunctionDef)]
    return next((f for f in found if f.lineno == line), None)


def _loop(file: str, line: int) -> int:
    """The line of a function's first loop, or function within; its own, if it has none."""
    f = _function(file, line)
    kinds = ast.While | ast.For | ast.FunctionDef
    return next((s.lineno for s in (f.body if f else ()) if isinstance(s, kinds)), line)


def _change(engine: Engine, place: Place, shared: Sequence[ScalarOp]) -> Correction | None:
    """The function with the order in it, if that makes it right."""
    code = _code(engine)
    f = _function(place.file, code.co_firstlineno)
    if f is None or not f.args.args:
        return None
    body = [s for s in f.body if ast.get_docstring(f) is None or s is not f.body[0]]
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    by = " " * body[0].col_offset
    lines = [source_line(place.file, n) for n in range(f.lineno, last + 1)]
    for text in _texts(engine, f.args.args[0].arg):
        new = indent(text, by).rstrip("\n")
        whole = "\n".join([*lines[: first - f.lineno], new])
        if _is_right(engine, f.name, whole, shared):
            before = "\n".join(lines[first - f.lineno :])
            at = replace(place, line=first)
            return Correction(_ADVICE, before, new, at, rechecked=True)
    return None


def _texts(engine: Engine, root: str) -> Iterator[str]:
    """Bodies of such a function, by what an object holds."""
    one, two = engine.kind(0.7), engine.kind(0.6)
    made: Any = None
    for _, op, count in engine.ops():
        with suppress(Exception):
            made = op(*(one, two)[:count])
            break
    held = {n: getattr(made, n, None) for n in dir(made) if not n.startswith("__")}
    parts = [n for n, x in held.items() if _holds(x, one)]
    own: dict[str, Any] = dict(getattr(made, "__dict__", {}))
    rules = [n for n, x in held.items() if callable(x) and (n in own or not inspect.ismethod(x))]
    array = isinstance(getattr(made, engine.number), np.ndarray)
    one_text = f"np.ones_like({root}.{engine.number})" if array else "1.0"
    for part in parts:
        for rule in rules:
            there = "" if getattr(one, rule, None) is None else " is not None"
            for rest in (_CALLED, _GIVEN):
                yield (_SORTED + rest).strip("\n").format(
                    parts=part, root=root, gradient=engine.gradient, rule=rule, one=one_text,
                    there=there,
                )  # fmt: skip


def _holds(x: Any, part: Any) -> bool:
    """Whether an object is a collection of others, this one among them."""
    return isinstance(x, set | tuple | list) and any(y is part for y in cast("list[Any]", x))


def _is_right(engine: Engine, name: str, text: str, shared: Sequence[ScalarOp]) -> bool:
    """Whether the gradients are right with another function: a copy of the process is changed."""
    space = vars(sys.modules[engine.kind.__module__])
    made = dict[str, Any]()
    with suppress(Exception):
        exec(compile(dedent(text), "<order>", "exec"), space, made)
        f = made[name]
        before: Any = getattr(engine.kind, name, None)
        method = before is not None
        run = replace(engine, run=f)
        if method:
            setattr(engine.kind, name, f)
        try:
            return all(_fits(op.with_engine(run)) for op in shared)
        finally:
            if method:
                setattr(engine.kind, name, before)
    return False


def _fits(op: ScalarOp) -> bool:
    xs: list[Array] = [x.value for x in op.inputs]
    bars = op.pull(xs, [np.ones(xs[0].shape)])
    for k, bar in enumerate(bars):
        up, down = ([*xs[:k], xs[k] + h, *xs[k + 1 :]] for h in (1e-5, -1e-5))
        true = (op.forward(up)[0] - op.forward(down)[0]) / 2e-5
        if bar is None or not np.allclose(bar, true, rtol=1e-6, atol=1e-8):
            return False
    return True


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
