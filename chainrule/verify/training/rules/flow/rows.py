"""What is said of a model's flow: where gradients vanish, explode or end, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from chainrule.verify.place import Place
from chainrule.verify.training.facts import layers
from chainrule.verify.training.facts.layers import Units
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.rules.flow.model import Model, finite
from chainrule.verify.training.text import origins
from chainrule.verify.user_frames import placed

_STRAIGHT = 0.7
"""An activation with such a mean derivative takes little from a gradient."""
_Code = Literal["vanishing", "exploding"]
_Why = tuple[str, str, Place | None]


def _reason(code: _Code, units: Sequence[Units]) -> _Why:
    """Why, as far as the activations tell, what to do about it, and where that is known."""
    if code == "exploding":
        return (
            "each layer multiplies the gradient by more than 1: its weights are too large",
            "smaller initial weights (variance 1/fan-in, 2/fan-in before relu), a norm between "
            "the layers, or clip_grad_norm_",
            origins.weights(),
        )
    squashed = [u for u in units if u.op in ("sigmoid", "tanh")]
    if len(squashed) >= 2 and min([u.slope for u in squashed]) < _STRAIGHT:
        op = squashed[0].op
        same = [u for u in squashed if u.op == op]
        slope = sum([u.slope for u in same]) / len(same)
        share = sum([u.saturated for u in same]) / len(same)
        most = " (never more than 0.25)" if op == "sigmoid" else ""
        return (
            f"{len({u.order for u in same})} layers of {op}: its mean derivative is {slope:.3g}"
            f"{most}, {share:.0%} of the units are saturated",
            "relu or gelu instead, with weights of variance 2/fan-in; or residual connections "
            "(x + f(x)) and a norm in each layer",
            origins.activation(op),
        )
    small = "each layer multiplies the gradient by less than 1: its initial weights are too small"
    rule = "1/fan-in (2/fan-in before relu: nn.init.kaiming_normal_)"
    return (
        small if units else f"{small}, or what is between the layers is flat (sigmoid, tanh)",
        f"initial weights of variance {rule}, residual connections, or a norm in each layer",
        origins.weights() if units else None,
    )


def _through_layers(code: _Code) -> Row:
    """A gradient that is lost, or grows, from layer to layer."""
    at: Callable[[Model], list[layers.Row]] = lambda m: getattr(m, code)

    def words(m: Model) -> str:
        top, first, factor, gaps = m.loss_of(code)
        return (
            f"from {m.flowing[-1].name} back to {m.flowing[0].name} the gradient goes from "
            f"{top:.2e} to {first:.2e}: a factor of {factor:.2g} for each of {gaps} layers"
        )

    return Row(
        code,
        lambda f: [m for m in f.models() if at(m)],
        words,
        lambda m: _reason(code, m.units)[1],
        lambda m: "error" if m.has_ended and code == "exploding" else "warning",
        place=lambda m: _reason(code, m.units)[2] or placed(at(m)[0].at),
        detail=lambda m: _reason(code, m.units)[0],
        subject="{name}",
        kind="model",
        input=lambda m: join_names([row.name for row in at(m)]),
        table=lambda m: m.flow_table,
    )


def _over_calls(row: layers.Row, then: str) -> str:
    last = row.turns[-1]
    return (
        f"from the last of {len(last)} calls of {row.name} back to the first the gradient goes "
        f"from {last[0]:.2e} to {last[-1]:.2e}: {then}"
    )


def _each_call(m: Model) -> str:
    seen = finite(m.turns[0].turns[-1])
    factor = (seen[-1] / seen[0]) ** (1 / (len(seen) - 1))
    return _over_calls(m.turns[0], f"a factor of {factor:.2g} for each call")


def _dying(m: Model) -> str:
    u = m.dead[0]
    row = m.behind(u)
    sunk = f"; the biases of {row.name} are {row.bias:.4g}" if _is_sunk(row) else ""
    return (
        f"{u.dead:.0%} of the {u.count} units of the relu behind {row.name} are 0 for each of "
        f"{u.samples} values, in every step that was seen: no gradient goes through them{sunk}"
    )


def _is_sunk(row: layers.Row) -> bool:
    """Whether biases are one and the same negative number: the program has set them so."""
    return row.bias is not None and row.bias < 0


def _sunk_at(m: Model) -> Place | None:
    row = m.behind(m.dead[0])
    return (origins.biases(row.name, placed(row.at)) if _is_sunk(row) else None) or placed(row.at)


def _stuck(m: Model) -> str:
    u = m.stuck[0]
    return (
        f"{u.saturated:.0%} of the values of the {u.op} behind {m.behind(u).name} are saturated, "
        f"in every step that was seen: their mean derivative is {u.slope:.2g}, at most "
        f"{0.25 if u.op == 'sigmoid' else 1}"
    )


_of_model = partial(Row, subject="{name}", kind="model")
ROWS = (
    _through_layers("vanishing"),
    _through_layers("exploding"),
    _of_model(
        "exploding",
        lambda f: [m for m in f.models() if m.turns],
        _each_call,
        "smaller recurrent weights (orthogonal, of gain 1), a gated cell, fewer steps at a time, "
        "or clip_grad_norm_",
        place=lambda m: origins.parameter(m.turns[0].name) or placed(m.turns[0].at),
        detail="each call multiplies the gradient by more than 1: its weights are too large",
        input="{turns[0].name}",
    ),
    _of_model(
        "vanishing",
        lambda f: [m for m in f.models() if m.lost],
        lambda m: _over_calls(m.lost[0], "nothing of it reaches what comes before"),
        "recurrent weights of gain 1 (orthogonal), a gated cell with an open forget gate, or "
        "another way from what comes before to the loss",
        place=lambda m: placed(m.lost[0].at),
        detail="each call multiplies the gradient by less than 1",
        input=lambda m: join_names([row.name for row in m.lost[1:]]),
    ),
    _of_model(
        "exploding",
        lambda f: [m for m in f.models() if m.beyond],
        lambda m: (
            f"the gradient of {m.beyond[0].name} has norm {m.beyond[0].gradients[-1]:.2e}: its "
            "square is larger than what float32 can hold (3.4e38)"
        ),
        "smaller initial weights (of a recurrence: orthogonal, of gain 1), a gated cell, or "
        "clip_grad_norm_",
        place=lambda m: (
            origins.fill_line(m.beyond[0].name) or origins.weights() or placed(m.beyond[0].at)
        ),
        input="{beyond[0].name}",
    ),
    _of_model(
        "dead",
        lambda f: [m for m in f.models() if m.dead],
        _dying,
        "a smaller learning rate or bias, another initialisation, or leaky_relu / gelu",
        place=_sunk_at,
        input=lambda m: join_names([m.behind(u).name for u in m.dead]),
        table=lambda m: m.dead_table(m.dead),
    ),
    _of_model(
        "dead",
        lambda f: [m for m in f.models() if m.stuck],
        _stuck,
        "bring the inputs to mean 0 and deviation 1, or take smaller initial weights",
        place=lambda m: placed(m.behind(m.stuck[0]).at),
        input=lambda m: join_names([m.behind(u).name for u in m.stuck]),
        table=lambda m: m.dead_table(m.stuck),
    ),
)
