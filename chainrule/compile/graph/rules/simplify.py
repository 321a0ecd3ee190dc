"""Rewriting a program before it is scheduled: ops in terms of simpler ones, and exact algebra.

First complex numbers become pairs of real ones (`complexes`), and `narrow` ones are widened. The
rules stand in tables by theme: `algebra` (numbers), `reshaping` (places), `simpler`, `einsums`,
`windowing` and `matrices` (ops that others are made of). `rewriter` applies them.
"""

from __future__ import annotations

from functools import partial

from chainrule.compile.graph.loop_body import while_loop_of
from chainrule.compile.graph.rules.algebra import ALGEBRA
from chainrule.compile.graph.rules.complex_as_pairs import complex_to_pairs, together
from chainrule.compile.graph.rules.decompositions import MATRICES, SIMPLER
from chainrule.compile.graph.rules.einsum import EINSUMS
from chainrule.compile.graph.rules.half_precision import widen_half_precision
from chainrule.compile.graph.rules.index_assignment import INDEX_ASSIGNMENT
from chainrule.compile.graph.rules.rewriter import Rewriter, merge_tables
from chainrule.compile.graph.rules.shapes import RESHAPING, TOGETHER
from chainrule.compile.graph.rules.windows import WINDOWING
from chainrule.compile.graph.terms import Program, Terms, in_order

RULES = merge_tables(
    SIMPLER, INDEX_ASSIGNMENT, ALGEBRA, EINSUMS, WINDOWING, MATRICES, RESHAPING, TOGETHER
)
"""All rules, by class of op, in the order in which they are tried."""


def simplify(
    program: Program,
    terms: Terms,
    whole: frozenset[int] = frozenset(),
    *,
    sizes_vary: bool = False,
) -> Program:
    """The same program in simpler terms, also within its loops. `whole` are numbers of terms, in
    order, that compute with complex numbers and whose ops stay. With `sizes_vary` the program is
    one of several that are to become one for all sizes: no rule makes tables for its sizes."""
    real = widen_half_precision(complex_to_pairs(program, terms, whole), terms)
    made = together(Rewriter(terms, RULES, sizes_vary).program(real), program, terms)
    for t in in_order(made.roots):
        if (loop := while_loop_of(t)) is not None:
            loop.simple(partial(simplified_body, sizes_vary=sizes_vary))
    return made


def simplified_body(program: Program, *, sizes_vary: bool = False) -> Program:
    """A program of its own in simpler terms."""
    return simplify(program, Terms(), sizes_vary=sizes_vary)
