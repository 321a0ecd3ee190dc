"""Loops that change their parameters themselves: the gradients that they take off, verified.

`W -= lr * dW`, in NumPy or PyTorch: neither a backward pass nor an optimizer is to be seen. When
the second turn of such a loop begins, it is run in a copy of the process, its updates rewritten
(`updates.py`): the loss that it computes or prints is held against the gradients that it takes off.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeAlias, cast, final

import numpy as np

from chainrule.verify.script.byhand import code_hooks, loops
from chainrule.verify.script.byhand.loss import (
    UnlikeError,
    likeliest_step_with_rate,
    reproduced_steps,
)
from chainrule.verify.script.byhand.script_state import ScriptState, array_of, same_draws, widen
from chainrule.verify.script.byhand.slots import MOST, ShapeError, Slot, Slots, named
from chainrule.verify.script.byhand.step import (
    HandStep,
    Parameters,
    fits_in_memory,
    number,
    steps_of,
)
from chainrule.verify.script.byhand.step_text import StepText, expressions_behind, turn_text
from chainrule.verify.script.byhand.updates import LEAVE, rewritten, updates_in
from chainrule.verify.subject import Array, Input
from chainrule.verify.trees import tree_of_file
from chainrule.verify.user_frames import users_files

Values: TypeAlias = dict[str, Any]
_CANDIDATES = 8
"""Numbers that may be the loss."""


@final
class Updated(Parameters):
    """What the rewritten updates of a step hand over."""

    def __init__(self, slots: Slots, parameters: Sequence[Slot]) -> None:
        self._slots = slots
        self._parameters = parameters

    def put(self, xs: Sequence[Any]) -> None:
        """Other values, and no gradients."""
        self._slots.forget()
        for slot, x in zip(self._parameters, xs, strict=True):
            slot.array[...] = x
            self._slots.move(slot)

    def gradients(self) -> list[Array | None]:
        """What would be taken off, without its rate."""
        return [None if s.gradient is None else s.gradient.copy() for s in self._parameters]


@dataclass(frozen=True, eq=False)
class Turn:
    """A turn that was run once, with its updates rewritten."""

    text: StepText
    scope: dict[str, Any]
    slots: Slots
    found: Sequence[Slot]
    """The parameters that it updates."""
    values: Values
    """What its variables were at its end."""
    counts: Sequence[int]
    """How often it updates each of them."""

    @property
    def names(self) -> list[str]:
        """Of the parameters."""
        return [min(s.names, key=len) for s in self.found]


def turn_of(line: int, frame: FrameType) -> Turn:
    """The turn of a loop that a frame is about to make. Changes what the frame sees: for a copy of
    the process.

    Raises `UnlikeError` if it cannot be judged.
    """
    code_hooks.silence()
    scope, file = frame.f_globals, frame.f_code.co_filename
    scope.update(frame.f_locals)
    loop = loops.loop_at(tree_of_file(file), line)
    fits_in_memory(scope)
    widen(scope)
    name = frame.f_code.co_qualname
    within = "" if name == "<module>" else name
    give_numbers_memory(loop, scope)
    after = () if loop is None else expressions_behind(tree_of_file(file), loop)
    text = None if loop is None else turn_text(loop, file, within, scope, after)
    if loop is None or text is None:
        raise UnlikeError("its turn cannot stand alone")
    targets: frozenset[str] | None = None
    passing = _passing(loop)
    for _ in range(2):
        slots = Slots()
        setattr(builtins, LEAVE, slots)
        text = _rewriting(text, scope, targets)
        values = _primed(text, scope)
        slots.settle()
        found = named(slots, scope, passing)
        targets = frozenset([w for s in found for w in s.written])
        if found and not {w for s in slots for w in s.written} - targets:
            return Turn(text, scope, slots, found, values, [s.times for s in found])
        # Else some are values on the way, which no turn begins with: they change as they did.
    raise UnlikeError("no parameter was seen to be updated in it")


def steps_of_turn(turn: Turn) -> list[HandStep]:
    """A turn as subjects, one for each number that may be its loss; `UnlikeError` if there is none,
    or if they are others when they are run again."""
    found, names = turn.found, turn.names
    if len(found) > MOST:
        raise UnlikeError(f"it updates {len(found)} parameters; {MOST} are looked at at most")
    claimed = [np.zeros(s.array.shape) if s.gradient is None else s.gradient for s in found]
    losses = _losses(turn)
    if not losses:
        raise UnlikeError("no loss was seen beside them, one number that it computes or prints")
    inputs = [Input(n, s.array.copy(), wanted=True) for n, s in zip(names, found, strict=True)]
    parameters = Updated(turn.slots, found)
    steps = steps_of(turn.text, turn.scope, tuple(inputs), parameters, list(losses))
    return reproduced_steps(steps, losses, claimed)


def subject_of_turn(turn: Turn, steps: Sequence[HandStep]) -> HandStep:
    """The one of the loss that is the likeliest; `UnlikeError` if none is."""
    once = all(count <= len(s.written) for s, count in zip(turn.found, turn.counts, strict=True))
    return likeliest_step_with_rate(steps, once=once)


def _passing(loop: ast.AST) -> set[str]:
    """Names that loops give to one thing after another."""
    targets = [n.target for n in ast.walk(loop) if isinstance(n, ast.For)]
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}


def give_numbers_memory(loop: ast.AST | None, scope: dict[str, Any]) -> None:
    """Give plain numbers that are updated by name memory of their own."""
    names = [u.target for u in updates_in(loop)] if loop is not None else []
    for target in names:
        x = scope.get(target.id) if isinstance(target, ast.Name) else None
        if isinstance(x, float) and isinstance(target, ast.Name):
            scope[target.id] = np.array(x)


def _primed(text: StepText, scope: dict[str, Any]) -> Values:
    """What the variables of a turn are at its end; the scope is as it was."""
    held = ScriptState(scope)
    run = text.function("locals()", scope)
    try:
        with same_draws():
            return dict(run())
    except ShapeError as error:
        raise UnlikeError(f"a gradient has shape {error}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise UnlikeError(f"its turn could not be run again: {why}") from error
    finally:
        held.restore()


def _losses(turn: Turn) -> dict[str, float]:
    """Expressions that are one number at the end of a turn, and that number."""
    text, scope = turn.text, turn.scope
    found, held = dict[str, float](), ScriptState(scope)
    for expression in text.results:
        if len(found) == _CANDIDATES:
            break
        try:
            turn.slots.forget()
            with same_draws():  # a name is what it is by then; what is called may read more
                simple = expression in turn.values
                run = None if simple else text.function(expression, scope)
                value = turn.values[expression] if run is None else run()
        except Exception:
            continue
        finally:
            held.restore()
        if _is_loss(value):
            found[expression] = number(value)
    return found


def _is_loss(value: Any) -> bool:
    """Whether it is one finite number with digits behind the point."""
    array = array_of(value)
    if array is None:
        return isinstance(value, float) and bool(np.isfinite(value))
    return array.size == 1 and array.dtype.kind == "f" and bool(np.all(np.isfinite(array)))


def _rewriting(text: StepText, scope: dict[str, Any], targets: frozenset[str] | None) -> StepText:
    """The text, and all functions of the user's, with updates of some targets rewritten."""
    change = cast("Callable[[ast.AST], ast.AST]", functools.partial(rewritten, targets=targets))
    return rewriting(text, scope, change)


def rewriting(
    text: StepText, scope: dict[str, Any], change: Callable[[ast.AST], ast.AST]
) -> StepText:
    """The text, and all functions of the user's that hold an update, changed."""
    codes = dict[tuple[str, str, int], CodeType]()
    spaces = _spaces(scope)
    files = [str(space.get("__file__")) for space in spaces[1:]]
    for file in {text.file, *files}:
        tree = tree_of_file(file)
        if any(True for _ in updates_in(tree)):
            made = cast("ast.Module", change(copy.deepcopy(tree)))
            code = compile(made, file, "exec", dont_inherit=True)
            codes.update({_key(c): c for c in _inner(code)})
    for f in _functions(spaces):
        code = codes.get(_key(f.__code__))
        if code is not None and code.co_freevars == f.__code__.co_freevars:
            f.__code__ = code
    return replace(text, rewritten=change)


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _inner(code: CodeType) -> Iterator[CodeType]:
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield c
            yield from _inner(c)


_MOST_ITEMS = 1000
"""Of a list, whose classes lead to modules."""


def _spaces(scope: dict[str, Any]) -> list[dict[str, Any]]:
    """The scope, and the names of those of the user's modules to which what it names leads."""
    files, found = {*users_files()}, [scope]
    known = set[str]()
    for space in found:
        new = {_module_name(x) for x in _things(space.values())} - known
        known |= new
        modules = [module for name in sorted(new) if (module := sys.modules.get(name)) is not None]
        found += [vars(m) for m in modules if getattr(m, "__file__", None) in files]
    return found


def _things(values: Iterable[Any]) -> Iterator[Any]:
    """Values, and what lists, tuples and dicts among them hold."""
    for x in list(values):
        yield x
        if isinstance(x, list | tuple | dict):
            held = cast("Iterable[Any]", x.values() if isinstance(x, dict) else x)
            yield from list(islice(held, _MOST_ITEMS))


def _module_name(x: Any) -> str:
    """The name of a module, of that of a function or class, or of that of a thing's class."""
    of = x if isinstance(x, FunctionType | type) else type(x)
    return str(x.__name__ if isinstance(x, ModuleType) else of.__module__)


def _functions(spaces: Sequence[dict[str, Any]]) -> Iterator[FunctionType]:
    """Functions of the script's, of its modules' and of their classes."""
    for space in spaces:
        for x in list(space.values()):
            every = vars(cast("type[Any]", x)).values() if isinstance(x, type) else [x]
            for f in every:
                plain: object = getattr(f, "__func__", getattr(f, "fget", f))
                if isinstance(plain, FunctionType):
                    yield plain
