"""Ops on whole arrays that are algorithms of their own: a kernel for each, made of plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chainrule.compile.loops.language import Stmt
from chainrule.compile.scheduling.lower import in_loops
from chainrule.compile.scheduling.searching import search
from chainrule.compile.scheduling.sorting import order
from chainrule.compile.terms.terms import Term
from chainrule.ops.sorting import Order, SearchSorted

if TYPE_CHECKING:
    from chainrule.compile.scheduling.schedule import Scheduler

Build = Callable[["Scheduler", Term], list[Stmt]]

ALGORITHMS: dict[type, Build] = {SearchSorted: search, Order: order}
"""By class of op: the statements of its kernel."""


def is_algorithm(t: Term) -> bool:
    """Whether `t` is such an op, of numbers with which loops compute."""
    return type(t.op) in ALGORITHMS and in_loops(t)


def build(s: Scheduler, t: Term) -> list[Stmt]:
    """The statements of its kernel."""
    return ALGORITHMS[type(t.op)](s, t)
