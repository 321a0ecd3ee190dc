"""Which functions of mathematics a kernel calls instead of having their instructions in place.

In place there is no call, and what other expressions compute can go on meanwhile. But each takes
some fifty to three hundred instructions, and what LLVM does with a body grows faster than the body.
So a kernel with many uses of a function calls it; there is one for each function and type of lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from llvmlite import ir

from chainrule.compile import mathlib
from chainrule.compile.llvm import functions as fn
from chainrule.compile.llvm.numbers import Builder, Value, lanes_of, suffix
from chainrule.compile.loops.expressions import Expr, within
from chainrule.compile.loops.functions import MATHEMATICS
from chainrule.compile.loops.statements import For, Kernel, Product, Stmt, exprs_of, statements

FEW = 4
"""So many uses of a function in a kernel with loops are in place, in one without a single one..."""
MANY = 12
"""... unless all kernels of a program together have more than these."""


def functions_called(kernels: Mapping[str, Kernel]) -> dict[str, frozenset[str]]:
    """By the text of a kernel, the functions that it calls; kernels with one text are one."""
    uses = {text: Counter(_mathematics(k.body)) for text, k in kernels.items()}
    total = sum(uses.values(), Counter[str]())
    few = {text: FEW if _has_loops(k) else 1 for text, k in kernels.items()}
    return {
        text: frozenset([name for name, n in found.items() if n > few[text] or total[name] > MANY])
        for text, found in uses.items()
    }


def _has_loops(k: Kernel) -> bool:
    return any(isinstance(s, For | Product) for s in k.body)


def _mathematics(body: Sequence[Stmt]) -> Iterator[str]:
    """The functions in `body`, each as often as it is computed of something else."""
    seen: set[Expr] = set()
    for s in statements(body):
        for x in (x for e in exprs_of(s) if e not in seen for x in within(e)):
            if x not in seen and x.kind == "fn" and is_mathematics(x):
                yield x.of[0]
            seen.add(x)


def is_mathematics(e: Expr) -> bool:
    """Whether a function of the loop language is one of `mathlib`."""
    name, first, *_ = e.of
    if name in fn.ROWS and name not in ("pow", "floor_divide", "remainder"):
        return False
    return first.dtype.kind == "f" and name in MATHEMATICS


def call(b: Builder, name: str, xs: Sequence[Value]) -> Value:
    """Call the function `name` of `xs`, which are of one type."""
    kind = xs[0].type
    label = f"chainrule.{name}.{suffix(kind)}"
    f = b.module.globals.get(label)
    if f is None:
        f = ir.Function(b.module, ir.FunctionType(kind, [kind] * len(xs)), label)
        f.linkage = "internal"
        f.attributes.add("noinline")
        f.attributes.add("nounwind")
        inner = ir.IRBuilder(f.append_basic_block())
        inner.ret(mathlib.emit(name, inner, *f.args, target=b.module.target))
    return b.call(f, xs)


LIBRARY = "c_library."
"""With it begin the names by which code knows functions of the C library: LLVM, which knows their
own names, may put something else in their place that is rounded differently."""


def call_library(b: Builder, name: str, xs: Sequence[Value]) -> Value:
    """The C library's function `name` of `xs`, lane by lane where they are vectors."""
    number = xs[0].type.element if lanes_of(xs[0]) else xs[0].type
    f = b.module.globals.get(LIBRARY + name)
    if f is None:
        f = ir.Function(b.module, ir.FunctionType(number, [number] * len(xs)), LIBRARY + name)
    if not lanes_of(xs[0]):
        return b.call(f, xs)
    out: Value = ir.Constant(xs[0].type, ir.Undefined)
    for lane in range(lanes_of(xs[0])):
        at = ir.Constant(ir.IntType(32), lane)
        out = b.insert_element(out, b.call(f, [b.extract_element(x, at) for x in xs]), at)
    return out
