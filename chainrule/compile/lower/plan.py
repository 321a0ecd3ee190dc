"""What is decided of a program before a kernel is written: a value that nothing changes.

A `MemoryPlan` says which terms get memory, where, and in what order they are computed; a `Plan`
adds which of them share a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, final

from chainrule.compile.graph.array_patterns import Pattern
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Program, Term
from chainrule.compile.loops.expressions import Buffer, Var
from chainrule.compile.loops.views import Index, View
from chainrule.compile.lower.op_rules import Reduction
from chainrule.compile.lower.ordering import Read
from chainrule.compile.target import Target

Kind = Literal[
    "rows", "product", "gemm", "concat", "scatter", "scan", "algorithm", "while", "host"
]  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory and order of the terms of `program`. Terms with memory are *realized*."""

    program: Program
    buffers: tuple[Buffer, ...]
    views: Mapping[Term, View]
    """Where a term lies: inputs, realized terms, constants without a formula."""
    terms_of_buffer: Mapping[Buffer, tuple[Term, ...]]
    outputs: Mapping[Term, tuple[Buffer, ...]]
    """The memory of an op that has several outputs."""
    patterns: Mapping[Term, Pattern]
    """The formulas of constants that have one."""
    results: tuple[Buffer, ...]
    order: tuple[Term, ...]
    """The realized terms, each after what it reads."""
    waits_for: Mapping[Term, Sequence[Term]]
    """The readers of what a term overwrites: they come before it."""
    reads: Mapping[Term, Set[Term]]
    readers: Mapping[Term, Sequence[Term]]
    reads_at: Mapping[Term, Sequence[Read]]
    """Which memory of inputs a term reads."""
    delayed_copies: tuple[tuple[Term, View], ...]
    """What cannot be computed in place is copied there when all have read the old value."""
    columns: Set[Term]
    """Terms that are laid out by columns (see `column_layouts`)."""
    heads: Set[Term]
    """Those of them in which heads are the innermost axis (see `head_layout`)."""


@final
@dataclass(frozen=True, eq=False, slots=True)
class Member:
    """A term of a kernel. `counters` has one counter for each of its axes. Axis a runs along the
    kernel's row `along[a]`, if `along` has a. `requests` are the realized terms
    that it reads, each with its index.
    """

    term: Term
    counters: tuple[Var, ...] = ()
    requests: tuple[tuple[Term, Index], ...] = ()
    reduces: Reduction | None = None
    along: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@final
@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """The terms of one kernel."""

    kind: Kind
    members: tuple[Member, ...]
    rows: tuple[Extent, ...] = ()
    inside: bool = False
    """Whether lanes run along inner axes, because a reduction there needs them."""
    across: bool = False
    """Whether a reduction over outer axes needs lanes along the rows."""

    @property
    def term(self) -> Term:
        """The first of its terms, or the only one."""
        return self.members[0].term


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """The kernels of a program for `target`; `bodies` are the plans of its loops of unknown length
    that run in machine code."""

    target: Target
    memory: MemoryPlan
    groups: tuple[Group, ...]
    group_of: Mapping[Term, int]
    bodies: Mapping[Term, Plan]

    @property
    def views(self) -> Mapping[Term, View]:
        """Where terms lie."""
        return self.memory.views

    @property
    def inputs(self) -> list[Buffer]:
        """The memory of the program's inputs."""
        return [self.views[t].buffer for t in self.memory.program.inputs]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols in the sizes of memory."""
        return symbols_of(self.memory.buffers)


def symbols_of(buffers: Iterable[Buffer]) -> tuple[str, ...]:
    """The symbols in the sizes of `buffers`, in order."""
    sizes = [n for b in buffers for n in b.shape if not isinstance(n, int)]
    return tuple(sorted({s for n in sizes for s in n.symbols}))
