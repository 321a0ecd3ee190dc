"""The names of mistakes: one table, from which findings, rules and reports take their words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """A kind of mistake: `code` for machines, `title` for people, `means` for who never met it."""

    code: str
    title: str
    means: str


_ROWS: list[tuple[str, str, str]] = [
    ("transposed", "Jacobian transposed", "the backward applies J where J^T belongs"),
    ("factor", "wrong constant factor", "the gradient is right up to a factor"),
    ("sign", "sign flipped", "the gradient points the other way"),
    ("overwritten", "`=` where `+=` belongs", "one path's contribution replaces another's"),
    ("missing_term", "a term is missing", "a path through the forward has no part in the backward"),
    ("extra_term", "a term too much", "the backward adds what the forward does not have"),
    ("wrong_axis", "sum over the wrong axis", "a reduction runs along another axis than it must"),
    ("not_summed", "broadcast not summed", "an argument was broadcast; its gradient is not summed"),
    ("stale", "saved value changed", "what was saved for the backward was changed afterwards"),
    ("wrong_value", "wrong value used", "the backward reads another value than the rule needs"),
    ("ignores_cotangent", "cotangent ignored", "the backward does not depend on what comes in"),
    ("not_linear", "not linear in the cotangent", "a backward is linear by definition"),
    ("dropped", "gradient dropped", "None or zero for an input that has a gradient"),
    ("detached", "detached", "the graph was cut, so that no gradient flows"),
    ("partly_detached", "one path detached", "the graph was cut on one of the ways to the result"),
    ("unordered", "gradients out of order", "one is handed on before it is complete"),
    ("contiguity", "right only for contiguous cotangents", "strides or memory order are ignored"),
    ("size", "right only for some sizes", "a size is written into the backward"),
    ("lengths", "made for lengths of a kind", "right at multiples of the sizes, wrong at others"),
    ("one_sided", "right only for one sign", "a case of the input is not handled"),
    ("region", "wrong in one region", "some elements get a wrong gradient, others do not"),
    ("precision", "loses precision", "wrong in this dtype by more than its rounding explains"),
    ("wrong_shape", "wrong shape returned", "the gradient has not the shape of its input"),
    ("wrong_input", "gradients in the wrong order", "one input gets what belongs to another"),
    ("not_deterministic", "not deterministic", "two runs on the same values differ"),
    ("writes", "writes into what is not its own", "a backward or a data set changes its arguments"),
    ("raises", "backward raises", "the backward fails where the forward works"),
    ("nan", "not a number", "the gradient is NaN or infinite where the derivative is finite"),
    ("kink", "no derivative here", "the forward has a kink; no finding, said so that it is known"),
    ("straight_through", "straight-through", "the forward is a step; its gradient is made up"),
    ("approximate", "an approximation", "right to some digits, as where a solver stops early"),
    ("unnamed", "wrong, unnamed", "wrong for certain; no known mistake explains it"),
    # Training.
    ("not_reset", "gradients not reset", "this step's gradients are added to the last one's"),
    ("reset_misplaced", "reset at the wrong place", "gradients are dropped before they are used"),
    ("accumulation", "wrong denominator", "accumulated gradients are not divided as they should"),
    ("no_gradient", "no gradient", "a parameter gets no gradient"),
    ("idle_term", "term without a gradient", "a term of the loss counts, and trains nothing"),
    ("reduced_first", "reduced before it is weighted", "only the mean of the weights acts"),
    ("weight_trained", "weight with a graph", "a product trains a factor that is only a weight"),
    ("target_trained", "target with a graph", "what values are fitted to is trained as well"),
    ("axes_mixed", "axes mixed up", "an axis is taken for another one"),
    ("mask_late", "masked after the softmax", "what is masked has its part in the sum"),
    ("self_compared", "compared with itself", "both sides are one, or of the same parameters"),
    ("unused", "computed and not used", "nothing comes of a value with a graph, or of a new array"),
    ("not_optimized", "not in the optimizer", "a parameter has a gradient but is never updated"),
    ("graph_kept", "graph kept over steps", "something holds the graph of steps that are over"),
    ("first_bad", "first NaN or infinity", "the op at which finite values became others"),
    ("vanishing", "vanishing gradient", "the gradient shrinks from layer to layer"),
    ("exploding", "exploding gradient", "the gradient grows from layer to layer"),
    ("dead", "dead units", "units that pass no gradient"),
    ("recomputed", "recomputation differs", "checkpointed code gives other values when run again"),
    ("unseen_change", "change that autograd does not see", "a kept value changed behind its back"),
    (
        "hooked",
        "gradient changed by a hook",
        "a hook was registered again and again, and each changes it",
    ),
    (
        "wrong_domain",
        "wrong kind of input",
        "a loss expects logits, probabilities or logarithms, and gets another",
    ),
    ("broadcast", "broadcast by accident", "each prediction is compared with each target"),
    ("clip_scaled", "clipped before unscaling", "the bound is compared with scaled gradients"),
    ("clip_idle", "clipped at the wrong time", "there is no gradient yet, not all, or it was used"),
    ("schedule_unit", "schedule in another unit", "its length counts epochs, its steps batches"),
    ("wrong_rate", "another rate than meant", "a factor is a rate, or some groups are left out"),
    ("eval_mode", "trained in eval mode", "dropout and batch norm do not do what they are for"),
    ("wrong_update", "update of no known optimizer", "a small change makes it that of one"),
    ("state_lost", "optimizer made again", "what it keeps of gradients begins anew each time"),
    ("idle_load", "values loaded into themselves", "a copy shares the memory of the original"),
    ("undone", "undone by the step", "weights that were set by hand do not stay so"),
    ("mask_inverted", "mask the wrong way round", "attention reads the padding, and nothing else"),
    ("state_carried", "state of another batch", "a recurrence begins where another sequence ended"),
    ("left_behind", "statistics left behind", "a copy follows the weights, not the batch norm's"),
    ("symmetric", "units that stay the same", "they began the same and get the same gradients"),
    ("untied", "copied, not tied", "two layers were to have one weight, and have two"),
    ("swapped", "average that keeps nothing", "it takes nearly all of the model in each step"),
    ("near_formula", "near a known formula", "one small change makes it a formula of the field"),
    ("lost_updates", "updates are lost", "a parameter stays as it is: a copy is changed"),
]

MISTAKES: dict[str, Mistake] = {code: Mistake(code, title, means) for code, title, means in _ROWS}
"""By code. A rule that names a new mistake adds its row here."""
