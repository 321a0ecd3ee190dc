"""Turns of a loop whose gradients are given: how its own optimizer changes a parameter then.

In its text, and in the functions that it calls, what an update is computed of is replaced by
gradients that are known, turn by turn; what its target is before and after it is kept.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.arrays.members import walk
from chainrule.verify.script.byhand.claimed_gradient import is_held
from chainrule.verify.script.byhand.loops import Loop
from chainrule.verify.script.byhand.script_state import ScriptState, array_of, is_tensor, same_draws
from chainrule.verify.script.byhand.step_text import StepText
from chainrule.verify.script.byhand.updates import Update, of_difference, update_of
from chainrule.verify.trees import blocks

GIVE, SEE = "__give__", "__see__"
TURNS = 8
"""Turns that are made."""


@dataclass(frozen=True)
class Own:
    """An optimizer of the script's own: the statements by which it changes a parameter."""

    block: list[ast.stmt]
    """That they are in."""
    start: int
    """The first one that may use the gradient."""
    at: int
    """The one that changes the parameter."""
    update: Update

    @property
    def statements(self) -> list[ast.stmt]:
        """All of them."""
        return self.block[self.start : self.at + 1]

    @property
    def gradient(self) -> str:
        """As it is written."""
        g = self.update.gradient
        return ast.unparse(g.operand if isinstance(g, ast.UnaryOp) else g)


def optimizers_in(tree: ast.AST) -> Iterator[Own]:
    """Updates that go down through means and velocities to a gradient that has a name."""
    for block in blocks(tree):
        for i, s in enumerate(block):
            update = update_of(s, block[:i])
            if update is None and isinstance(s, ast.Assign):
                update = of_difference(s.value, s, block[:i])
            if update is None or not update.through:
                continue
            own = Own(block, 0, i, update)
            first = min([block.index(t) for t in update.through if t in block], default=i)
            stores = [k for k in range(first) if own.gradient in assigned_names(block[k])]
            if is_held(ast.parse(own.gradient, mode="eval").body):
                yield Own(block, stores[-1] + 1 if stores else 0, i, update)


def assigned_names(s: ast.stmt) -> set[str]:
    """What a statement gives another value."""
    targets = s.targets if isinstance(s, ast.Assign) else [getattr(s, "target", None)]
    each = [e for t in targets if t for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return {ast.unparse(e) for e in each}


def with_given_gradients(tree: ast.AST) -> ast.AST:
    """The tree, changed: gradients are given, and what they change is seen."""
    for own in list(optimizers_in(tree)):
        text = own.gradient
        for s in own.statements:
            _Given(text).visit(s)
        target = ast.unparse(own.update.target)
        look = ast.parse(f"{SEE}({target})").body[0]
        at = own.block.index(own.statements[-1])
        last = own.block[at]
        before, after = copy.deepcopy(look), copy.deepcopy(look)
        for n in (*ast.walk(before), *ast.walk(after)):
            ast.copy_location(n, last)
        own.block[at : at + 1] = [before, last, after]
    return tree


class _Given(ast.NodeTransformer):
    """Replaces what is read and written so."""

    def __init__(self, text: str) -> None:
        self._text = text

    def visit(self, node: ast.AST) -> Any:
        loads = isinstance(getattr(node, "ctx", None), ast.Load)
        if loads and isinstance(node, ast.expr) and ast.unparse(node) == self._text:
            call = ast.Call(ast.Name(GIVE, ast.Load()), [node], [])
            return ast.fix_missing_locations(ast.copy_location(call, node))
        return self.generic_visit(node)


class Giver:
    """Gives gradients, the same ones to all of one shape, and keeps what parameters were."""

    def __init__(self) -> None:
        self.turn = 0
        self.looks: list[list[Array]] = []

    def gradient(self, shape: tuple[int, ...], turn: int) -> Array:
        """That of a turn."""
        rng = np.random.default_rng(turn)
        return rng.normal(size=shape) * (1 + rng.uniform(size=shape))

    def give(self, x: Any) -> Any:
        """In place of a gradient."""
        array = array_of(x)
        if array is None:
            return float(self.gradient((1,), self.turn)[0])
        g = self.gradient(array.shape, self.turn)
        if is_tensor(x):
            import torch

            return torch.as_tensor(g, dtype=x.dtype)
        return g

    def see(self, x: Any) -> None:
        """A parameter, before an update or after it."""
        array = array_of(x)
        self.looks[-1].append(np.array(x if array is None else array, dtype=float))


@dataclass(frozen=True)
class Course:
    """How parameters were changed: for each of them gradients, values and changes, by turns."""

    rows: Sequence[tuple[Array, Array, Array]]
    rates: Sequence[Array]
    """For each turn, numbers of the script that are others in each."""


def course(
    text: StepText, scope: dict[str, Any], loop: Loop,
    rewriting: Callable[[StepText, dict[str, Any], Callable[[ast.AST], ast.AST]], StepText],
    change: Callable[[ast.AST], ast.AST] = lambda tree: tree,
) -> Course:  # fmt: skip
    """Some turns from here on, with gradients that are given; the scope is as it was."""
    giver, held = Giver(), ScriptState(scope)
    setattr(builtins, GIVE, giver.give)
    setattr(builtins, SEE, giver.see)
    made = rewriting(text, scope, lambda tree: with_given_gradients(change(tree)))
    turns = _turns(loop, scope)
    numbers = list[dict[str, float]]()
    try:
        for turn in range(TURNS):
            giver.turn = turn
            giver.looks.append([])
            if turns is not None:
                exec(compile(turns(turn), "<turn>", "exec"), scope)
            with same_draws(), np.errstate(all="ignore"):
                values: dict[str, Any] = dict(made.function("locals()", scope)())
            scope.update(values)
            numbers.append({n: float(x) for n, x in values.items() if isinstance(x, float)})
    finally:
        held.restore()
    return Course(list(_rows(giver)), list(_rates(numbers)))


def _turns(loop: Loop, scope: dict[str, Any]) -> Callable[[int], ast.Module] | None:
    """What gives a loop's variables what they are in a turn."""
    if not isinstance(loop, ast.For):
        return None
    names = {n.func.id for n in ast.walk(loop.iter)
             if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}  # fmt: skip
    if names - {"range"} or not names:
        return None
    code = compile(ast.Expression(copy.deepcopy(loop.iter)), "<turn>", "eval")
    over: Any = eval(code, scope)
    some: list[Any] = list(islice(over, TURNS))
    if len(some) < TURNS:
        return None
    target = ast.unparse(loop.target)
    return lambda k: ast.parse(f"{target} = {some[k]!r}")


def _rows(giver: Giver) -> Iterator[tuple[Array, Array, Array]]:
    counts = {len(looks) for looks in giver.looks}
    if len(counts) != 1:
        return
    for k in range(0, counts.pop(), 2):
        before = np.array([looks[k].ravel() for looks in giver.looks])
        after = np.array([looks[k + 1].ravel() for looks in giver.looks])
        shape = giver.looks[0][k].shape
        g = [giver.gradient(shape or (1,), t).ravel() for t in range(TURNS)]
        yield np.array(g), before, after - before


def _rates(numbers: Sequence[dict[str, float]]) -> Iterator[Array]:
    yield np.ones(len(numbers))
    for name in set[str]().union(*numbers):
        found = np.array([n.get(name, np.nan) for n in numbers])
        if np.all(np.isfinite(found)) and np.ptp(found) > 0 and np.all(found != 0):
            yield found


def numbers_in(scope: dict[str, Any], tree: ast.AST) -> list[float]:
    """Small numbers that a script knows: its variables', and those that stand in its text."""
    held = [x for _, x in walk(dict(scope)) if isinstance(x, float)]
    said = [n.value for n in ast.walk(tree)
            if isinstance(n, ast.Constant) and isinstance(n.value, float)]  # fmt: skip
    return list(dict.fromkeys([x for x in (*held, *said) if 0 < abs(x) < 1]))[:12]
