"""From a plan to loops: the kernels of its groups, in order, then passes over what was written."""

from __future__ import annotations

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.collapse import collapse
from chainrule.compile.loops.statements import Kernel, Loops, Stmt, Store
from chainrule.compile.lower import materialize, matmul, row_kernels, single_op
from chainrule.compile.lower.algorithms import table
from chainrule.compile.lower.attention_blocks.bands import merge_bands
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.dead_stores import remove_dead_stores
from chainrule.compile.lower.plan import Group, Plan, symbols_of
from chainrule.engine.provenance import location
from chainrule.ops.shapes.shaping import Astype


def write(plan: Plan) -> Loops:
    """The program in loops."""
    builder = Builder(plan)
    for g in plan.groups:
        builder.begin()
        _add(plan, builder, g)
    for t, to in plan.memory.delayed_copies:
        axes, at = builder.counters(t.shape)
        view = plan.views[t]
        value = builder.exprs.load(view.buffer, view.at(at))
        builder.kernel("copy", builder.nest(axes, [Store(to.buffer, to.at(at), value)]))
    program = Loops(builder.buffers, builder.kernels, symbols_of(builder.buffers))
    program = merge_bands(remove_dead_stores(program))
    for k in program.kernels:
        k.body = collapse(k.body)
    return program


def _add(plan: Plan, builder: Builder, g: Group) -> None:
    """The kernels of a group; what they need first comes before them."""
    name = f"k{len(builder.kernels)}_{_word(_naming_term(plan, g.term))}"
    body, *more = _bodies(plan, builder, g)
    about = tuple([_about(_naming_term(plan, m.term)) for m in g.members])
    builder.kernels.append(Kernel(name, tuple(body), (*about, *single_op.about(body))))
    for body in more:
        builder.kernel("otherwise", body, about)


def _bodies(plan: Plan, builder: Builder, g: Group) -> list[list[Stmt]]:
    """The statements of a group, those of each of its kernels."""
    match g.kind:
        case "rows":
            return [row_kernels.Rows(plan, builder, g).body()]
        case "product":
            return [matmul.tile(plan, builder, g)]
        case "gemm":
            return [matmul.gemm(plan, builder, g.term)]
        case "concat":
            return [single_op.concat(plan, builder, g.term)]
        case "scatter":
            return [single_op.scatter(plan, builder, g.term)]
        case "scan":
            return [single_op.scan(plan, builder, g.term)]
        case "host":
            return [single_op.host(plan, builder, g.term)]
        case "algorithm":
            return table.KERNELS[type(g.term.op)](plan, builder, g.term)
        case "while":
            body = plan.bodies[g.term]
            return [single_op.loop(plan, builder, g.term, body, write(body))]


def _naming_term(plan: Plan, t: Term) -> Term:
    """What `t` is named by: a cast by what it casts, if that is computed nowhere else."""
    while isinstance(t.op, Astype):
        (x,) = t.args
        if x in plan.group_of or not materialize.is_computed(x):
            break
        t = x
    return t


def _word(t: Term) -> str:
    return "".join([c if c.isalnum() else "_" for c in t.name])


def _about(t: Term) -> str:
    where = f"  {location(t.code, t.at)}" if t.code is not None else ""
    return f"{t.name} {t.dtype}{list(t.shape)}{where}"
