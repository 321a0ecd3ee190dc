"""The plan of a program: passes over terms, then memory and order, then what shares a kernel.

Realized terms join a group as members. A kernel of rows loops over the leading axes that its
members share; within a row come phases: loops over the remaining axes, or none. What a phase
computes, the same phase uses from registers; later phases and kernels read it from memory. A
reduction's result is known in the phases after its own. A kernel of a product takes in maps that
use the product at the place where it is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

from chainrule.compile.graph.loop_body import while_loop_of
from chainrule.compile.graph.rules.simplify import simplified_body
from chainrule.compile.graph.terms import Program, Term
from chainrule.compile.loops.expressions import computable
from chainrule.compile.lower.algorithms.supported_ops import is_algorithm
from chainrule.compile.lower.column_layouts import is_small
from chainrule.compile.lower.fusion import Fusion
from chainrule.compile.lower.matmul_choice import for_blas
from chainrule.compile.lower.memory_plan import plan_memory
from chainrule.compile.lower.plan import Kind, Plan
from chainrule.compile.lower.term_passes import (
    rematerialize,
    with_common_prefixes,
    with_scatters_in_place,
    without_transposed_products,
)
from chainrule.compile.target import Target
from chainrule.errors import TraceError

IsCall = Callable[[Term], bool]


def plan(program: Program, target: Target, is_call: IsCall | None = None) -> Plan:
    """The plan of `program`. `is_call` says which products are calls instead of being computed in
    place: those that are faster by BLAS, if nothing else is said."""
    is_call = is_call or partial(for_blas, target=target)
    for rewritten in (
        without_transposed_products, rematerialize, with_common_prefixes, with_scatters_in_place,
    ):  # fmt: skip
        program = rewritten(program)
    memory = plan_memory(program, lambda t: is_small(t, target) and not is_call(t), target.lanes)
    bodies = {t: p for t in memory.order if (p := _body(t, target, is_call)) is not None}

    def kind(t: Term) -> Kind:
        return "algorithm" if is_algorithm(t) else "while" if t in bodies else "host"

    fusion = Fusion(memory, is_call, kind)
    return Plan(
        target,
        memory,
        tuple(fusion.groups),
        MappingProxyType(fusion.group_of),
        MappingProxyType(bodies),
    )


def _body(t: Term, target: Target, is_call: IsCall) -> Plan | None:
    """The plan of an iteration of `t`, if that is a loop of unknown length of which every op has
    loops."""
    loop = while_loop_of(t)
    if loop is None or not all(computable(x.dtype) for x in loop.program.inputs):
        return None
    body = plan(loop.simple(simplified_body), target, is_call)
    if not _has_host(body):
        return body
    if symbols := body.symbols:
        raise TraceError(
            f"while_loop: its turns have sizes that are dynamic ({', '.join(symbols)}), and "
            "an op without loops (a factorization, a sort). Leave these sizes out of `dynamic`"
        )
    return None


def _has_host(plan: Plan) -> bool:
    """Whether an op of the program runs in its eager form, whatever its values are."""
    return any(g.kind == "host" for g in plan.groups) or any(map(_has_host, plan.bodies.values()))
