"""What kernels are written with: names, expressions, more memory, loops. It reads the plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, final

from chainrule.compile.graph.sizes import Extent, product
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Buffer, Expr, Local, Var, strides_of
from chainrule.compile.loops.statements import For, Kernel, Mode, Stmt, Store
from chainrule.compile.loops.views import Index, View, full_view, index_of
from chainrule.compile.lower.elements import Inliner
from chainrule.compile.lower.plan import Plan


@final
class Builder:
    """Kernels in the making, and the memory that they need beside the plan's."""

    def __init__(self, plan: Plan) -> None:
        self.target = plan.target
        self.buffers = list(plan.memory.buffers)
        self.kernels: list[Kernel] = []
        self.elements = Inliner(plan.views, plan.memory.patterns)
        self.exprs = self.elements.exprs
        self.element, self.view = self.elements.element, self.elements.view
        self.packed: dict[Any, View] = {}
        """Copies of right matrices, by term and whether it is transposed."""
        self._views = plan.views
        self._names = 0

    def memory(
        self, dtype: Any, shape: tuple[Extent, ...], label: str, role: Any = "scratch",
        value: Any = None, run: Extent | None = None,
    ) -> Buffer:  # fmt: skip
        """New memory: scratch memory, if nothing else is said."""
        b = Buffer(f"b{len(self.buffers)}", dtype, shape, role, value, label, run)
        self.buffers.append(b)
        return b

    def var(self, extent: Extent) -> Var:
        """A new counter."""
        self._names += 1
        return Var(f"i{self._names}", extent)

    def local(self, dtype: Any) -> Local:
        """A new number in a register."""
        self._names += 1
        return Local(f"r{self._names}", dtype)

    def begin(self) -> None:
        """Begin a kernel: nothing is in registers, and no expression is known."""
        self.elements.forget()
        self.elements.in_registers = {}

    def kernel(self, word: str, body: Sequence[Stmt], about: Sequence[str] = ()) -> None:
        """A kernel, which runs after those that are there."""
        self.kernels.append(Kernel(f"k{len(self.kernels)}_{word}", tuple(body), tuple(about)))

    def store(self, t: Term, at: Index, value: Expr) -> Store:
        """`value` is the element of `t` at `at`."""
        view = self._views[t]
        return Store(view.buffer, view.at(at), self.exprs.cast(value, view.buffer.dtype))

    def nest(
        self, axes: Sequence[Var], body: Sequence[Stmt], inner: Mode = "lanes",
        chained: Collection[Var] = (),
    ) -> list[Stmt]:  # fmt: skip
        """Loops over `axes`, the last one as `inner` says: in lanes. They are independent, but for
        those of `chained` counters."""
        out: list[Stmt] = list(body)
        for n, v in enumerate(reversed(axes)):
            if v.extent != 1:
                mode = inner if n == 0 else "serial"
                out = [For(v, tuple(out), mode, independent=v not in chained)]
        return out

    def counters(self, shape: Sequence[Extent]) -> tuple[list[Var], Index]:
        """A counter for each axis, and the index that they make."""
        axes = [self.var(n) for n in shape]
        return axes, index_of(axes)

    def copy(self, t: Term, to: Buffer) -> list[Stmt]:
        """Loops that copy the elements of `t`, in order."""
        self.begin()
        axes, at = self.counters(t.shape)
        value = self.exprs.cast(self.element(t, at), to.dtype)
        return self.nest(axes, [Store(to, full_view(to).at(at), value)])

    def contiguous(self, t: Term) -> Buffer:
        """Memory in which the elements of `t` lie in order; copied there if they do not yet."""
        view = self.view(t)
        lies = view is not None and view.offset == 0 and _is_contiguous(view.strides, t.shape)
        if view is not None and lies and view.buffer.size == product(t.shape):
            return view.buffer
        b = self.memory(t.dtype, t.shape, f"copy of {t.name}")
        self.kernel("copy", self.copy(t, b))
        return b


def _is_contiguous(strides: Sequence[Extent], shape: Sequence[Extent]) -> bool:
    return all(s == t or n == 1 for s, t, n in zip(strides, strides_of(shape), shape, strict=True))
