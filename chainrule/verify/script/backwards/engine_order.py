"""Whether an engine hands a gradient on before it is complete: a result that is used twice, by ways
of different lengths, has to wait for both.

Its ops are right by themselves; so what is wrong there is the order of what runs back. The order in
which each result comes before its arguments is written into it, and tried.
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
from typing import Any, cast

import numpy as np

from chainrule.engine.source_text import source_line
from chainrule.verify.certify import certify
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.script.backwards.engine_kinds import Engine
from chainrule.verify.script.backwards.engine_ops import WHAT, ScalarOp
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

    def first(*xs: Any) -> Any:
        t = inner.op(*xs)
        return outer(t, further(t))

    def last(*xs: Any) -> Any:
        t = inner.op(*xs)
        return outer(further(t), t)

    def later(*xs: Any) -> Any:
        t = inner.op(*xs)
        u = further(t)
        return outer(outer(t, further(u)), outer(u, t))

    yield from (first, last, later)


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
